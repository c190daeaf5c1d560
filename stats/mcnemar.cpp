#include "stats/mcnemar.h"

#include <algorithm>
#include <boost/math/distributions/binomial.hpp>
#include <cmath>

#include "base/error.h"
#include "stats/distributions.h"
#include "stats/proportions.h"

namespace tare::stats {
namespace {

double exact_p(double smaller, double discordant) {
  const boost::math::binomial_distribution<double> halves(discordant, 0.5);
  return std::min(1.0, 2 * boost::math::cdf(halves, smaller));
}

double approximate_p(double b, double c) {
  const double excess = std::max(0.0, std::abs(b - c) - 1);
  return 2 * normal_cdf(-excess / std::sqrt(b + c));  // chi-squared with one degree of freedom is a normal squared
}

// Correlation of the two outcomes, with Newcombe's continuity correction of a positive one.
double correlation(double both, double only_baseline, double only_arm, double neither) {
  const double margins = (both + only_baseline) * (both + only_arm) * (neither + only_baseline) * (neither + only_arm);
  if (margins <= 0) return 0;
  double product = both * neither - only_baseline * only_arm;
  const double half = (both + only_baseline + only_arm + neither) / 2;
  if (product > 0) product = std::max(0.0, product - half);
  return product / std::sqrt(margins);
}

}  // namespace

McNemarTest mcnemar_test(const PairedOutcomes& outcomes, double level) {
  const std::uint64_t pairs = outcomes.both + outcomes.only_baseline + outcomes.only_arm + outcomes.neither;
  if (pairs == 0) throw input_error("McNemar test", "needs at least one pair");
  if (!(level > 0 && level < 1)) throw input_error("McNemar test", "the level must lie between 0 and 1");
  const double n = static_cast<double>(pairs);
  const double b = static_cast<double>(outcomes.only_baseline);
  const double c = static_cast<double>(outcomes.only_arm);

  McNemarTest test;
  test.discordant = outcomes.only_baseline + outcomes.only_arm;
  test.exact = test.discordant < kExactDiscordant;
  test.difference = (c - b) / n;
  if (test.discordant > 0) test.p_value = test.exact ? exact_p(std::min(b, c), b + c) : approximate_p(b, c);

  const double arm = static_cast<double>(outcomes.both + outcomes.only_arm) / n;
  const double baseline = static_cast<double>(outcomes.both + outcomes.only_baseline) / n;
  const Interval of_arm = wilson_interval(outcomes.both + outcomes.only_arm, pairs, level);
  const Interval of_baseline = wilson_interval(outcomes.both + outcomes.only_baseline, pairs, level);
  const double phi = correlation(static_cast<double>(outcomes.both), b, c, static_cast<double>(outcomes.neither));
  const auto joined = [phi](double one, double other) {
    return std::sqrt(std::max(0.0, one * one + other * other - 2 * phi * one * other));
  };
  test.interval = {.low = test.difference - joined(arm - of_arm.low, of_baseline.high - baseline),
                   .high = test.difference + joined(of_arm.high - arm, baseline - of_baseline.low),
                   .level = level};
  return test;
}

}  // namespace tare::stats
