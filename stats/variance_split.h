// Where the scatter of an effect comes from: what to buy more of. All standard deviations are of ln rate.
//
// Granularity `run`, arm against baseline (cells of cells.h, n_a and n_0 runs, P prompts):
//   residual  s_e^2 = interaction sum of squares within arms / ((P - 1)(n_a + n_0 - 2))      one prompt in one run
//   prompt    s_p^2 = var_i(d_i) - s_e^2 (1/n_a + 1/n_0)      prompts react differently to the arm; d_i prompt i's
//   effect launch    s_l^2 = s^2 - s_e^2 / P       s the run-level regression's residual: what a launch was dealt drift
//   root mean square of the fitted drift over runs; removed by the order and the fit, so no part of the error
// Granularity `prompt`: the same on differences within blocks; launch and residual are then of a *difference*, and
// drift has cancelled. A difference that comes out negative is 0 and is said (method of moments). How hard prompts are
// is no part: it cancels between arms. The part between sittings needs several of them: pooling.h.
#pragma once

#include <vector>

#include "stats/analysis.h"
#include "stats/observations.h"

namespace tare::stats {

struct VarianceSplit {
  Granularity granularity = Granularity::kRun;
  std::size_t prompts = 0;
  double prompt_sd = 0;
  double launch_sd = 0;
  double residual_sd = 0;
  double drift_sd = 0;
  double unit_sd = 0;  // of one run (granularity run) or of one block's difference: sqrt(launch^2 + residual^2 / P)
  std::vector<Warning> warnings = {};
};

// Throws Error (invalid) as analyse does, and when there are too few units to split: fewer than two runs an arm, two
// blocks, or two prompts.
[[nodiscard]] VarianceSplit split_variance(const Observations& observations, int arm, Granularity granularity);

// Variance of the effect of a design with that split: `units` runs an arm, or blocks.
struct EffectVariance {
  double launches = 0;  // launch part
  double residual = 0;  // residual part, over units and prompts
  double prompts = 0;   // reaction part; of "prompts like these" only
  [[nodiscard]] double this_suite() const { return launches + residual; }
  [[nodiscard]] double prompts_like_these() const { return launches + residual + prompts; }
};
// Throws Error (input) for units or prompts < 1.
[[nodiscard]] EffectVariance effect_variance(const VarianceSplit& split, int units, std::size_t prompts);

}  // namespace tare::stats
