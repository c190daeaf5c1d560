#include "harness/analysis/intervals.h"

#include <fmt/format.h>

#include <utility>

#include "base/error.h"

namespace tare::harness {
namespace {

reports::Estimand estimand_of(stats::Estimand estimand) {
  switch (estimand) {
    case stats::Estimand::kThesePromptsTheseLaunches:
      return reports::Estimand::kTheseLaunches;
    case stats::Estimand::kThesePromptsAnyLaunch:
      return reports::Estimand::kAnyLaunch;
    case stats::Estimand::kPromptsLikeThese:
      return reports::Estimand::kPromptsLikeThese;
  }
  throw internal_error("an estimand has no name in reports");
}

}  // namespace

reports::Interval interval_of(const stats::Estimate& estimate, const std::optional<stats::Interval>& bounds,
                              std::string method, double level) {
  reports::Interval interval;
  interval.estimand = estimand_of(estimate.estimand);
  interval.method = std::move(method);
  interval.estimate_log = estimate.log_effect;
  interval.level = bounds ? bounds->level : level;
  interval.degrees_of_freedom = estimate.degrees_of_freedom.value_or(reports::kMissing);
  if (bounds) {
    interval.low_log = bounds->low;
    interval.high_log = bounds->high;
  } else {
    interval.why_missing =
        estimate.warnings.empty() ? "there is no spread to estimate" : estimate.warnings.front().text;
  }
  return interval;
}

reports::Interval missing_interval(reports::Estimand estimand, std::string method, double estimate_log, double level,
                                   std::string why) {
  reports::Interval interval;
  interval.estimand = estimand;
  interval.method = std::move(method);
  interval.estimate_log = estimate_log;
  interval.level = level;
  interval.why_missing = std::move(why);
  return interval;
}

std::string run_level_method(const stats::Analysis& analysis) {
  return analysis.drift ? fmt::format("regression, degree {}", analysis.drift->degree) : "blocks, t";
}

}  // namespace tare::harness
