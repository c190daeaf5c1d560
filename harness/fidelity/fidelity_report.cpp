#include "harness/fidelity/fidelity_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "harness/fidelity/needle_arms.h"
#include "harness/fidelity/rollout_arms.h"

namespace tare::harness {
namespace {

// The baseline's pass of the same path, nodes and head; null when there is none.
const FidelityPass* baseline_pass(const FidelityMeasurement& measurement, const FidelityPass& pass) {
  for (const FidelityPass& other : measurement.passes)
    if (other.arm == measurement.arms.front().name && other.rung == 0 && other.path == pass.path &&
        other.nodes == pass.nodes && other.head == pass.head)
      return &other;
  return nullptr;
}

Json pass_json(const engine::Reference& reference, const FidelityMeasurement& measurement, const FidelityPass& pass,
               const std::string& kind, const forced::SummaryOptions& options) {
  Json row = {{"arm", pass.arm}, {"path", pass.path}};
  if (pass.path == "decode") row["nodes"] = pass.nodes;
  row["head"] = pass.head;
  if (pass.rung > 0) {
    row["rung"] = pass.rung;
    row["bits"] = bits_of_rung(pass.rung);
  }
  row.update(forced::to_json(forced::summarise(reference, pass.scores, kind, options)));
  const FidelityPass* baseline = baseline_pass(measurement, pass);
  if (baseline != nullptr && baseline != &pass) {
    Json difference =
        forced::to_json(forced::summarise_difference(reference, pass.scores, baseline->scores, kind, options));
    difference.erase("kind");
    row["difference"] = difference;
  }
  return row;
}

// Positions at which a rung's choice is not the unrounded one's: the near ties that any inexact change turns.
std::int64_t turned(const FidelityPass& rung, const FidelityPass& baseline) {
  std::int64_t count = 0;
  for (std::size_t w = 0; w < rung.scores.size(); ++w)
    for (std::size_t i = 0; i < rung.scores[w].size(); ++i)
      if (rung.scores[w][i].best != baseline.scores[w][i].best) ++count;
  return count;
}

std::string number(const Json& value, int digits) {
  return value.is_number() ? fmt::format("{:.{}f}", value.get<double>(), digits) : "–";
}

std::string with_interval(const Json& score, int digits, double scale = 1) {
  if (!score["mean"].is_number()) return "–";
  std::string text = fmt::format("{:.{}f}", scale * score["mean"].get<double>(), digits);
  if (score.contains("interval"))
    text += fmt::format(" [{:.{}f}, {:.{}f}]", scale * score["interval"][0].get<double>(), digits,
                        scale * score["interval"][1].get<double>(), digits);
  return text;
}

std::string path_text(const Json& row) {
  return row["path"] == "decode" ? fmt::format("decode {}", row["nodes"].get<std::int64_t>()) : "prefill";
}

std::string place_text(const Json& row) {
  return fmt::format("| {} | {} | {} | {} |", row["arm"].get<std::string>(), path_text(row),
                     row["head"].get<std::string>(), row["kind"].get<std::string>());
}

std::string scores_table(const Json& fidelity) {
  std::string text =
      "| arm | path | head | kind | KL64+tail, nats | trimmed | median | p99 | KL64 | top-1, % | perplexity | ln ratio "
      "to reference |\n|---|---|---|---|---|---|---|---|---|---|---|---|\n";
  for (const Json& row : fidelity["rows"])
    text += fmt::format("{} {} | {} | {} | {} | {} | {} | {} | {} |\n", place_text(row),
                        with_interval(row["kl64_tail"], 5), number(row["kl64_tail_trimmed"], 5),
                        number(row["kl64_tail_quantiles"]["0.5"], 5), number(row["kl64_tail_quantiles"]["0.99"], 4),
                        number(row["kl64"]["mean"], 5), with_interval(row["top1"], 2, 100),
                        number(row["perplexity"], 4), with_interval(row["nll_difference"], 5));
  return text;
}

std::string differences_table(const Json& fidelity) {
  std::string text =
      "| arm | path | head | kind | KL64+tail, nats | top-1, points | nll, nats |\n|---|---|---|---|---|---|---|\n";
  for (const Json& row : fidelity["rows"])
    if (row.contains("difference"))
      text += fmt::format("{} {} | {} | {} |\n", place_text(row), with_interval(row["difference"]["kl64_tail"], 5),
                          with_interval(row["difference"]["top1"], 2, 100), with_interval(row["difference"]["nll"], 5));
  return text;
}

// Of all kinds together (or the only one), own head.
std::string margins_table(const Json& fidelity) {
  std::string head = "| arm | path | head |";
  std::string line = "|---|---|---|";
  std::string rows;
  bool first = true;
  for (const Json& row : fidelity["rows"]) {
    if (row["kind"] != fidelity["rows"][0]["kind"]) continue;
    rows +=
        fmt::format("| {} | {} | {} |", row["arm"].get<std::string>(), path_text(row), row["head"].get<std::string>());
    for (const Json& bucket : row["top1_by_margin"]) {
      const auto positions = bucket["positions"].get<std::int64_t>();
      const auto agreed = bucket["agreed"].get<std::int64_t>();
      if (first) {
        head += fmt::format(" from {} ({}) |", shortest(bucket["from"].get<double>()), positions);
        line += "---|";
      }
      rows += positions > 0
                  ? fmt::format(" {:.2f} |", 100.0 * static_cast<double>(agreed) / static_cast<double>(positions))
                  : std::string(" – |");
    }
    first = false;
    rows += "\n";
  }
  return head + "\n" + line + "\n" + rows;
}

std::string ladder_table(const Json& fidelity) {
  std::string text =
      "| logits rounded to | path | kind | choices turned, of positions | top-1, points | KL64+tail, nats |\n"
      "|---|---|---|---|---|---|\n";
  for (const Json& row : fidelity["ladder"])
    text += fmt::format("| 2^-{} | {} | {} | {} of {} | {} | {} |\n", row["rung"].get<int>(), path_text(row),
                        row["kind"].get<std::string>(), row["turned"].get<std::int64_t>(),
                        row["positions"].get<std::int64_t>(), with_interval(row["difference"]["top1"], 3, 100),
                        with_interval(row["difference"]["kl64_tail"], 6));
  return text;
}

std::string decisions_table(const Json& fidelity) {
  std::string text =
      "| arm | compared | same choice, of states [Wilson] | choice among five best | ten best shared | error of common "
      "ln p | same choice at a high margin | same bits |\n|---|---|---|---|---|---|---|---|\n";
  for (const Json& arm : fidelity["decisions"])
    for (const char* way : {"cold", "continued", "ways", "cached", "restarted"}) {
      if (!arm.contains(way)) continue;
      const Json& agreement = arm[way];
      text += fmt::format(
          "| {} | {} | {} of {} [{}, {}] | {} | {} | {} | {} of {} | {} |\n", arm["arm"].get<std::string>(), way,
          agreement["matches"].get<std::int64_t>(), agreement["states"].get<std::int64_t>(),
          number(agreement["match_interval"][0], 3), number(agreement["match_interval"][1], 3),
          agreement["winners_near"].get<std::int64_t>(), number(agreement["mean_overlap"], 3),
          number(agreement["mean_log_probability_error"], 5), agreement["high_margin_matches"].get<std::int64_t>(),
          agreement["high_margin_states"].get<std::int64_t>(), agreement["identical"].get<std::int64_t>());
    }
  return text;
}

// What the prefix cache spared, an arm a line; empty where none had one.
std::string prefix_caches_text(const Json& fidelity) {
  std::string text;
  for (const Json& arm : fidelity["decisions"]) {
    if (!arm.contains("prefix_cache")) continue;
    const Json& reached = arm["prefix_cache"];
    const Json& cache = reached["cache"];
    text += fmt::format(
        "- {}: {} of {} tokens restored (pages of {}, checkpoints {}); the states took {:.3f} s cold and {:.3f} s from "
        "the cache, {:.1f} times as fast; {:.1f} MB in {} entries.\n",
        arm["arm"].get<std::string>(), reached["restored_tokens"].get<std::int64_t>(),
        reached["tokens"].get<std::int64_t>(), cache["page_tokens"].get<std::int64_t>(),
        cache["checkpoint"].get<std::string>(), reached["cold_s"].get<double>(), reached["cached_s"].get<double>(),
        reached["cold_s"].get<double>() / reached["cached_s"].get<double>(),
        static_cast<double>(cache["bytes"].get<std::int64_t>()) / 1e6,
        cache["stored"].get<std::int64_t>() - cache["evicted"].get<std::int64_t>());
  }
  return text.empty() ? text : "\n" + text;
}

std::string verdicts_table(const Json& fidelity) {
  std::string text =
      "| arm | kind | metric | loss [one-sided bounds] | margin | spent before | verdict "
      "|\n|---|---|---|---|---|---|---|\n";
  for (const Json& verdict : fidelity["verdicts"])
    text += fmt::format(
        "| {} | {} | {} | {} [{}, {}] | {} | {} | {}: {} |\n", verdict["arm"].get<std::string>(),
        verdict["kind"].get<std::string>(), verdict["metric"].get<std::string>(), number(verdict["loss"], 5),
        number(verdict["lower_bound"], 5), number(verdict["upper_bound"], 5), shortest(verdict["margin"].get<double>()),
        number(verdict["spent"], 5), verdict["verdict"].get<std::string>(), verdict["reason"].get<std::string>());
  return text;
}

// What differs from the defaults, as "path=value".
void list_switches(const Json& options, const Json& defaults, const std::string& path,
                   std::vector<std::string>& switches) {
  for (const auto& [key, value] : options.items()) {
    const std::string place = path.empty() ? key : path + "." + key;
    const Json usual = defaults.is_object() && defaults.contains(key) ? defaults[key] : Json();
    if (value.is_object()) {
      list_switches(value, usual, place, switches);
    } else if (value != usual) {
      switches.push_back(place + "=" + (value.is_string() ? value.get<std::string>() : value.dump()));
    }
  }
}

std::string switches_text(const Json& options) {
  std::vector<std::string> switches;
  list_switches(options, engine::to_json(engine::EngineOptions{}), "", switches);
  return switches.empty() ? "defaults" : join(switches, ", ");
}

std::string arms_table(const Json& fidelity) {
  std::string text =
      "| arm | options | bytes a token, MB | resident, MB | prefill, tok/s | decode, tok/s "
      "|\n|---|---|---|---|---|---|\n";
  const auto speed = [](const Json& value) { return value.get<double>() > 0 ? number(value, 0) : std::string("–"); };
  for (const Json& arm : fidelity["arms"])
    text += fmt::format("| {} | `{}` | {:.2f} | {:.2f} | {} | {} |\n", arm["name"].get<std::string>(),
                        switches_text(arm["options"]), arm["bytes_per_round"].get<double>() / 1e6,
                        arm["resident_bytes"].get<double>() / 1e6, speed(arm["prefill_tokens_per_second"]),
                        speed(arm["decode_tokens_per_second"]));
  return text;
}

}  // namespace

Json begin_fidelity(const engine::Reference& reference, const std::string& baseline,
                    const FidelityConditions& conditions) {
  return {{"version", kFidelityVersion},
          {"complete", false},
          {"model", conditions.model},
          {"reference",
           {{"file", conditions.reference_file},
            {"digest", conditions.reference_digest},
            {"checkpoint", reference.digests.checkpoint},
            {"tokenizer", reference.digests.tokenizer},
            {"texts", reference.digests.texts},
            {"tokens", reference.digests.tokens},
            {"compute", reference.compute}}},
          {"windows", reference.window_count()},
          {"window_tokens", reference.window_tokens},
          {"first_position", conditions.summary.first_position},
          {"level", conditions.summary.level},
          {"seed", conditions.summary.seed},
          {"baseline", baseline},
          {"arms", Json::array()},
          {"rows", Json::array()}};
}

void add_arm(Json& fidelity, const engine::Reference& reference, const FidelityMeasurement& measurement,
             const FidelityConditions& conditions) {
  const FidelityArmFacts& arm = measurement.arms.back();
  fidelity["arms"].push_back({{"name", arm.name},
                              {"options", arm.options},
                              {"description", arm.description},
                              {"bytes_per_round", arm.bytes_per_round},
                              {"resident_bytes", arm.resident_bytes},
                              {"prefill_tokens_per_second", arm.prefill_tokens_per_second},
                              {"decode_tokens_per_second", arm.decode_tokens_per_second}});
  const std::vector<std::string> kinds = forced::summary_kinds(reference);
  for (const FidelityPass& pass : measurement.passes) {
    if (pass.arm != arm.name) continue;
    for (const std::string& kind : kinds) {
      if (pass.rung == 0) {
        fidelity["rows"].push_back(pass_json(reference, measurement, pass, kind, conditions.summary));
      } else if (kind == kinds.front()) {
        Json rung = pass_json(reference, measurement, pass, kind, conditions.summary);
        rung["turned"] = turned(pass, *baseline_pass(measurement, pass));
        fidelity["ladder"].push_back(std::move(rung));
      }
    }
  }
}

Json fidelity_json(const engine::Reference& reference, const FidelityMeasurement& measurement,
                   const FidelityConditions& conditions) {
  Json fidelity = begin_fidelity(reference, measurement.arms.front().name, conditions);
  FidelityMeasurement so_far;
  so_far.passes = measurement.passes;
  for (const FidelityArmFacts& arm : measurement.arms) {
    so_far.arms.push_back(arm);
    add_arm(fidelity, reference, so_far, conditions);
  }
  fidelity["complete"] = true;
  return fidelity;
}

void add_verdicts(Json& fidelity, const std::vector<forced::FidelityVerdict>& verdicts,
                  const std::string& policy_digest) {
  Json list = Json::array();
  for (const forced::FidelityVerdict& verdict : verdicts) list.push_back(forced::to_json(verdict));
  fidelity["policy"] = policy_digest;
  fidelity["verdict"] = std::string(stats::verdict_name(forced::overall_verdict(verdicts)));
  fidelity["verdicts"] = std::move(list);
}

std::string fidelity_markdown(const Json& fidelity) {
  const double level = 100 * fidelity["level"].get<double>();
  std::string text = fmt::format(
      "# Fidelity of {}\n\nAgainst the {} reference of {} windows of {} tokens (file digest {}); positions from {} on "
      "are "
      "scored. In brackets: {}\n% bootstrap-t intervals over windows. What the scores are: "
      "docs/method/fidelity.md.\n\n",
      fidelity["model"].get<std::string>(), fidelity["reference"]["compute"].get<std::string>(),
      fidelity["windows"].get<std::int64_t>(), fidelity["window_tokens"].get<std::int64_t>(),
      fidelity["reference"]["digest"].get<std::string>(), fidelity["first_position"].get<std::int64_t>(),
      shortest(level));
  if (!fidelity.value("complete", true)) text += "**The run goes on or was stopped: arms are missing.**\n\n";
  text +=
      "## Arms\nBytes: of one token at half a window, by the arm's own inventory. Speeds: of these walks, on the "
      "machine as "
      "it was; not a measurement of speed.\n\n" +
      arms_table(fidelity);
  text += "\n## Scores\n" + scores_table(fidelity);
  if (fidelity["arms"].size() > 1)
    text += fmt::format("\n## Differences to {}\nPaired by window.\n\n", fidelity["baseline"].get<std::string>()) +
            differences_table(fidelity);
  text +=
      "\n## Agreement by the reference's margin\nPercent of positions whose choice is the reference's; columns begin "
      "at "
      "a margin in nats (positions).\n\n" +
      margins_table(fidelity);
  if (fidelity.contains("ladder"))
    text +=
        "\n## Ladder: what any rounding costs\nThe baseline's logits, each rounded to a relative error of at most "
        "that; "
        "differences are to the baseline unrounded.\n\n" +
        ladder_table(fidelity);
  if (fidelity.contains("decisions"))
    text +=
        "\n## Decisions\nAt states with no text to follow, against the baseline: cold (one prompt) and continued "
        "(history "
        "in the caches, branch decoded); ways: the arm's own two; cached: its own cold and the history from a prefix "
        "cache; restarted: another engine's.\n\n" +
        decisions_table(fidelity) + prefix_caches_text(fidelity);
  if (fidelity.contains("needle"))
    text += fmt::format(
                "\n## Needles\nA fact of random tokens in the window, asked for at its end: found when its value is "
                "more probable than {} others. Corruptions are of {}.\n\n",
                fidelity["needle"]["choices"].get<std::int64_t>() - 1, fidelity["baseline"].get<std::string>()) +
            needle_table(fidelity["needle"]);
  if (fidelity.contains("rollouts"))
    text +=
        "\n## Rollouts\nTexts written greedily from the recorded prompts; and of the recorded texts, forced, the "
        "choices "
        "that are the record's.\n\n" +
        rollouts_table(fidelity["rollouts"]);
  if (fidelity.contains("verdicts"))
    text += fmt::format("\n## Verdict: {}\nPolicy {}.\n\n", fidelity["verdict"].get<std::string>(),
                        fidelity["policy"].get<std::string>()) +
            verdicts_table(fidelity);
  return text;
}

std::string fidelity_text(const Json& fidelity) {
  std::size_t width = 3;
  for (const Json& arm : fidelity["arms"]) width = std::max(width, arm["name"].get_ref<const std::string&>().size());
  std::string text = fmt::format("{:<{}}  {:<10}  {:<8}  {:<5}  {:>30}  {:>24}  {:>10}\n", "arm", width, "path", "head",
                                 "kind", "KL64+tail, nats", "top-1, %", "perplexity");
  for (const Json& row : fidelity["rows"])
    text += fmt::format("{:<{}}  {:<10}  {:<8}  {:<5}  {:>30}  {:>24}  {:>10}\n", row["arm"].get<std::string>(), width,
                        path_text(row), row["head"].get<std::string>(), row["kind"].get<std::string>(),
                        with_interval(row["kl64_tail"], 6), with_interval(row["top1"], 2, 100),
                        number(row["perplexity"], 4));
  if (fidelity.contains("verdict")) text += fmt::format("verdict: {}\n", fidelity["verdict"].get<std::string>());
  return text;
}

}  // namespace tare::harness
