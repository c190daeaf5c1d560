#include "stats/front.h"

#include <cmath>
#include <cstddef>

#include "base/error.h"

namespace tare::stats {

std::vector<bool> non_dominated(std::span<const double> gain, std::span<const double> loss) {
  if (gain.size() != loss.size()) throw internal_error("gains and losses of different lengths");
  std::vector<bool> front(gain.size(), false);
  for (std::size_t i = 0; i < gain.size(); ++i) {
    front[i] = !std::isnan(gain[i]) && !std::isnan(loss[i]);
    for (std::size_t j = 0; j < gain.size() && front[i]; ++j) {
      const bool no_worse = gain[j] >= gain[i] && loss[j] <= loss[i];
      const bool better = gain[j] > gain[i] || loss[j] < loss[i];
      if (no_worse && better) front[i] = false;
    }
  }
  return front;
}

}  // namespace tare::stats
