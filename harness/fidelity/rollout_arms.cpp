#include "harness/fidelity/rollout_arms.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "base/error.h"
#include "engine/backends/make_backend.h"
#include "engine/decode/session.h"

namespace tare::harness {
namespace {

bool ends(std::span<const std::int32_t> tokens, std::span<const std::int32_t> end_of_text) {
  return !tokens.empty() && std::find(end_of_text.begin(), end_of_text.end(), tokens.back()) != end_of_text.end();
}

Json row_of(const std::string& name, const forced::RolloutSummary& summary) {
  Json row = forced::to_json(summary);
  row["arm"] = name;
  return row;
}

}  // namespace

RolloutComparison compare_rollouts(const forced::RoundsFile& file, const FidelitySettings& settings,
                                   const FidelityProgress& progress) {
  const std::unique_ptr<engine::Checkpoint> checkpoint = engine::open_checkpoint(settings.model);
  if (checkpoint->config().vocab_size != file.vocab_size)
    throw input_error("--rollouts", fmt::format("are of a vocabulary of {}, {} has {}", file.vocab_size, settings.model,
                                                checkpoint->config().vocab_size));
  const std::vector<std::int32_t>& end_of_text = checkpoint->config().eos_token_ids;
  RolloutComparison comparison;
  std::vector<forced::Rollout> recorded;
  for (const forced::RecordedText& text : file.texts)
    recorded.push_back(forced::describe_rollout(text.tokens, ends(text.tokens, end_of_text)));
  comparison.recorded = forced::summarise_rollouts(recorded);
  std::size_t most = 1;  // what a text had room for; those that ended are shorter
  for (const forced::RecordedText& text : file.texts) most = std::max(most, text.tokens.size());
  const auto total = static_cast<std::int64_t>(settings.arms.size() * file.texts.size());
  std::int64_t done = 0;
  for (const FidelityArm& arm : settings.arms) {
    const std::unique_ptr<engine::Backend> backend = engine::make_backend(*checkpoint, arm.options);
    ArmRollouts result;
    result.arm = arm.name;
    std::vector<forced::Rollout> written;
    for (const forced::RecordedText& text : file.texts) {
      progress(arm.name + ", rollouts", done++, total);
      const std::unique_ptr<engine::TokenPolicy> free = engine::make_greedy_policy();
      const engine::GenerationLimits limits{.max_tokens = static_cast<std::int64_t>(most),
                                            .end_of_text_tokens = end_of_text};
      const engine::Generation own = engine::generate(*backend, text.prompt_tokens, *free, limits);
      written.push_back(forced::describe_rollout(own.tokens, ends(own.tokens, end_of_text)));
      const std::unique_ptr<engine::TokenPolicy> forced =
          engine::make_forced_policy(text.tokens, engine::make_greedy_policy());
      const engine::Generation led = engine::generate(*backend, text.prompt_tokens, *forced, limits);
      std::int64_t agreed = 0;
      for (std::size_t i = 0; i < led.tokens.size(); ++i) agreed += led.tokens[i] == led.natural[i] ? 1 : 0;
      const auto tokens = static_cast<std::int64_t>(led.tokens.size());
      result.replayed_tokens += tokens;
      result.agreed_tokens += agreed;
      result.texts_agreed += agreed == tokens ? 1 : 0;
    }
    result.written = forced::summarise_rollouts(written);
    comparison.arms.push_back(std::move(result));
  }
  progress("rollouts", total, total);
  return comparison;
}

Json to_json(const RolloutComparison& comparison) {
  Json arms = Json::array();
  for (const ArmRollouts& arm : comparison.arms) {
    Json row = row_of(arm.arm, arm.written);
    row["replayed_tokens"] = arm.replayed_tokens;
    row["agreed_tokens"] = arm.agreed_tokens;
    row["texts_agreed"] = arm.texts_agreed;
    arms.push_back(std::move(row));
  }
  return {{"recorded", row_of("recorded", comparison.recorded)}, {"arms", std::move(arms)}};
}

std::string rollouts_table(const Json& rollouts) {
  std::string text =
      "| texts of | ended | capped | looping [Wilson] | tokens | periodic suffix, % | one token, % | distinct tokens, "
      "% "
      "| longest run | choices as recorded | texts as recorded |\n|---|---|---|---|---|---|---|---|---|---|---|\n";
  const auto percent = [](const Json& share) { return 100 * share.get<double>(); };
  const auto add = [&](const Json& row) {
    const auto texts = row["texts"].get<std::int64_t>();
    const auto ended = row["ended"].get<std::int64_t>();
    text += fmt::format("| {} | {} | {} | {} of {} [{:.2f}, {:.2f}] | {:.1f} | {:.1f} | {:.1f} | {:.1f} | {} |",
                        row["arm"].get<std::string>(), ended, texts - ended, row["looping"].get<std::int64_t>(), texts,
                        row["looping_interval"][0].get<double>(), row["looping_interval"][1].get<double>(),
                        row["tokens"].get<double>(), percent(row["periodic_share"]), percent(row["dominant_share"]),
                        percent(row["distinct_share"]), row["longest_run"].get<std::int64_t>());
    text += row.contains("replayed_tokens")
                ? fmt::format(" {} of {} | {} |\n", row["agreed_tokens"].get<std::int64_t>(),
                              row["replayed_tokens"].get<std::int64_t>(), row["texts_agreed"].get<std::int64_t>())
                : std::string(" – | – |\n");
  };
  add(rollouts["recorded"]);
  for (const Json& arm : rollouts["arms"]) add(arm);
  return text;
}

}  // namespace tare::harness
