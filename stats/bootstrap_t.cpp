#include "stats/bootstrap_t.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "stats/distributions.h"
#include "stats/quantiles.h"

namespace tare::stats {
namespace {

// One cluster drawn n times leaves the difference of equal sums: below this share of them it is rounding.
constexpr double kCancelled = 1e-12;
constexpr double kNoStudentised = std::numeric_limits<double>::quiet_NaN();  // a resample without a spread

struct Cluster {
  double total = 0;
  double weight = 0;
};

// Sums over drawn clusters from which theta and its standard error follow. Totals are taken relative to theta of the
// sample (x - theta w), so that the squares lose no digits when the spread is small against the mean.
struct Sums {
  double weight = 0;
  double offset = 0;  // sum of (x - theta w)
  double offset_squares = 0;
  double cross = 0;  // sum of (x - theta w) w
  double weight_squares = 0;

  void add(const Cluster& relative) {
    weight += relative.weight;
    offset += relative.total;
    offset_squares += relative.total * relative.total;
    cross += relative.total * relative.weight;
    weight_squares += relative.weight * relative.weight;
  }
  // theta* - theta
  [[nodiscard]] double shift() const { return offset / weight; }
  [[nodiscard]] double standard_error(std::size_t clusters) const {
    const double n = static_cast<double>(clusters);
    const double d = shift();
    const double squares = offset_squares - 2 * d * cross + d * d * weight_squares;
    return squares > kCancelled * offset_squares ? std::sqrt(squares * n / (n - 1)) / weight : 0;
  }
};

double studentised(const Sums& sums, std::size_t clusters, double smallest_error) {
  const double error = sums.standard_error(clusters);
  return error > smallest_error ? sums.shift() / error : kNoStudentised;
}

std::vector<double> studentised_resamples(const std::vector<Cluster>& relative, const BootstrapOptions& options,
                                          double smallest_error, BootstrapTResult& result) {
  const std::size_t count = relative.size();
  const std::size_t all = exhaustive_count(count, static_cast<std::size_t>(options.resamples));
  result.exhaustive = all > 0;
  std::vector<double> values(result.exhaustive ? all : static_cast<std::size_t>(options.resamples));
  for_each_resample(values.size(), options.threads, [&](std::size_t begin, std::size_t end) {
    for (std::size_t b = begin; b < end; ++b) {
      Sums sums;
      const auto add = [&](std::size_t index) { sums.add(relative[index]); };
      if (result.exhaustive) {
        enumerated_resample(b, count, add);
      } else {
        draw_with_replacement(options.seed, ResampleKind::kClusters, static_cast<std::uint32_t>(b), count, count, add);
      }
      values[b] = studentised(sums, count, smallest_error);
    }
  });
  const auto kept = std::remove_if(values.begin(), values.end(), [](double value) { return std::isnan(value); });
  result.left_out = static_cast<std::size_t>(values.end() - kept);
  values.erase(kept, values.end());
  result.resamples = values.size();
  std::sort(values.begin(), values.end());
  return values;
}

BootstrapTResult bootstrap_t(const std::vector<Cluster>& clusters, const BootstrapOptions& options) {
  check_bootstrap_options(options);
  if (clusters.size() < 2) throw input_error("bootstrap-t", "needs at least two clusters");
  Cluster all;
  for (const Cluster& cluster : clusters) {
    all.total += cluster.total;
    all.weight += cluster.weight;
  }
  BootstrapTResult result;
  result.estimate = all.total / all.weight;
  std::vector<Cluster> relative;
  Sums sample;
  for (const Cluster& cluster : clusters) {
    relative.push_back({cluster.total - result.estimate * cluster.weight, cluster.weight});
    sample.add(relative.back());
  }
  result.standard_error = sample.standard_error(clusters.size());
  result.conclusive = clusters.size() >= static_cast<std::size_t>(kFewClusters);
  if (!result.conclusive) {
    result.warnings.push_back({.code = WarningCode::kFewPrompts,
                               .text = fmt::format("{} clusters: below {} no interval over clusters holds what it says",
                                                   clusters.size(), kFewClusters),
                               .numbers = {{"clusters", static_cast<double>(clusters.size())}}});
  }
  // The smallest spread that is not rounding: of the size of the terms that were summed.
  double size = 0;
  for (const Cluster& cluster : clusters) size += std::abs(cluster.total);
  const double smallest_error = kNoSpread * size / all.weight;
  if (result.standard_error <= smallest_error) {
    result.standard_error = 0;
    result.interval = result.t = {.low = result.estimate, .high = result.estimate, .level = options.level};
    result.warnings.push_back({.code = WarningCode::kDegenerate,
                               .text = "all clusters are the same: a point instead of an interval",
                               .numbers = {}});
    return result;
  }
  result.t =
      t_interval(result.estimate, result.standard_error, static_cast<double>(clusters.size()) - 1, options.level);
  const std::vector<double> ascending = studentised_resamples(relative, options, smallest_error, result);
  result.low_quantile = quantile_of_sorted(ascending, 0.5 - options.level / 2);
  result.high_quantile = quantile_of_sorted(ascending, 0.5 + options.level / 2);
  result.interval = {.low = result.estimate - result.high_quantile * result.standard_error,
                     .high = result.estimate - result.low_quantile * result.standard_error,
                     .level = options.level};
  return result;
}

}  // namespace

BootstrapTResult bootstrap_t_mean(std::span<const double> values, const BootstrapOptions& options) {
  const std::vector<double> ones(values.size(), 1.0);
  return bootstrap_t_ratio(values, ones, options);
}

BootstrapTResult bootstrap_t_ratio(std::span<const double> totals, std::span<const double> weights,
                                   const BootstrapOptions& options) {
  if (totals.size() != weights.size()) throw input_error("bootstrap-t", "needs one weight a cluster");
  std::vector<Cluster> clusters;
  clusters.reserve(totals.size());
  for (std::size_t i = 0; i < totals.size(); ++i) {
    if (!std::isfinite(totals[i]) || !std::isfinite(weights[i]) || !(weights[i] > 0)) {
      throw input_error(fmt::format("bootstrap-t, cluster {}", i),
                        "total and weight must be finite, the weight positive");
    }
    clusters.push_back({totals[i], weights[i]});
  }
  return bootstrap_t(clusters, options);
}

}  // namespace tare::stats
