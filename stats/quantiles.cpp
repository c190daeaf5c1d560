#include "stats/quantiles.h"

#include <algorithm>
#include <boost/math/distributions/binomial.hpp>
#include <cmath>
#include <vector>

#include "base/error.h"

namespace tare::stats {

double quantile_of_sorted(std::span<const double> ascending, double p) {
  if (ascending.empty()) throw input_error("quantile", "of no values");
  if (!(p >= 0 && p <= 1)) throw input_error("quantile", "p must lie between 0 and 1");
  const double place = static_cast<double>(ascending.size() - 1) * p;
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, ascending.size() - 1);
  return ascending[below] + (place - static_cast<double>(below)) * (ascending[above] - ascending[below]);
}

double quantile(std::span<const double> values, double p) {
  std::vector<double> ascending(values.begin(), values.end());
  std::sort(ascending.begin(), ascending.end());
  return quantile_of_sorted(ascending, p);
}

std::size_t fewest_values_for_quantile(double p) {
  if (!(p > 0 && p < 1)) throw input_error("quantile", "p must lie between 0 and 1");
  const double tail = std::min(p, 1 - p);
  return static_cast<std::size_t>(std::ceil(1 / tail - 1e-9));  // 1 - 0.99 is not exactly 0.01
}

std::optional<MedianRanks> median_interval_ranks(std::size_t count, double level) {
  if (!(level > 0 && level < 1)) throw input_error("level", "must lie between 0 and 1");
  if (count == 0) return std::nullopt;
  const boost::math::binomial_distribution<double> halves(static_cast<double>(count), 0.5);
  std::optional<MedianRanks> best;
  for (std::size_t low = 1; low < count + 1 - low; ++low) {
    const double coverage = 1 - 2 * boost::math::cdf(halves, static_cast<double>(low - 1));
    if (coverage < level) break;
    best = MedianRanks{.low = low, .high = count + 1 - low, .coverage = coverage};
  }
  return best;
}

}  // namespace tare::stats
