// Per-prompt paired bootstrap of a ratio of totals: prompts are drawn with replacement, both arms with the same draw,
// and theta = (sum N_B / sum D_B) / (sum N_A / sum D_A) is formed anew. It speaks about prompts given the launches that
// were run: conditional on these launches, and too narrow as soon as launches differ among themselves (a launch sd of
// 0.1 % makes 95 % cover about two thirds in one block of 80 prompts).
//
// Percentile bounds: quantiles (type 7) of theta*. BCa (Efron 1987): levels Phi(z0 + (z0 + z) / (1 - a (z0 + z))), z0
// from the share of theta* below theta (ties count half), a from the jackknife. Draws come from Philox keyed by (seed,
// resample): the same bits for any thread count. When n^n <= resamples (n <= 5 at 10,000) all n^n resamples are
// enumerated instead.
#pragma once

#include <cstdint>
#include <span>

#include "stats/effect.h"
#include "stats/observations.h"
#include "stats/resampling.h"

namespace tare::stats {

inline constexpr int kFewPrompts = 20;  // percentile intervals under-cover below this

struct BootstrapResult {
  Estimate estimate = {};     // interval: percentile; bca: BCa
  double bias_z0 = 0;         // z0
  double acceleration = 0;    // a
  bool exhaustive = false;    // all n^n resamples instead of random ones
  std::size_t resamples = 0;  // how many theta* were formed
};

// Totals per prompt of arm and baseline, equal length n >= 1. Throws Error (input) for resamples < 100, level outside
// (0, 1), threads < 1, or lengths that differ.
[[nodiscard]] BootstrapResult bootstrap_ratio(const PromptTotals& baseline, const PromptTotals& arm,
                                              const BootstrapOptions& options);

// The delta method beside it: SE(ln theta) = sd(u) / sqrt(n), u_i = n (N_Bi/N_B - D_Bi/D_B - N_Ai/N_A + D_Ai/D_A); t
// with n - 1.
[[nodiscard]] Estimate delta_ratio(const PromptTotals& baseline, const PromptTotals& arm, double level = 0.95);

}  // namespace tare::stats
