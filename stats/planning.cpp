#include "stats/planning.h"

#include <cmath>

#include "base/error.h"
#include "stats/distributions.h"

namespace tare::stats {
namespace {

constexpr int kFewestPairs = 5;  // four degrees of freedom
constexpr int kMostPairs = 1'000'000;

}  // namespace

double minimum_detectable_effect(double difference_sd, int pairs, double alpha, double power) {
  if (pairs < 2) throw input_error("plan.pairs", "at least two are needed");
  if (!(difference_sd >= 0)) throw input_error("plan.difference_sd", "must not be negative");
  if (!(alpha > 0 && alpha < 1) || !(power > 0 && power < 1)) {
    throw input_error("plan", "alpha and power must lie between 0 and 1");
  }
  const double df = pairs - 1;
  return (student_t_quantile(1 - alpha / 2, df) + student_t_quantile(power, df)) * difference_sd / std::sqrt(pairs);
}

int pairs_for_effect(double effect, double difference_sd, double alpha, double power) {
  if (!(effect > 0)) throw input_error("plan.effect", "must be positive");
  const auto enough = [&](int pairs) {
    return minimum_detectable_effect(difference_sd, pairs, alpha, power) <= effect;
  };
  int high = kFewestPairs;
  while (!enough(high)) {
    if (high >= kMostPairs) throw input_error("plan.effect", "needs more than a million pairs");
    high *= 2;
  }
  int low = high == kFewestPairs ? kFewestPairs - 1 : high / 2;  // not enough, or never tried
  while (high - low > 1) {
    const int middle = low + (high - low) / 2;
    (enough(middle) ? high : low) = middle;
  }
  return high;
}

}  // namespace tare::stats
