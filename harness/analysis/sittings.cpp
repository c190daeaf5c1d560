#include "harness/analysis/sittings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "harness/analysis/intervals.h"
#include "harness/analysis/measured_values.h"
#include "harness/environment/environment.h"
#include "stats/analysis.h"

namespace tare::harness {
namespace {

reports::PooledEffect pooled_effect(std::size_t arm, const std::vector<SittingEstimates>& sittings, double level) {
  reports::PooledEffect pooled;
  pooled.arm = arm;
  std::vector<stats::Estimate> estimates;
  for (std::size_t s = 0; s < sittings.size(); ++s) {
    const stats::Estimate& estimate = sittings[s].arms[arm - 1];
    reports::SittingEffect effect;
    effect.sitting = s;
    effect.interval = interval_of(estimate, estimate.interval, "one sitting", level);
    effect.standard_error_log = can_be_pooled(estimate) ? estimate.standard_error : reports::kMissing;
    pooled.sittings.push_back(std::move(effect));
    if (can_be_pooled(estimate)) estimates.push_back(estimate);
  }
  if (estimates.size() < 2) {
    pooled.interval = missing_interval(reports::Estimand::kAnyLaunch, "pooled sittings", reports::kMissing, level,
                                       "fewer than two sittings have blocks enough for an interval of their own");
    return pooled;
  }
  const stats::PooledEffect result = stats::pool_sittings(estimates, level);
  pooled.interval = interval_of(result.estimate, result.estimate.interval, "pooled sittings", level);
  pooled.between_sd_log = result.between_sitting_sd;
  pooled.heterogeneity_p = result.heterogeneity_p;
  pooled.conclusive = result.estimate.conclusive;
  return pooled;
}

}  // namespace

bool can_be_pooled(const stats::Estimate& estimate) {
  // One palindrome of many arms: a curved drift would be in the estimate, unseen by its standard error.
  const bool drift_within =
      !estimate.conclusive && std::any_of(estimate.warnings.begin(), estimate.warnings.end(), [](const auto& warning) {
        return warning.code == stats::WarningCode::kDriftConfounded;
      });
  return !drift_within && std::isfinite(estimate.log_effect) && estimate.standard_error > 0 &&
         estimate.interval.has_value();
}

std::vector<SittingEstimates> estimate_sittings(const Gathered& gathered, const stats::Observations& observations,
                                                double level) {
  std::map<std::int64_t, std::vector<std::size_t>> runs;
  for (std::size_t i = 0; i < gathered.counted.size(); ++i)
    runs[gathered.launches[gathered.counted[i].launch].sitting].push_back(i);
  std::vector<SittingEstimates> sittings;
  for (const auto& [id, of_sitting] : runs) {
    SittingEstimates estimates;
    estimates.sitting = id;
    for (const SittingRecord& record : gathered.sittings)
      if (record.id == id) estimates.started_utc_ns = record.started_utc_ns;
    std::set<int> blocks;
    for (const std::size_t run : of_sitting) blocks.insert(observations.runs[run].block);
    estimates.blocks = blocks.size();
    estimates.arms =
        stats::verdict_estimates(stats::runs_of(observations, of_sitting), granularity_of(gathered.experiment), level);
    sittings.push_back(std::move(estimates));
  }
  return sittings;
}

void add_sittings(const Gathered& gathered, const stats::Observations& observations, double level,
                  reports::Findings& findings) {
  const std::vector<SittingEstimates> sittings = estimate_sittings(gathered, observations, level);
  for (const SittingEstimates& sitting : sittings)
    findings.sittings.push_back(
        {fmt::format("sitting {}", sitting.sitting), utc_text(sitting.started_utc_ns), sitting.blocks});
  if (sittings.size() < 2) return;
  for (std::size_t arm = 1; arm < gathered.experiment.arms.size(); ++arm)
    findings.pooled.push_back(pooled_effect(arm, sittings, level));
}

}  // namespace tare::harness
