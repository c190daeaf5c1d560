// Means of one autocorrelated series: tokens of one long text, rounds of one walk. Neighbours resemble each other, so
// the plain interval of a mean is too narrow (AR(1) with 0.6 and n = 512: 69 % instead of 95 %).
//
//   effective count   n (1 - rho) / (1 + rho), rho the correlation of neighbours: exact for AR(1)
//   batch means       the series cut into batches, t over their means: 16 batches of 32 hold 94-95 % up to rho = 0.8
//   block bootstrap   circular blocks (Politis and Romano 1992) of one length, percentile bounds of the mean
//   block length      Politis and White 2004 with Patton's correction of 2009:
//                     b = (2 G^2 / D)^(1/3) n^(1/3), G = sum lambda(k/M) |k| R(k), D = 4/3 (sum lambda(k/M) R(k))^2,
//                     lambda flat to 1/2 then linear to 0, M twice the lag after which correlations are noise
// Where there are many texts take them as clusters instead (bootstrap_t.h): blocks are for the inside of one.
#pragma once

#include <cstddef>
#include <span>

#include "stats/effect.h"
#include "stats/resampling.h"

namespace tare::stats {

// A mean with its interval, both in the unit of the values.
struct SeriesMean {
  double mean = 0;
  double standard_error = 0;
  Interval interval = {};
  std::size_t units = 0;         // batches, or values in all blocks of a resample
  std::size_t block_length = 0;  // values in a batch or block
  std::vector<Warning> warnings = {};
};

// Autocorrelation at a lag (divisor n); 0 for a constant series. Throws Error (input) for lag >= n or n < 2.
[[nodiscard]] double autocorrelation(std::span<const double> values, std::size_t lag = 1);

// n (1 - rho) / (1 + rho) with rho = autocorrelation at lag 1, at most n (negative rho is taken as 0).
[[nodiscard]] double effective_count(std::span<const double> values);

inline constexpr std::size_t kBatches = 16;

// The first n mod batches values are left out, so that batches are equal. Throws Error (input) for batches < 2 or fewer
// than two values a batch.
[[nodiscard]] SeriesMean batch_means(std::span<const double> values, std::size_t batches = kBatches,
                                     double level = 0.95);

// In [1, ceil(min(3 sqrt(n), n / 3))]. Throws Error (input) for n < 8.
[[nodiscard]] std::size_t block_length_rule(std::span<const double> values);

// Throws Error (input) for a block length of 0 or above n, n < 8, or options out of range. Fewer than ten blocks: a
// warning, since their number is then the sample size.
[[nodiscard]] SeriesMean block_bootstrap(std::span<const double> values, std::size_t block_length,
                                         const BootstrapOptions& options = {});

}  // namespace tare::stats
