#include "stats/two_way_bootstrap.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "base/error.h"
#include "stats/bootstrap.h"
#include "stats/cells.h"
#include "stats/distributions.h"
#include "stats/quantiles.h"

namespace tare::stats {
namespace {

// Runs that are drawn as one: a run of one arm, or the two runs of a block.
struct Units {
  std::vector<std::vector<std::size_t>> baseline = {};  // columns, one set a unit
  std::vector<std::vector<std::size_t>> arm = {};
  bool paired = false;
};

Units units_of(const Observations& observations, int arm, bool paired) {
  Units units{.paired = paired};
  if (!paired) {
    for (const std::size_t r : runs_of_arm(observations, 0)) units.baseline.push_back({r});
    for (const std::size_t r : runs_of_arm(observations, arm)) units.arm.push_back({r});
    return units;
  }
  std::map<int, std::vector<std::size_t>> of_baseline;
  for (const std::size_t r : runs_of_arm(observations, 0)) of_baseline[observations.runs[r].block].push_back(r);
  std::map<int, std::vector<std::size_t>> of_arm;
  for (const std::size_t r : runs_of_arm(observations, arm)) of_arm[observations.runs[r].block].push_back(r);
  for (const auto& [block, runs] : of_arm) {
    if (!of_baseline.contains(block)) continue;
    units.arm.push_back(runs);
    units.baseline.push_back(of_baseline.at(block));
  }
  return units;
}

// How often each run was drawn.
void draw_runs(const Units& units, std::uint64_t seed, std::uint32_t resample, std::vector<double>& times) {
  std::fill(times.begin(), times.end(), 0.0);
  const auto take = [&](const std::vector<std::size_t>& columns) {
    for (const std::size_t column : columns) times[column] += 1;
  };
  const std::size_t arm_units = units.arm.size();
  if (units.paired) {
    draw_with_replacement(seed, ResampleKind::kRuns, resample, arm_units, arm_units, [&](std::size_t unit) {
      take(units.baseline[unit]);
      take(units.arm[unit]);
    });
    return;
  }
  // One stream for both arms: the first draws are the baseline's.
  const std::size_t baseline_units = units.baseline.size();
  const std::size_t product = baseline_units * arm_units;
  std::size_t drawn = 0;
  draw_with_replacement(seed, ResampleKind::kRuns, resample, product, std::max(baseline_units, arm_units),
                        [&](std::size_t pair) {
                          if (drawn < baseline_units) take(units.baseline[pair / arm_units]);
                          if (drawn < arm_units) take(units.arm[pair % arm_units]);
                          ++drawn;
                        });
}

double log_ratio(const Observations& observations, int arm, const std::vector<double>& times,
                 const std::vector<double>& numerator, const std::vector<double>& denominator) {
  double of_baseline[2] = {0, 0};
  double of_arm[2] = {0, 0};
  for (std::size_t r = 0; r < observations.runs.size(); ++r) {
    if (times[r] == 0) continue;
    double* totals = observations.runs[r].arm == arm ? of_arm : of_baseline;
    totals[0] += times[r] * numerator[r];
    totals[1] += times[r] * denominator[r];
  }
  return std::log(of_arm[0] / of_arm[1]) - std::log(of_baseline[0] / of_baseline[1]);
}

std::vector<double> resampled_effects(const Observations& observations, int arm, const Units& units,
                                      const BootstrapOptions& options) {
  std::vector<double> effects(static_cast<std::size_t>(options.resamples));
  const std::size_t runs = observations.runs.size();
  for_each_resample(effects.size(), options.threads, [&](std::size_t begin, std::size_t end) {
    std::vector<double> times(runs);
    std::vector<double> numerator(runs);
    std::vector<double> denominator(runs);
    for (std::size_t b = begin; b < end; ++b) {
      std::fill(numerator.begin(), numerator.end(), 0.0);
      std::fill(denominator.begin(), denominator.end(), 0.0);
      draw_with_replacement(options.seed, ResampleKind::kPrompts, static_cast<std::uint32_t>(b), observations.prompts,
                            observations.prompts, [&](std::size_t prompt) {
                              const double* n = &observations.numerator[prompt * runs];
                              const double* d = &observations.denominator[prompt * runs];
                              for (std::size_t r = 0; r < runs; ++r) {
                                numerator[r] += n[r];
                                denominator[r] += d[r];
                              }
                            });
      draw_runs(units, options.seed, static_cast<std::uint32_t>(b), times);
      effects[b] = log_ratio(observations, arm, times, numerator, denominator);
    }
  });
  return effects;
}

}  // namespace

Estimate two_way_bootstrap(const Observations& observations, int arm, bool paired_by_block,
                           const BootstrapOptions& options) {
  check_bootstrap_options(options);
  check_observations(observations);
  if (arm < 1 || arm >= observations.arms) throw input_error("two-way bootstrap", "is no arm beside the baseline");
  const Units units = units_of(observations, arm, paired_by_block);
  const PromptTotals of_baseline = prompt_totals(observations, 0);
  const PromptTotals of_arm = prompt_totals(observations, arm);
  const auto total = [](const std::vector<double>& values) {
    double sum = 0;
    for (const double value : values) sum += value;
    return sum;
  };
  Estimate estimate;
  estimate.estimand = Estimand::kPromptsLikeThese;
  estimate.method = Method::kTwoWayBootstrap;
  estimate.log_effect = std::log(total(of_arm.numerator) / total(of_arm.denominator)) -
                        std::log(total(of_baseline.numerator) / total(of_baseline.denominator));
  estimate.method_text = fmt::format("{} prompts and {} drawn together, {} resamples, seed {}", observations.prompts,
                                     paired_by_block ? "blocks" : "runs", options.resamples, options.seed);
  const std::size_t fewest = std::min(units.baseline.size(), units.arm.size());
  const bool enough_units = fewest >= static_cast<std::size_t>(kFewDrawnUnits);
  const bool enough_prompts = observations.prompts >= static_cast<std::size_t>(kFewPrompts);
  estimate.conclusive = enough_units && enough_prompts;
  if (!enough_units) {
    estimate.warnings.push_back({.code = WarningCode::kFewBlocks,
                                 .text = fmt::format("{} {}: a bootstrap over fewer than {} is too narrow", fewest,
                                                     paired_by_block ? "blocks" : "runs an arm", kFewDrawnUnits),
                                 .numbers = {{"units", static_cast<double>(fewest)}}});
  }
  if (!enough_prompts) {
    estimate.warnings.push_back(
        {.code = WarningCode::kFewPrompts,
         .text = fmt::format("{} prompts say little about prompts like these", observations.prompts),
         .numbers = {{"prompts", static_cast<double>(observations.prompts)}}});
  }
  if (fewest == 0) return estimate;
  std::vector<double> effects = resampled_effects(observations, arm, units, options);
  std::sort(effects.begin(), effects.end());
  estimate.standard_error = moments(effects).standard_deviation;
  estimate.interval = Interval{.low = quantile_of_sorted(effects, 0.5 - options.level / 2),
                               .high = quantile_of_sorted(effects, 0.5 + options.level / 2),
                               .level = options.level};
  return estimate;
}

}  // namespace tare::stats
