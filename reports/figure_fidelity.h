// Fidelity against what it costs, as `tare fidelity` draws it: divergence over bytes a token and over speed.
#pragma once

#include <string>
#include <vector>

#include "reports/figures.h"

namespace tare::reports {

// One arm and kind of text.
struct FidelityPoint {
  std::string arm;
  std::string kind;
  double megabytes = kMissing;          // read and written a token
  double tokens_per_second = kMissing;  // missing or 0: not in the second panel
  double divergence = kMissing;         // nats
  double low = kMissing;                // of its interval
  double high = kMissing;
};

struct FidelityFigure {
  std::string heading;
  std::string speed_words;  // what the speeds are of
  std::vector<FidelityPoint> points;
};

// Divergences below it, zero and negative ones among them, are drawn here: FP32 rounding of the reference.
inline constexpr double kLeastDivergence = 1e-7;

// Name "fidelity". Arms are numbered in order of appearance, a kind has a shape and a colour.
[[nodiscard]] Plot fidelity_plot(const FidelityFigure& figure);

}  // namespace tare::reports
