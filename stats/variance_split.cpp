#include "stats/variance_split.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/error.h"
#include "stats/cells.h"
#include "stats/distributions.h"

namespace tare::stats {
namespace {

Error too_few(const char* what) {
  return Error(ErrorKind::kInvalid, fmt::format("the variance cannot be split with fewer than two {}", what),
               "variance", "measure more blocks");
}

// A variance found as a difference: below zero it is none that can be seen.
double floored(double variance, const char* what, std::vector<Warning>& warnings) {
  if (variance >= 0) return variance;
  warnings.push_back({.code = WarningCode::kTwoWayFloor,
                      .text = fmt::format("the {} part came out below zero and counts as none", what),
                      .numbers = {{"variance", variance}}});
  return 0;
}

void finish(VarianceSplit& split, double prompt_variance, double unit_variance, double residual_variance) {
  split.residual_sd = std::sqrt(residual_variance);
  split.unit_sd = std::sqrt(unit_variance);
  split.prompt_sd = std::sqrt(floored(prompt_variance, "prompt", split.warnings));
  split.launch_sd = std::sqrt(
      floored(unit_variance - residual_variance / static_cast<double>(split.prompts), "launch", split.warnings));
}

double variance_of(const std::vector<double>& values) {
  const double deviation = moments(values).standard_deviation;
  return deviation * deviation;
}

void split_runs(const Observations& observations, int arm, VarianceSplit& split) {
  const LogRateCells baseline = linearised_cells(observations, runs_of_arm(observations, 0));
  const LogRateCells treated = linearised_cells(observations, runs_of_arm(observations, arm));
  if (baseline.columns < 2 || treated.columns < 2) throw too_few("runs an arm");
  const double of_baseline = static_cast<double>(baseline.columns);
  const double of_arm = static_cast<double>(treated.columns);
  const double df = (static_cast<double>(split.prompts) - 1) * (of_baseline + of_arm - 2);
  const double residual = (interaction_squares(baseline) + interaction_squares(treated)) / df;
  std::vector<double> differences;
  for (std::size_t i = 0; i < split.prompts; ++i) differences.push_back(treated.row_mean(i) - baseline.row_mean(i));
  std::set<int> blocks;
  for (const Run& run : observations.runs) blocks.insert(run.block);
  const RegressionResult fit = regress_runs(observations.runs, run_log_rates(observations), observations.arms,
                                            drift_degree_rule(static_cast<int>(blocks.size())));
  double squares = 0;
  for (const double drift : fit.drift.drift) squares += drift * drift;
  split.drift_sd = std::sqrt(squares / static_cast<double>(observations.runs.size()));
  finish(split, variance_of(differences) - residual * (1 / of_baseline + 1 / of_arm),
         fit.drift.residual_sd * fit.drift.residual_sd, residual);
}

void split_blocks(const Observations& observations, int arm, VarianceSplit& split) {
  const LogRateCells cells = block_difference_cells(observations, arm);
  if (cells.columns < 2) throw too_few("blocks");
  const double blocks = static_cast<double>(cells.columns);
  const double residual = interaction_squares(cells) / ((static_cast<double>(split.prompts) - 1) * (blocks - 1));
  std::vector<double> differences;
  for (std::size_t i = 0; i < split.prompts; ++i) differences.push_back(cells.row_mean(i));
  // Residual of the fit with the start order, where it is fitted: SE^2 times the blocks.
  const double standard_error = block_effects(observations, arm).estimate.standard_error;
  finish(split, variance_of(differences) - residual / blocks, standard_error * standard_error * blocks, residual);
}

}  // namespace

VarianceSplit split_variance(const Observations& observations, int arm, Granularity granularity) {
  check_observations(observations);
  if (arm < 1 || arm >= observations.arms) throw input_error("variance.arm", "is no arm beside the baseline");
  if (observations.prompts < 2) throw too_few("prompts");
  VarianceSplit split;
  split.granularity = granularity;
  split.prompts = observations.prompts;
  if (granularity == Granularity::kRun) {
    split_runs(observations, arm, split);
  } else {
    split_blocks(observations, arm, split);
  }
  return split;
}

EffectVariance effect_variance(const VarianceSplit& split, int units, std::size_t prompts) {
  if (units < 1 || prompts < 1) throw input_error("variance", "needs at least one unit and one prompt");
  // Two arms of `units` runs each, or `units` differences.
  const double share = (split.granularity == Granularity::kRun ? 2.0 : 1.0) / units;
  const double over_prompts = 1 / static_cast<double>(prompts);
  return {.launches = split.launch_sd * split.launch_sd * share,
          .residual = split.residual_sd * split.residual_sd * share * over_prompts,
          .prompts = split.prompt_sd * split.prompt_sd * over_prompts};
}

}  // namespace tare::stats
