#include "harness/fidelity/needle_arms.h"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <memory>
#include <utility>

#include "base/error.h"
#include "base/philox.h"
#include "engine/backends/make_backend.h"

namespace tare::harness {
namespace {

constexpr std::uint64_t kNoiseSeed = 17;

struct NamedCorruption {
  NeedleCorruption corruption;
  const char* name;
  double noise;  // of a state's root mean square
};
constexpr NamedCorruption kCorruptions[] = {{NeedleCorruption::kNone, "none", 0},
                                            {NeedleCorruption::kAbsent, "another fact in its place", 0},
                                            {NeedleCorruption::kNoRows, "no keys and values of the fact", 0},
                                            {NeedleCorruption::kNoState, "no recurrent state", 0},
                                            {NeedleCorruption::kNeither, "neither of both", 0},
                                            {NeedleCorruption::kCoarseState, "state in int8 blocks", 0},
                                            {NeedleCorruption::kNoise4, "state with noise of 2^-4", 0x1p-4},
                                            {NeedleCorruption::kNoise2, "state with noise of 2^-2", 0x1p-2},
                                            {NeedleCorruption::kNoise0, "state with noise of 1", 1}};

const NamedCorruption& named(NeedleCorruption corruption) {
  for (const NamedCorruption& one : kCorruptions)
    if (one.corruption == corruption) return one;
  throw internal_error("a corruption has no name");
}

bool spoils_state(NeedleCorruption corruption) {
  return corruption != NeedleCorruption::kNoRows;
}

void spoil_state(NeedleCorruption corruption, const engine::ModelConfig& config, std::vector<float>& state) {
  if (corruption == NeedleCorruption::kNoState || corruption == NeedleCorruption::kNeither)
    return std::fill(state.begin(), state.end(), 0.0F);
  if (corruption == NeedleCorruption::kCoarseState)
    return engine::round_state(engine::StateFormat::kInt8, state, config.linear_value_head_dim);
  const double noise = named(corruption).noise;
  const auto head = static_cast<std::size_t>(config.linear_key_head_dim * config.linear_value_head_dim);
  Philox random(kNoiseSeed);
  for (std::size_t begin = 0; begin < state.size(); begin += head) {
    double squares = 0;
    for (std::size_t i = begin; i < begin + head; ++i) squares += static_cast<double>(state[i]) * state[i];
    const double most = noise * std::sqrt(squares / static_cast<double>(head));
    for (std::size_t i = begin; i < begin + head; ++i)
      state[i] += static_cast<float>(most * (2 * random.uniform() - 1));
  }
}

// Takes the sequence out, spoils it and puts it back.
void spoil(engine::Backend& backend, const forced::Needle& needle, NeedleCorruption corruption) {
  const bool rows_too = corruption == NeedleCorruption::kNoRows || corruption == NeedleCorruption::kNeither;
  const std::int64_t end = backend.frontier();
  const std::int64_t fact_end = needle.fact + forced::kNeedleKey + forced::kNeedleValue;
  const std::vector<std::byte> before =
      needle.fact > 0 ? backend.export_rows(0, needle.fact) : std::vector<std::byte>{};
  std::vector<std::byte> fact = backend.export_rows(needle.fact, fact_end);
  const std::vector<std::byte> after = backend.export_rows(fact_end, end);
  engine::SequenceCheckpoint checkpoint = backend.export_checkpoint();
  if (rows_too) std::fill(fact.begin(), fact.end(), std::byte{0});
  if (spoils_state(corruption)) spoil_state(corruption, backend.config(), checkpoint.recurrent);
  backend.reset();
  if (needle.fact > 0) backend.import_rows(0, needle.fact, before);
  backend.import_rows(needle.fact, fact_end, fact);
  backend.import_rows(fact_end, end, after);
  backend.import_checkpoint(checkpoint);
}

forced::NeedleScore ask(engine::Backend& backend, const forced::Needle& needle, NeedleCorruption corruption) {
  backend.reset();
  (void)backend.prefill(needle.prompt);
  if (corruption != NeedleCorruption::kNone && corruption != NeedleCorruption::kAbsent)
    spoil(backend, needle, corruption);
  std::vector<double> log_probabilities;
  for (const std::vector<std::int32_t>& value : needle.values) {
    std::vector<std::int32_t> chain = {needle.anchor};
    chain.insert(chain.end(), value.begin(), value.end() - 1);
    const engine::VerifyOutput output = backend.verify(chain, {.logits = true, .hidden = false});
    log_probabilities.push_back(forced::value_log_probability(output.logits, value));
    backend.commit(0);
  }
  return forced::score_needle(log_probabilities);
}

// By length and depth.
using Scores = std::map<std::pair<std::int64_t, double>, std::vector<forced::NeedleScore>>;

void append_rows(const std::string& arm, NeedleCorruption corruption, const Scores& scores,
                 std::vector<NeedleRow>& rows) {
  for (const auto& [place, found] : scores)
    rows.push_back({arm, corruption, place.first, place.second, forced::summarise_needles(found)});
}

}  // namespace

std::string to_text(NeedleCorruption corruption) {
  return named(corruption).name;
}

std::vector<NeedleRow> ask_needles(const engine::Reference& reference, const FidelitySettings& settings,
                                   const FidelityProgress& progress) {
  for (const FidelityArm& arm : settings.arms)
    if (arm.options.head.screen != engine::HeadScreen::kNone)
      throw input_error("--needle", "arm " + arm.name + " has a screened head, which has no log-probabilities",
                        "set its head.screen to none");
  const std::vector<forced::Needle> needles = forced::make_needles(reference);
  const std::vector<forced::Needle> absent = forced::make_needles(reference, true);
  const std::unique_ptr<engine::Checkpoint> checkpoint = engine::open_checkpoint(settings.model);
  std::vector<NeedleRow> rows;
  const auto total = static_cast<std::int64_t>(needles.size());
  const auto ask_all = [&](const FidelityArm& arm, engine::Backend& backend, NeedleCorruption corruption,
                           std::int64_t least_length) {
    Scores scores;
    const std::vector<forced::Needle>& asked = corruption == NeedleCorruption::kAbsent ? absent : needles;
    for (std::int64_t i = 0; i < total; ++i) {
      progress(fmt::format("{}, needles, corruption: {}", arm.name, to_text(corruption)), i, total);
      const forced::Needle& needle = asked[static_cast<std::size_t>(i)];
      if (needle.length < least_length) continue;
      scores[{needle.length, needle.depth}].push_back(ask(backend, needle, corruption));
    }
    append_rows(arm.name, corruption, scores, rows);
  };
  std::unique_ptr<engine::Backend> baseline;
  for (const FidelityArm& arm : settings.arms) {
    std::unique_ptr<engine::Backend> backend = engine::make_backend(*checkpoint, arm.options);
    ask_all(arm, *backend, NeedleCorruption::kNone, 0);
    if (baseline == nullptr) baseline = std::move(backend);
  }
  const FidelityArm& first = settings.arms.front();
  const bool spoils = first.options.backend == engine::BackendKind::kCpu;
  for (const NamedCorruption& one : kCorruptions)
    if (one.corruption == NeedleCorruption::kAbsent || (spoils && one.corruption != NeedleCorruption::kNone))
      ask_all(first, *baseline, one.corruption, reference.window_tokens);
  progress("needles", total, total);
  return rows;
}

Json needle_json(const std::vector<NeedleRow>& rows) {
  Json list = Json::array();
  for (const NeedleRow& row : rows) {
    Json one = forced::to_json(row.summary);
    one["arm"] = row.arm;
    one["corruption"] = to_text(row.corruption);
    one["length"] = row.length;
    one["depth"] = row.depth;
    list.push_back(std::move(one));
  }
  return {{"key_tokens", forced::kNeedleKey},
          {"value_tokens", forced::kNeedleValue},
          {"choices", forced::kNeedleChoices},
          {"rows", std::move(list)}};
}

std::string needle_table(const Json& needle) {
  std::string text =
      "| arm | corruption | tokens | depth | found [Wilson] | margin, nats a token |\n|---|---|---|---|---|---|\n";
  for (const Json& row : needle["rows"])
    text += fmt::format("| {} | {} | {} | {:.1f} | {} of {} [{:.2f}, {:.2f}] | {:.2f} |\n",
                        row["arm"].get<std::string>(), row["corruption"].get<std::string>(),
                        row["length"].get<std::int64_t>(), row["depth"].get<double>(), row["found"].get<std::int64_t>(),
                        row["needles"].get<std::int64_t>(), row["interval"][0].get<double>(),
                        row["interval"][1].get<double>(), row["mean_margin"].get<double>());
  return text;
}

}  // namespace tare::harness
