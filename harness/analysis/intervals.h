// Estimates of the statistics as intervals of a report.
#pragma once

#include <optional>
#include <string>

#include "reports/findings.h"
#include "stats/analysis.h"
#include "stats/effect.h"

namespace tare::harness {

[[nodiscard]] reports::Interval interval_of(const stats::Estimate& estimate,
                                            const std::optional<stats::Interval>& bounds, std::string method,
                                            double level);
[[nodiscard]] reports::Interval missing_interval(reports::Estimand estimand, std::string method, double estimate_log,
                                                 double level, std::string why);
// "regression, degree 2", "blocks, t".
[[nodiscard]] std::string run_level_method(const stats::Analysis& analysis);

}  // namespace tare::harness
