#include "stats/series.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/error.h"
#include "stats/distributions.h"
#include "stats/quantiles.h"

namespace tare::stats {
namespace {

constexpr std::size_t kShortestSeries = 8;
constexpr std::size_t kFewBlocks = 10;
constexpr double kNoiseBand = 2;            // correlations within 2 sqrt(log10 n / n) are noise (Politis and White)
constexpr std::size_t kLeastQuietLags = 5;  // so many in a row must be noise

void require_values(std::span<const double> values, std::size_t least) {
  if (values.size() < least) throw input_error("series", fmt::format("needs at least {} values", least));
  for (const double value : values) {
    if (!std::isfinite(value)) throw input_error("series", "values must be finite");
  }
}

double autocovariance(std::span<const double> values, double mean, std::size_t lag) {
  double sum = 0;
  for (std::size_t i = lag; i < values.size(); ++i) sum += (values[i] - mean) * (values[i - lag] - mean);
  return sum / static_cast<double>(values.size());
}

// 1 up to 1/2, then falling to 0 at 1 (Politis and Romano 1995).
double flat_top(double x) {
  return x <= 0.5 ? 1.0 : std::max(0.0, 2 * (1 - x));
}

}  // namespace

double autocorrelation(std::span<const double> values, std::size_t lag) {
  require_values(values, 2);
  if (lag >= values.size()) throw input_error("series.lag", "must be below the number of values");
  const double mean = moments(values).mean;
  const double variance = autocovariance(values, mean, 0);
  if (std::sqrt(variance) <= kNoSpread * std::abs(mean)) return 0;
  return autocovariance(values, mean, lag) / variance;
}

double effective_count(std::span<const double> values) {
  const double rho = std::clamp(autocorrelation(values, 1), 0.0, 1.0 - 1e-9);
  return static_cast<double>(values.size()) * (1 - rho) / (1 + rho);
}

SeriesMean batch_means(std::span<const double> values, std::size_t batches, double level) {
  if (batches < 2) throw input_error("batch means", "needs at least two batches");
  require_values(values, 2 * batches);
  const std::size_t length = values.size() / batches;
  const std::size_t skipped = values.size() - length * batches;
  std::vector<double> means;
  for (std::size_t batch = 0; batch < batches; ++batch) {
    means.push_back(moments(values.subspan(skipped + batch * length, length)).mean);
  }
  const Moments over = moments(means);
  SeriesMean result{.mean = over.mean, .units = batches, .block_length = length};
  result.standard_error = over.standard_deviation / std::sqrt(static_cast<double>(batches));
  result.interval = t_interval(result.mean, result.standard_error, static_cast<double>(batches) - 1, level);
  return result;
}

std::size_t block_length_rule(std::span<const double> values) {
  require_values(values, kShortestSeries);
  const double n = static_cast<double>(values.size());
  const double mean = moments(values).mean;
  const double variance = autocovariance(values, mean, 0);
  if (std::sqrt(variance) <= kNoSpread * std::abs(mean)) return 1;
  const double log_n = std::log10(n);
  const double band = kNoiseBand * std::sqrt(log_n / n);
  const std::size_t quiet_wanted = std::max(kLeastQuietLags, static_cast<std::size_t>(std::ceil(std::sqrt(log_n))));
  const std::size_t farthest =
      std::min(values.size() - 1, static_cast<std::size_t>(std::ceil(std::sqrt(n))) + quiet_wanted);
  std::size_t last_loud = 0;  // last lag before quiet_wanted quiet ones in a row
  for (std::size_t lag = 1; lag <= farthest && lag <= last_loud + quiet_wanted; ++lag) {
    if (std::abs(autocovariance(values, mean, lag) / variance) >= band) last_loud = lag;
  }
  const std::size_t window = std::min(2 * std::max<std::size_t>(last_loud, 1), farthest);
  double spectrum = variance;  // sum over all k of lambda R(k): the series at frequency 0
  double slope = 0;            // sum of lambda |k| R(k)
  for (std::size_t lag = 1; lag <= window; ++lag) {
    const double k = static_cast<double>(lag);
    const double term = 2 * flat_top(k / static_cast<double>(window)) * autocovariance(values, mean, lag);
    spectrum += term;
    slope += k * term;
  }
  const double most = std::ceil(std::min(3 * std::sqrt(n), n / 3));
  const double scale = 4.0 / 3.0 * spectrum * spectrum;
  const double length = scale > 0 ? std::cbrt(2 * slope * slope / scale) * std::cbrt(n) : most;
  return static_cast<std::size_t>(std::clamp(std::ceil(length), 1.0, most));
}

SeriesMean block_bootstrap(std::span<const double> values, std::size_t block_length, const BootstrapOptions& options) {
  check_bootstrap_options(options);
  require_values(values, kShortestSeries);
  const std::size_t count = values.size();
  if (block_length == 0 || block_length > count) {
    throw input_error("block bootstrap", "the block length must lie between 1 and the number of values");
  }
  // Sums of the block that begins at each place; the series is closed to a circle, so that all places weigh alike.
  std::vector<double> block_sum(count, 0);
  for (std::size_t begin = 0; begin < count; ++begin) {
    for (std::size_t k = 0; k < block_length; ++k) block_sum[begin] += values[(begin + k) % count];
  }
  const std::size_t blocks = (count + block_length - 1) / block_length;
  SeriesMean result{.mean = moments(values).mean, .units = blocks * block_length, .block_length = block_length};
  std::vector<double> means(static_cast<std::size_t>(options.resamples));
  for_each_resample(means.size(), options.threads, [&](std::size_t first, std::size_t last) {
    for (std::size_t b = first; b < last; ++b) {
      double sum = 0;
      draw_with_replacement(options.seed, ResampleKind::kBlocks, static_cast<std::uint32_t>(b), count, blocks,
                            [&](std::size_t begin) { sum += block_sum[begin]; });
      means[b] = sum / static_cast<double>(result.units);
    }
  });
  std::sort(means.begin(), means.end());
  result.standard_error = moments(means).standard_deviation;
  result.interval = {.low = quantile_of_sorted(means, 0.5 - options.level / 2),
                     .high = quantile_of_sorted(means, 0.5 + options.level / 2),
                     .level = options.level};
  if (blocks < kFewBlocks) {
    result.warnings.push_back(
        {.code = WarningCode::kFewBlocks,
         .text = fmt::format("{} blocks: their number is the sample size, and below {} the interval is too narrow",
                             blocks, kFewBlocks),
         .numbers = {{"blocks", static_cast<double>(blocks)}}});
  }
  return result;
}

}  // namespace tare::stats
