#include "stats/rank_tests.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/math/distributions/binomial.hpp>
#include <cmath>

#include "base/error.h"

namespace tare::stats {
namespace {

constexpr std::size_t kMostWilcoxonDifferences = 500;  // the table of sums has n^2 entries
constexpr std::size_t kMostSignFlipDifferences = 24;   // 2^24 patterns

std::vector<double> without_zeros(std::span<const double> differences, ExactTest& test) {
  std::vector<double> kept;
  for (const double difference : differences) {
    if (!std::isfinite(difference)) throw input_error("paired differences", "must be finite");
    if (difference != 0) kept.push_back(difference);
  }
  test.used = kept.size();
  const std::size_t dropped = differences.size() - kept.size();
  if (dropped > 0) {
    test.warnings.push_back(
        {.code = WarningCode::kZerosDropped,
         .text = fmt::format("{} of {} differences are zero and left out", dropped, differences.size()),
         .numbers = {{"dropped", static_cast<double>(dropped)}}});
  }
  return kept;
}

double smallest_p(std::size_t used) {
  return used == 0 ? 1.0 : std::min(1.0, std::ldexp(1.0, 1 - static_cast<int>(used)));
}

// Twice the mid-ranks of |difference|: whole numbers also for ties.
std::vector<std::size_t> doubled_ranks(const std::vector<double>& differences) {
  std::vector<double> sizes;
  sizes.reserve(differences.size());
  for (const double difference : differences) sizes.push_back(std::abs(difference));
  std::sort(sizes.begin(), sizes.end());
  std::vector<std::size_t> ranks;
  ranks.reserve(differences.size());
  for (const double difference : differences) {
    const auto [first, last] = std::equal_range(sizes.begin(), sizes.end(), std::abs(difference));
    ranks.push_back(static_cast<std::size_t>((first - sizes.begin()) + (last - sizes.begin()) + 1));
  }
  return ranks;
}

// All sums of +-values over the sign patterns of `values`.
std::vector<double> signed_sums(std::span<const double> values) {
  std::vector<double> sums{0.0};
  for (const double value : values) {
    std::vector<double> next;
    next.reserve(2 * sums.size());
    for (const double sum : sums) {
      next.push_back(sum + value);
      next.push_back(sum - value);
    }
    sums = std::move(next);
  }
  return sums;
}

}  // namespace

ExactTest wilcoxon_signed_rank(std::span<const double> differences) {
  ExactTest test;
  const std::vector<double> kept = without_zeros(differences, test);
  test.smallest_p_value = smallest_p(kept.size());
  if (kept.empty()) return test;
  if (kept.size() > kMostWilcoxonDifferences) throw input_error("Wilcoxon test", "takes at most 500 differences");
  const std::vector<std::size_t> ranks = doubled_ranks(kept);
  std::size_t positive = 0;
  std::size_t all = 0;
  for (std::size_t i = 0; i < kept.size(); ++i) {
    if (kept[i] > 0) positive += ranks[i];
    all += ranks[i];
  }
  // Probability of each doubled rank sum under random signs.
  std::vector<double> probability(all + 1, 0);
  probability[0] = 1;
  std::size_t reached = 0;
  for (const std::size_t rank : ranks) {
    reached += rank;
    for (std::size_t sum = reached + 1; sum-- > 0;) {
      probability[sum] = 0.5 * probability[sum] + (sum >= rank ? 0.5 * probability[sum - rank] : 0.0);
    }
  }
  double at_most = 0;
  double at_least = 0;
  for (std::size_t sum = 0; sum <= all; ++sum) {
    if (sum <= positive) at_most += probability[sum];
    if (sum >= positive) at_least += probability[sum];
  }
  test.statistic = static_cast<double>(positive) / 2;
  test.p_value = std::min(1.0, 2 * std::min(at_most, at_least));
  return test;
}

ExactTest sign_test(std::span<const double> differences) {
  ExactTest test;
  const std::vector<double> kept = without_zeros(differences, test);
  test.smallest_p_value = smallest_p(kept.size());
  if (kept.empty()) return test;
  const auto positive =
      static_cast<double>(std::count_if(kept.begin(), kept.end(), [](double difference) { return difference > 0; }));
  const double count = static_cast<double>(kept.size());
  const boost::math::binomial_distribution<double> halves(count, 0.5);
  test.statistic = positive;
  test.p_value = std::min(1.0, 2 * boost::math::cdf(halves, std::min(positive, count - positive)));
  return test;
}

ExactTest sign_flip_test(std::span<const double> differences) {
  ExactTest test;
  test.used = differences.size();
  test.smallest_p_value = smallest_p(differences.size());
  if (differences.size() > kMostSignFlipDifferences)
    throw input_error("sign-flip test", "takes at most 24 differences");
  if (differences.empty()) return test;
  double sum = 0;
  double size = 0;
  for (const double difference : differences) {
    if (!std::isfinite(difference)) throw input_error("paired differences", "must be finite");
    sum += difference;
    size += std::abs(difference);
  }
  test.statistic = sum / static_cast<double>(differences.size());
  if (size == 0) return test;
  // Two halves, so that no sum carries the rounding of 2^n steps; a sum within rounding of the observed one counts as
  // equal.
  const std::size_t middle = differences.size() / 2;
  const std::vector<double> left = signed_sums(differences.first(middle));
  const std::vector<double> right = signed_sums(differences.subspan(middle));
  const double threshold = std::abs(sum) - 1e-12 * size;
  std::size_t extreme = 0;
  for (const double a : left) {
    for (const double b : right) extreme += std::abs(a + b) >= threshold ? 1U : 0U;
  }
  test.p_value = static_cast<double>(extreme) / static_cast<double>(left.size() * right.size());
  return test;
}

}  // namespace tare::stats
