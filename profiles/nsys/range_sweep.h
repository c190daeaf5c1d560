// Which range a call lies in: one pass over ranges and calls in the order of time.
//
// A call lies in a range of its own thread, or in a process-wide one of its process, when start <= call < end. The
// innermost is the one that started last (of equal starts the shorter one). A range that is marked as a round, and is
// not itself inside another round, is the round of every call in it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tare::profiles {

struct HostRange {
  std::uint64_t process = 0;
  std::uint64_t thread = 0;  // distinct over all processes
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  std::int32_t name = 0;      // index into somebody's names
  bool process_wide = false;  // started and ended by any thread, rather than pushed and popped by one
  bool is_round = false;
};

struct HostCall {
  std::uint64_t process = 0;
  std::uint64_t thread = 0;
  std::int64_t start_ns = 0;
};

constexpr std::int32_t kNoRange = -1;

struct RangeSweep {
  std::vector<std::int32_t> parent;     // of every range: the innermost one at its start; kNoRange at the top
  std::vector<std::int32_t> innermost;  // of every call
  std::vector<std::int32_t> round;      // of every call
};

// Time is that of sorting, plus for every thread that of walking its process's process-wide ranges.
[[nodiscard]] RangeSweep sweep_ranges(std::span<const HostRange> ranges, std::span<const HostCall> calls);

}  // namespace tare::profiles
