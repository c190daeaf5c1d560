#include "stats/stalls.h"

#include "stats/quantiles.h"

namespace tare::stats {

std::vector<bool> stalled_rounds(std::span<const std::int64_t> durations_ns) {
  std::vector<bool> stalled(durations_ns.size(), false);
  if (durations_ns.empty()) return stalled;
  constexpr double kHalf = 0.5;
  const double limit = kStallFactor * quantile(std::vector<double>(durations_ns.begin(), durations_ns.end()), kHalf);
  for (std::size_t i = 0; i < stalled.size(); ++i) stalled[i] = static_cast<double>(durations_ns[i]) > limit;
  return stalled;
}

}  // namespace tare::stats
