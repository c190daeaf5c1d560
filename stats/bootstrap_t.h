// Bootstrap-t (Efron 1981; Hall 1988) of a mean or a ratio of totals over clusters: documents, scored windows, prompts.
// For few skewed clusters, where percentile and BCa intervals are too narrow (22 windows of KL: 89-91 % of a nominal
// 95 %, this one 92-93 %) and a symmetric t interval misses more on one side.
//
//   theta = sum x_i / sum w_i,   SE^2 = n/(n-1) sum (x_i - theta w_i)^2 / (sum w_i)^2   (linearised; n clusters)
//   t* = (theta* - theta) / SE*, clusters drawn with replacement;  [theta - q(1-a/2) SE, theta - q(a/2) SE], type-7
//   quantiles q of t*.
// A resample of one cluster drawn n times has SE* = 0 and no t*; it is left out and counted. n^n <= resamples (n <= 5
// at 10,000): all are enumerated. Bounds are in the unit of x / w: not logs, not percent.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "stats/effect.h"
#include "stats/resampling.h"

namespace tare::stats {

inline constexpr int kFewClusters = 20;  // below it no bootstrap over clusters holds what it says

struct BootstrapTResult {
  double estimate = 0;        // theta
  double standard_error = 0;  // SE
  Interval interval = {};     // bootstrap-t; a point when all clusters are the same (warning "degenerate")
  Interval t = {};            // theta -+ t(n - 1) SE, beside it
  // Studentised quantiles q(a/2), q(1-a/2): symmetric around 0 when the clusters are not skewed.
  double low_quantile = 0;
  double high_quantile = 0;
  bool exhaustive = false;    // all n^n resamples instead of random ones
  std::size_t resamples = 0;  // how many t* were formed
  std::size_t left_out = 0;   // resamples without a spread
  bool conclusive = false;    // at least kFewClusters clusters
  std::vector<Warning> warnings = {};
};

// Of a mean: every cluster has the weight 1. Paired differences go in here as they are. Throws Error (input) for fewer
// than two values, values that are not finite, or options out of range.
[[nodiscard]] BootstrapTResult bootstrap_t_mean(std::span<const double> values, const BootstrapOptions& options = {});

// Of sum totals / sum weights: a cluster's total (of KL, say) and its weight (tokens), which may differ in length.
// Throws Error (input) as above, for lengths that differ, or weights that are not positive.
[[nodiscard]] BootstrapTResult bootstrap_t_ratio(std::span<const double> totals, std::span<const double> weights,
                                                 const BootstrapOptions& options = {});

}  // namespace tare::stats
