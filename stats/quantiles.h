// Quantiles of a sample. Definition: type 7 of Hyndman and Fan (1996), linear between order statistics at (n - 1) p;
// the default of R and NumPy. p50 of 10, 20, ..., 100 is 55.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

namespace tare::stats {

// Throws Error (input) for an empty sample or p outside [0, 1]. The first form sorts a copy; the second wants ascending
// values.
[[nodiscard]] double quantile(std::span<const double> values, double p);
[[nodiscard]] double quantile_of_sorted(std::span<const double> ascending, double p);

// Fewest values from which quantile p says more than "the maximum": ceil(1 / (1 - p)) for p > 0.5: 100 for p99, 1000
// for p99.9.
[[nodiscard]] std::size_t fewest_values_for_quantile(double p);

// Distribution-free interval for the median from order statistics (binomial): the ranks (from 1) of the narrowest
// symmetric pair whose coverage is at least `level`; nothing when no pair reaches it (n = 5 at 95 %).
struct MedianRanks {
  std::size_t low = 0;
  std::size_t high = 0;
  double coverage = 0;
};
[[nodiscard]] std::optional<MedianRanks> median_interval_ranks(std::size_t count, double level = 0.95);

}  // namespace tare::stats
