#include "stats/handicap.h"

#include <fmt/format.h>

#include <cmath>

#include "base/error.h"

namespace tare::stats {

double handicap_truth(std::span<const HandicapRun> runs) {
  if (runs.empty()) throw input_error("handicap", "no runs of the handicapped arm");
  double sum = 0;
  for (std::size_t r = 0; r < runs.size(); ++r) {
    if (runs[r].spun_ns < 0 || runs[r].spun_ns >= runs[r].total_ns) {
      throw input_error(fmt::format("handicap, run {}", r),
                        fmt::format("spun {} ns of {} ns", runs[r].spun_ns, runs[r].total_ns));
    }
    sum += std::log1p(-static_cast<double>(runs[r].spun_ns) / static_cast<double>(runs[r].total_ns));
  }
  return sum / static_cast<double>(runs.size());
}

}  // namespace tare::stats
