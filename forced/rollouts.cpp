#include "forced/rollouts.h"

#include <algorithm>

#include "base/error.h"
#include "stats/proportions.h"

namespace tare::forced {

Rollout describe_rollout(std::span<const std::int32_t> tokens, bool ended) {
  return {static_cast<std::int64_t>(tokens.size()), ended, measure_repetition(tokens)};
}

RolloutSummary summarise_rollouts(std::span<const Rollout> rollouts, double level) {
  if (rollouts.empty()) throw input_error("rollouts", "there are none");
  RolloutSummary summary;
  summary.texts = static_cast<std::int64_t>(rollouts.size());
  const auto count = static_cast<double>(rollouts.size());
  for (const Rollout& rollout : rollouts) {
    const Repetition& repetition = rollout.repetition;
    const double tokens = static_cast<double>(std::max<std::int64_t>(rollout.tokens, 1));
    summary.ended += rollout.ended ? 1 : 0;
    summary.looping += is_repetitive(repetition, rollout.tokens) ? 1 : 0;
    summary.tokens += static_cast<double>(rollout.tokens) / count;
    summary.periodic_share += static_cast<double>(repetition.periodic_suffix_tokens) / tokens / count;
    summary.dominant_share += repetition.dominant_token_share / count;
    summary.distinct_share += static_cast<double>(repetition.distinct_tokens) / tokens / count;
    summary.longest_run = std::max(summary.longest_run, repetition.longest_run);
  }
  summary.looping_interval =
      stats::wilson_interval(static_cast<std::uint64_t>(summary.looping), rollouts.size(), level);
  return summary;
}

Json to_json(const RolloutSummary& summary) {
  return {{"texts", summary.texts},
          {"ended", summary.ended},
          {"looping", summary.looping},
          {"looping_interval", {summary.looping_interval.low, summary.looping_interval.high}},
          {"tokens", summary.tokens},
          {"periodic_share", summary.periodic_share},
          {"dominant_share", summary.dominant_share},
          {"distinct_share", summary.distinct_share},
          {"longest_run", summary.longest_run}};
}

}  // namespace tare::forced
