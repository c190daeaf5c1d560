// The truth of a handicap: an arm that spins a known time in each round is slower by a known amount, against which an
// interval can be checked. T is the run's time with the handicap, S the time really spun in it: the effect is ln((T -
// S) / T), negative.
#pragma once

#include <cstdint>
#include <span>

namespace tare::stats {

struct HandicapRun {
  std::int64_t spun_ns = 0;
  std::int64_t total_ns = 0;  // of the same rounds, spin included
};

// Mean over the arm's runs of ln((T - S) / T), as the run-level estimate averages logs. Throws Error (input) unless 0
// <= S < T.
[[nodiscard]] double handicap_truth(std::span<const HandicapRun> runs);

}  // namespace tare::stats
