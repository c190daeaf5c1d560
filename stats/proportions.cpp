#include "stats/proportions.h"

#include <boost/math/distributions/beta.hpp>
#include <cmath>

#include "base/error.h"
#include "stats/distributions.h"

namespace tare::stats {
namespace {

void check_counts(std::uint64_t successes, std::uint64_t trials) {
  if (trials == 0 || successes > trials)
    throw input_error("proportion", "needs trials, and no more successes than trials");
}

}  // namespace

Interval exact_binomial_interval(std::uint64_t successes, std::uint64_t trials, double level) {
  check_counts(successes, trials);
  const double k = static_cast<double>(successes);
  const double n = static_cast<double>(trials);
  const double tail = (1 - level) / 2;
  Interval interval{.low = 0, .high = 1, .level = level};
  if (successes > 0) interval.low = boost::math::quantile(boost::math::beta_distribution<double>(k, n - k + 1), tail);
  if (successes < trials)
    interval.high = boost::math::quantile(boost::math::beta_distribution<double>(k + 1, n - k), 1 - tail);
  return interval;
}

Interval wilson_interval(std::uint64_t successes, std::uint64_t trials, double level) {
  check_counts(successes, trials);
  const double n = static_cast<double>(trials);
  const double share = static_cast<double>(successes) / n;
  const double z = normal_quantile(0.5 + level / 2);
  const double scale = 1 + z * z / n;
  const double centre = (share + z * z / (2 * n)) / scale;
  const double half = z / scale * std::sqrt(share * (1 - share) / n + z * z / (4 * n * n));
  // At the borders the bound is exactly 0 or 1; the difference of two equal terms would leave a rounding error.
  return {
      .low = successes == 0 ? 0.0 : centre - half, .high = successes == trials ? 1.0 : centre + half, .level = level};
}

}  // namespace tare::stats
