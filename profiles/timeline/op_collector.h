// Times the ops that a backend of the CPU tells of, so that its rounds go through the same tables as a GPU's.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/backend/collector.h"
#include "profiles/timeline/kernel_records.h"

namespace tare::profiles {

// Some thousands of rounds of 64 layers; 32 MB.
constexpr std::size_t kMostOps = std::size_t{1} << 20;

// Begin and end of every op on the steady clock, in memory that is there before the first one: two readings of the
// clock an op. Ops past the room are dropped and counted.
class OpRecorder final : public engine::Collector {
 public:
  explicit OpRecorder(std::size_t most_ops = kMostOps) : ops_(most_ops) {}

  void begin(const engine::LaunchRecord& op, std::uint64_t bytes) override {
    if (count_ == ops_.size()) return;
    Op& next = ops_[count_];
    next.op = &op;
    next.bytes = bytes;
    next.start_ns = now_ns();
  }
  void end() override {
    if (count_ == ops_.size()) {
      ++dropped_;
      return;
    }
    ops_[count_++].end_ns = now_ns();
  }

  // What was recorded since the last call, in order; records carry labels. The backend is still there.
  [[nodiscard]] KernelRecords take();

 private:
  struct Op {
    const engine::LaunchRecord* op = nullptr;
    std::uint64_t bytes = 0;
    std::int64_t start_ns = 0;
    std::int64_t end_ns = 0;
  };
  std::vector<Op> ops_;
  std::size_t count_ = 0;
  std::uint64_t dropped_ = 0;

  static std::int64_t now_ns() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }
};

// Of the ops of `backend`, which outlives it; it can pause. Throws Error (input): a backend that tells no ops.
[[nodiscard]] std::unique_ptr<KernelCollector> make_op_collector(engine::Backend& backend,
                                                                 std::size_t most_ops = kMostOps);

}  // namespace tare::profiles
