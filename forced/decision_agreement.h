// Do two configurations decide alike? Rows of logits of the same states, one from each, compared as choices: for
// states that were reached by different ways (cold, continued), where no text says what should follow.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/json_reader.h"
#include "stats/effect.h"

namespace tare::forced {

inline constexpr std::size_t kWinnersSought = 5;   // the baseline's choice among the arm's so many best
inline constexpr std::size_t kOverlapTokens = 10;  // of the best tokens of either
inline constexpr std::size_t kCommonTokens = 100;  // of the best tokens of either; those of both are compared
inline constexpr double kHighMargin = 0.5;         // nats between the baseline's first two: no near tie

struct DecisionScore {
  bool matches = false;              // same most likely token, ties to the lowest id
  bool winner_is_near = false;       // the baseline's choice is among the arm's five best
  double overlap = 0;                // share of the ten best of either that the other has too
  double log_probability_error = 0;  // mean |ln p - ln q| over the tokens among the hundred best of both
  double margin = 0;                 // ln p of the baseline's first less its second
  bool identical = false;            // every logit has the same bits
};

// Rows of the same length, at least 2. Smaller vocabularies than ten or a hundred are compared whole. Throws Error
// (invalid) for logits that are NaN or +inf.
[[nodiscard]] DecisionScore compare_decisions(std::span<const float> baseline, std::span<const float> arm);

struct DecisionAgreement {
  std::int64_t states = 0;
  std::int64_t matches = 0;
  stats::Interval match_interval;  // Wilson; states of one history are not independent, so it is a little narrow
  std::int64_t winners_near = 0;
  double mean_overlap = 0;
  double mean_log_probability_error = 0;
  double largest_log_probability_error = 0;
  std::int64_t high_margin_states = 0;
  std::int64_t high_margin_matches = 0;
  std::int64_t identical = 0;
};

// Throws Error (input) for no scores.
[[nodiscard]] DecisionAgreement summarise_decisions(std::span<const DecisionScore> scores, double level = 0.95);
[[nodiscard]] Json to_json(const DecisionAgreement& agreement);

}  // namespace tare::forced
