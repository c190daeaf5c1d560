#include "stats/pooling.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/math/distributions/chi_squared.hpp>
#include <cmath>

#include "base/error.h"
#include "stats/distributions.h"

namespace tare::stats {
namespace {

struct WeightedMean {
  double mean = 0;
  double weight = 0;   // sum
  double squares = 0;  // sum of weight (value - mean)^2
};

WeightedMean weighted_mean(std::span<const Estimate> sittings, const std::vector<double>& weights) {
  WeightedMean result;
  for (std::size_t s = 0; s < sittings.size(); ++s) {
    result.weight += weights[s];
    result.mean += weights[s] * sittings[s].log_effect;
  }
  result.mean /= result.weight;
  for (std::size_t s = 0; s < sittings.size(); ++s) {
    const double difference = sittings[s].log_effect - result.mean;
    result.squares += weights[s] * difference * difference;
  }
  return result;
}

void check(std::span<const Estimate> sittings) {
  if (sittings.size() < 2) throw input_error("pooling", "needs at least two sittings");
  for (const Estimate& sitting : sittings) {
    if (sitting.estimand != sittings.front().estimand) {
      throw Error(ErrorKind::kInvalid, "sittings answer different questions", "pooling");
    }
    if (!std::isfinite(sitting.log_effect) || !(sitting.standard_error > 0)) {
      throw Error(ErrorKind::kInvalid, "a sitting has no effect with a standard error", "pooling",
                  "pool sittings whose run-level interval is known");
    }
  }
}

}  // namespace

PooledEffect pool_sittings(std::span<const Estimate> sittings, double level) {
  check(sittings);
  const double count = static_cast<double>(sittings.size());
  std::vector<double> weights;
  double weight_squares = 0;
  for (const Estimate& sitting : sittings) {
    weights.push_back(1 / (sitting.standard_error * sitting.standard_error));
    weight_squares += weights.back() * weights.back();
  }
  const WeightedMean fixed = weighted_mean(sittings, weights);
  PooledEffect pooled;
  pooled.heterogeneity_q = fixed.squares;
  const boost::math::chi_squared_distribution<double> chi_squared(count - 1);
  pooled.heterogeneity_p = boost::math::cdf(boost::math::complement(chi_squared, fixed.squares));
  pooled.within_sitting_se = 1 / std::sqrt(fixed.weight);
  const double between = std::max(0.0, (fixed.squares - (count - 1)) / (fixed.weight - weight_squares / fixed.weight));
  pooled.between_sitting_sd = std::sqrt(between);
  for (std::size_t s = 0; s < weights.size(); ++s) {
    weights[s] = 1 / (sittings[s].standard_error * sittings[s].standard_error + between);
  }
  const WeightedMean random = weighted_mean(sittings, weights);
  Estimate& estimate = pooled.estimate;
  estimate.estimand = sittings.front().estimand;
  estimate.method = Method::kPooledSittings;
  estimate.log_effect = random.mean;
  estimate.standard_error = std::sqrt(std::max(random.squares / ((count - 1) * random.weight), 1 / random.weight));
  estimate.degrees_of_freedom = count - 1;
  estimate.interval = t_interval(estimate.log_effect, estimate.standard_error, count - 1, level);
  estimate.p_value = two_sided_p(estimate.log_effect, estimate.standard_error, count - 1);
  estimate.method_text = fmt::format(
      "random effects over {} sittings (DerSimonian-Laird, Hartung-Knapp); t with {} "
      "degrees of freedom",
      sittings.size(), sittings.size() - 1);
  estimate.conclusive = sittings.size() >= static_cast<std::size_t>(kFewestSittings);
  if (!estimate.conclusive) {
    estimate.warnings.push_back({.code = WarningCode::kFewDegreesOfFreedom,
                                 .text = fmt::format("{} sittings, {} are needed for a verdict over sittings",
                                                     sittings.size(), kFewestSittings),
                                 .numbers = {{"sittings", count}}});
  }
  for (double& weight : weights) weight /= random.weight;
  pooled.weights = std::move(weights);
  return pooled;
}

}  // namespace tare::stats
