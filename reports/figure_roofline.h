// The roofline of one configuration, as `tare ceiling` draws it.
#pragma once

#include <string>
#include <vector>

#include "reports/figures.h"

namespace tare::reports {

struct RooflinePoint {
  std::string name;
  double intensity = kMissing;        // operations a byte
  double attainable_gops = kMissing;  // 10^9 operations a second
  double measured_gops = kMissing;
};

struct RooflineFigure {
  std::string heading;
  double read_gb_per_s = kMissing;
  double compute_gops = kMissing;  // missing: not known, no flat roof
  std::vector<RooflinePoint> points;
};

// Name "roofline". Points without an intensity are left out.
[[nodiscard]] Plot roofline_plot(const RooflineFigure& roofline);

}  // namespace tare::reports
