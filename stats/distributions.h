// Student t and normal distributions (Boost.Math), and the plain t interval.
#pragma once

#include <span>

#include "stats/effect.h"

namespace tare::stats {

// Quantile and upper tail of t; df > 0 (need not be whole). Throws Error (input) out of range.
[[nodiscard]] double student_t_quantile(double probability, double degrees_of_freedom);
[[nodiscard]] double student_t_upper_tail(double t, double degrees_of_freedom);  // P(T >= t)
[[nodiscard]] double student_t_two_sided(double t, double degrees_of_freedom);   // P(|T| >= |t|)
[[nodiscard]] double normal_quantile(double probability);
[[nodiscard]] double normal_cdf(double z);

// Mean and sample standard deviation (n - 1); sd of one value is 0.
struct Moments {
  double mean = 0;
  double standard_deviation = 0;
};
[[nodiscard]] Moments moments(std::span<const double> values);

// centre -+ t(df) * standard_error.
[[nodiscard]] Interval t_interval(double centre, double standard_error, double degrees_of_freedom, double level);

// A spread of ln rate below this is rounding, not measurement: it counts as none.
inline constexpr double kNoSpread = 1e-12;

// Two-sided p of an effect against 0. Without any spread (standard_error 0): 1 for no effect, else 0.
[[nodiscard]] double two_sided_p(double effect, double standard_error, double degrees_of_freedom);

}  // namespace tare::stats
