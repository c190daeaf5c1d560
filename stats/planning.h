// How small an effect a plan can show, and what a wanted effect costs. Everything rests on the usual approximation to
// the non-central t (a little low below five pairs):
//   detectable = (t(1 - alpha/2) + t(power)) SE,  t with the design's degrees of freedom
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "stats/analysis.h"

namespace tare::stats {

// Paired differences with standard deviation sd, n pairs: SE = sd / sqrt(n), df n - 1. In the unit of `difference_sd`.
// Throws Error (input) for pairs < 2, alpha or power outside (0, 1).
[[nodiscard]] double minimum_detectable_effect(double difference_sd, int pairs, double alpha = 0.05,
                                               double power = 0.8);

// Fewest pairs (at least 5, so that four degrees of freedom remain) with minimum_detectable_effect <= effect; effect >
// 0. Throws Error (input) when more than a million would be needed.
[[nodiscard]] int pairs_for_effect(double effect, double difference_sd, double alpha = 0.05, double power = 0.8);

// What an experiment of this harness can show. Granularity `run`: `unit_sd` of one run's ln rate around arm and drift;
// SE = unit_sd sqrt(2 / runs an arm), df = runs - arms - drift degree (by rule). Granularity `prompt`: `unit_sd` of one
// block's difference; SE = unit_sd / sqrt(blocks), df = blocks - 2 (blocks - 1 below six). With several arms alpha is
// shared among the comparisons (Holm's first step), so every one of them is detected.
struct DesignQuestion {
  Granularity granularity = Granularity::kRun;
  int arms = 2;
  double unit_sd = 0;
  double alpha = 0.05;
  double power = 0.8;
};

struct DesignPower {
  int blocks = 0;
  int runs = 0;  // of all arms; granularity prompt: launches
  int degrees_of_freedom = 0;
  double standard_error = 0;
  double detectable = 0;    // log effect
  bool conclusive = false;  // enough degrees of freedom and blocks for a verdict
};

// Throws Error (input) for arms < 2, blocks < 1, a negative sd, alpha or power outside (0, 1).
[[nodiscard]] DesignPower power_of_design(const DesignQuestion& question, int blocks);

inline constexpr int kMostPlannedBlocks = 100'000;

// Fewest blocks that detect the effect and are conclusive; nothing when more than kMostPlannedBlocks would be needed.
[[nodiscard]] std::optional<DesignPower> smallest_design(const DesignQuestion& question, double log_effect);

// Repetitions at each level below the top (Kalibera and Jones 2013): levels from the innermost (iterations) up to the
// one below the top (launches of a build). S_i^2 the variance of means at level i, T_1^2 = S_1^2, T_i^2 = S_i^2 -
// S_(i-1)^2 / r_(i-1); r_i = ceil(sqrt(c_(i+1) / c_i * T_i^2 / T_(i+1)^2)). A level above which nothing varies is 0 in
// `repetitions`: repeat it, not what is above. T_i^2 <= 0: once.
struct NestedLevel {
  double mean_variance = 0;     // S_i^2
  double repetitions_seen = 1;  // r_i of the pilot
  double cost = 1;              // c_i: of one more unit at this level
};
// Throws Error (input) for fewer than two levels, variances < 0, repetitions < 1 or costs <= 0.
[[nodiscard]] std::vector<int> repetitions_by_level(std::span<const NestedLevel> levels);

}  // namespace tare::stats
