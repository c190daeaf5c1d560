// The rows of a time difference as its table and its figure show them.
#pragma once

#include <vector>

#include "reports/findings.h"

namespace tare::reports {

inline constexpr std::size_t kMostTimeRows = 20;  // findings.json has all

// The largest rows, and the sum of the others ("5 others", without an interval) where there are more.
[[nodiscard]] std::vector<TimeRow> shown_rows(const TimeDifference& difference);
// What kernels or ops, idle time and host make of the difference: the timed one less the residual.
[[nodiscard]] double explained_us(const TimeDifference& difference);

}  // namespace tare::reports
