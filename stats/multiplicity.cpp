#include "stats/multiplicity.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"

namespace tare::stats {
namespace {

// Positions of the p-values from the smallest to the largest.
std::vector<std::size_t> ascending_order(std::span<const double> p_values) {
  for (const double p : p_values) {
    if (!(p >= 0 && p <= 1)) throw input_error("p-value", "must lie between 0 and 1");
  }
  std::vector<std::size_t> order(p_values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return p_values[a] < p_values[b]; });
  return order;
}

}  // namespace

std::vector<double> holm_adjust(std::span<const double> p_values) {
  const std::vector<std::size_t> order = ascending_order(p_values);
  std::vector<double> adjusted(p_values.size());
  double largest = 0;  // step-down: an adjusted p is never below that of a smaller p
  for (std::size_t rank = 0; rank < order.size(); ++rank) {
    const double factor = static_cast<double>(order.size() - rank);
    largest = std::max(largest, std::min(1.0, factor * p_values[order[rank]]));
    adjusted[order[rank]] = largest;
  }
  return adjusted;
}

std::vector<double> benjamini_hochberg_adjust(std::span<const double> p_values) {
  const std::vector<std::size_t> order = ascending_order(p_values);
  std::vector<double> adjusted(p_values.size());
  double smallest = 1;  // step-up: never above that of a larger p
  for (std::size_t rank = order.size(); rank-- > 0;) {
    const double factor = static_cast<double>(order.size()) / static_cast<double>(rank + 1);
    smallest = std::min(smallest, factor * p_values[order[rank]]);
    adjusted[order[rank]] = smallest;
  }
  return adjusted;
}

std::vector<double> adjust(Multiplicity multiplicity, std::span<const double> p_values) {
  return multiplicity == Multiplicity::kHolm ? holm_adjust(p_values) : benjamini_hochberg_adjust(p_values);
}

}  // namespace tare::stats
