#include "stats/distributions.h"

#include <boost/math/distributions/normal.hpp>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace tare::stats {
namespace {

// Double throughout: promotion to long double costs time and no statement here needs the digits.
using Policy = boost::math::policies::policy<boost::math::policies::promote_double<false>>;
using StudentT = boost::math::students_t_distribution<double, Policy>;
using Normal = boost::math::normal_distribution<double, Policy>;

void require_probability(double probability) {
  if (!(probability > 0 && probability < 1)) throw input_error("probability", "must lie between 0 and 1");
}

StudentT student_t(double degrees_of_freedom) {
  if (!(degrees_of_freedom > 0)) throw input_error("degrees of freedom", "must be positive");
  return StudentT(degrees_of_freedom);
}

}  // namespace

double student_t_quantile(double probability, double degrees_of_freedom) {
  require_probability(probability);
  return boost::math::quantile(student_t(degrees_of_freedom), probability);
}

double student_t_upper_tail(double t, double degrees_of_freedom) {
  const StudentT distribution = student_t(degrees_of_freedom);
  if (std::isinf(t)) return t > 0 ? 0.0 : 1.0;
  return boost::math::cdf(boost::math::complement(distribution, t));
}

double student_t_two_sided(double t, double degrees_of_freedom) {
  return std::min(1.0, 2.0 * student_t_upper_tail(std::abs(t), degrees_of_freedom));
}

double normal_quantile(double probability) {
  require_probability(probability);
  return boost::math::quantile(Normal(), probability);
}

double normal_cdf(double z) {
  if (std::isinf(z)) return z > 0 ? 1.0 : 0.0;
  return boost::math::cdf(Normal(), z);
}

Moments moments(std::span<const double> values) {
  Moments result;
  if (values.empty()) return result;
  const double count = static_cast<double>(values.size());
  for (const double value : values) result.mean += value / count;
  if (values.size() < 2) return result;
  double squares = 0;
  for (const double value : values) squares += (value - result.mean) * (value - result.mean);
  result.standard_deviation = std::sqrt(squares / (count - 1));
  return result;
}

Interval t_interval(double centre, double standard_error, double degrees_of_freedom, double level) {
  const double half = student_t_quantile(0.5 + level / 2, degrees_of_freedom) * standard_error;
  return {.low = centre - half, .high = centre + half, .level = level};
}

double two_sided_p(double effect, double standard_error, double degrees_of_freedom) {
  if (standard_error > 0) return student_t_two_sided(effect / standard_error, degrees_of_freedom);
  return std::abs(effect) <= kNoSpread ? 1.0 : 0.0;
}

}  // namespace tare::stats
