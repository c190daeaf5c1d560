// How fast this machine can read: the denominator of every share. Nothing is written, nothing but a sum is computed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/thread_pool.h"

namespace tare::profiles {

// A working set in the memory that the weights stream from.
class ReadRateProbe {
 public:
  virtual ~ReadRateProbe() = default;
  // Reads the whole set `passes` times and returns bytes a second. passes >= 1.
  virtual double measure(int passes) = 0;
  [[nodiscard]] virtual std::size_t bytes() const = 0;
};

// Where probes come from: this machine's cores, or its GPU (gpu_read_rate.h).
struct ReadRateSource {
  std::string reader;             // "2 threads", "GPU 0, 132 SMs"
  std::size_t beyond_caches = 0;  // bytes of a working set of which no cache holds a part worth naming
  std::function<std::unique_ptr<ReadRateProbe>(std::size_t bytes)> make;
};

// Reads front to back, each thread its own contiguous part, as streaming weights does.
class CpuReadRateProbe final : public ReadRateProbe {
 public:
  // Allocates and fills `bytes` (rounded up to 64 a thread) with numbers that are not constant; each thread touches its
  // own part first, so that pages lie where they are read. The pool must outlive the probe.
  CpuReadRateProbe(ThreadPool& pool, std::size_t bytes);
  double measure(int passes) override;
  [[nodiscard]] std::size_t bytes() const override { return words_.size() * sizeof(std::uint64_t); }

 private:
  ThreadPool* pool_;
  std::vector<std::uint64_t> words_;
  std::vector<std::uint64_t> sums_;  // one a thread, a cache line apart: what keeps the reads from being removed
};

[[nodiscard]] ReadRateSource cpu_read_rate(int threads);

}  // namespace tare::profiles
