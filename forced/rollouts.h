// What texts that a configuration wrote on its own look like: scores of forced text do not see that a model runs into
// loops or does not end.
#pragma once

#include <cstdint>
#include <span>

#include "base/json_reader.h"
#include "forced/replay_text.h"
#include "stats/effect.h"

namespace tare::forced {

struct Rollout {
  std::int64_t tokens = 0;
  bool ended = false;  // by an end-of-text token; else capped by the number of tokens
  Repetition repetition;
};
[[nodiscard]] Rollout describe_rollout(std::span<const std::int32_t> tokens, bool ended);

struct RolloutSummary {
  std::int64_t texts = 0;
  std::int64_t ended = 0;
  std::int64_t looping = 0;          // repetitive, as replay_text.h says
  stats::Interval looping_interval;  // Wilson
  // Means over texts.
  double tokens = 0;
  double periodic_share = 0;  // of the text, the periodic suffix
  double dominant_share = 0;
  double distinct_share = 0;     // distinct tokens / tokens
  std::int64_t longest_run = 0;  // of one token, in any text
};
// Throws Error (input) for none.
[[nodiscard]] RolloutSummary summarise_rollouts(std::span<const Rollout> rollouts, double level = 0.95);
[[nodiscard]] Json to_json(const RolloutSummary& summary);

}  // namespace tare::forced
