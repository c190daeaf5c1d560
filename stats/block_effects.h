// Effects by block. Two uses:
//
// Granularity `prompt`. In one block every arm is resident and takes each prompt in turn, seconds apart, so drift
// cancels within the block; the block's launches are shared by all its prompts, so the block is the unit. The block's
// effect is the log ratio of totals, d_j; with s_j the difference of the start positions (arm - baseline, scaled to
// +-1/2),
//   d_j = effect + order_effect * s_j + e_j,   t interval, blocks - 2 degrees of freedom, from six blocks on;
//   with fewer the order term is left out (blocks - 1 degrees of freedom), and at least five blocks are asked for.
//
// Granularity `run`. Differences of the r-th run of the arm and the r-th run of the baseline in each block, plain t: a
// line that needs no drift model, wider than the regression, printed beside it.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "stats/effect.h"
#include "stats/observations.h"

namespace tare::stats {

inline constexpr int kMinimumBlocks = 5;            // four pairs can never reach 5 % by sign-flip, and t(3) is too wide
inline constexpr int kBlocksForStartOrderTerm = 6;  // so that four degrees of freedom remain

struct BlockEffects {
  Estimate estimate = {};
  std::vector<int> blocks = {};             // block numbers, ascending
  std::vector<double> log_effects = {};     // per block
  std::vector<double> start_order = {};     // per block: s_j
  std::optional<double> order_effect = {};  // ln ratio of "started last" over "started first", when fitted
};

// One arm against the baseline; needs exactly one run of both in every block (Error (invalid) otherwise).
[[nodiscard]] BlockEffects block_effects(const Observations& observations, int arm, double level = 0.95);

// Any contrast of arms (contrasts.h): d_j and s_j are the sums of the arms' log rates and start positions by `weights`,
// one an arm, adding up to zero. Needs exactly one run of every arm with a weight in every block (Error (invalid)).
[[nodiscard]] BlockEffects block_contrast(const Observations& observations, std::span<const double> weights,
                                          double level = 0.95);

// The robustness line. Runs without a partner in their block are left out.
[[nodiscard]] Estimate block_pair_estimate(std::span<const Run> runs, std::span<const double> log_rates, int arm,
                                           double level = 0.95);

}  // namespace tare::stats
