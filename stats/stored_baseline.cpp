#include "stats/stored_baseline.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "stats/distributions.h"

namespace tare::stats {

Estimate against_stored(std::span<const double> baseline_log_rates, std::span<const double> log_rates, double between,
                        double level) {
  if (!(between >= 0)) throw input_error("stored baseline", "the spread between sittings must not be negative");
  if (baseline_log_rates.empty() || log_rates.empty()) {
    throw Error(ErrorKind::kInvalid, "a side has no runs", "stored baseline");
  }
  const Moments there = moments(baseline_log_rates);
  const Moments here = moments(log_rates);
  const double runs_there = static_cast<double>(baseline_log_rates.size());
  const double runs_here = static_cast<double>(log_rates.size());
  const double variance_there = there.standard_deviation * there.standard_deviation / runs_there;
  const double variance_here = here.standard_deviation * here.standard_deviation / runs_here;
  Estimate estimate;
  estimate.estimand = Estimand::kThesePromptsAnyLaunch;
  estimate.method = Method::kStoredBaseline;
  estimate.log_effect = here.mean - there.mean;
  const std::size_t fewest = std::min(baseline_log_rates.size(), log_rates.size());
  estimate.conclusive = fewest >= kFewestStoredRuns;
  if (!estimate.conclusive) {
    estimate.warnings.push_back(
        {.code = WarningCode::kFewDegreesOfFreedom,
         .text = fmt::format("{} runs on a side, {} are needed for a verdict", fewest, kFewestStoredRuns),
         .numbers = {{"runs", static_cast<double>(fewest)}}});
  }
  if (fewest < 2) return estimate;
  const double variance = variance_there + variance_here + between * between;
  const double squares =
      variance_there * variance_there / (runs_there - 1) + variance_here * variance_here / (runs_here - 1);
  // Without any spread over runs the two variances have the fewer side's degrees of freedom.
  const double df = squares > 0 ? variance * variance / squares : static_cast<double>(fewest) - 1;
  estimate.standard_error = std::sqrt(variance);
  if (estimate.standard_error < kNoSpread) estimate.standard_error = 0;
  estimate.degrees_of_freedom = df;
  estimate.interval = t_interval(estimate.log_effect, estimate.standard_error, df, level);
  estimate.p_value = two_sided_p(estimate.log_effect, estimate.standard_error, df);
  estimate.method_text =
      fmt::format("{} runs against {} stored ones, {:.3f} % between sittings added; t with {:.1f} degrees of freedom",
                  log_rates.size(), baseline_log_rates.size(), percent(between), df);
  return estimate;
}

}  // namespace tare::stats
