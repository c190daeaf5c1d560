// How fast this machine can read: the denominator of every share. Nothing is written, nothing but a sum is computed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/thread_pool.h"

namespace tare::profiles {

// Reads a working set front to back, each thread its own contiguous part, as streaming weights does.
class ReadRateProbe {
 public:
  // Allocates and fills `bytes` (rounded up to 64 a thread) with numbers that are not constant; each thread touches its
  // own part first, so that pages lie where they are read. The pool must outlive the probe.
  ReadRateProbe(ThreadPool& pool, std::size_t bytes);

  // Reads the whole set `passes` times and returns bytes a second. passes >= 1.
  double measure(int passes);

  [[nodiscard]] std::size_t bytes() const { return words_.size() * sizeof(std::uint64_t); }

 private:
  ThreadPool* pool_;
  std::vector<std::uint64_t> words_;
  std::vector<std::uint64_t> sums_;  // one a thread, a cache line apart: what keeps the reads from being removed
};

}  // namespace tare::profiles
