// How an MTP head's shape becomes sizes in device memory.
#pragma once

#include "engine/cuda/drafter/drafter_sizes.h"
#include "engine/cuda/drafter/mtp_weights.h"

namespace tare::engine {

enum class MtpOperand { kJoined, kNormed, kMixed, kActivated };
constexpr std::size_t kMtpOperandKinds = 4;
constexpr std::int32_t kMtpRing = 2 * kMostRoundTokens;  // states: those that wait, and those that a round adds

// The rows of a step lie in slots up to this many past its first one.
[[nodiscard]] constexpr std::int64_t mtp_slots(std::int64_t capacity) {
  return capacity + kMostRoundTokens;
}

// Bytes of every buffer.
struct MtpSizes {
  std::size_t cache = 0, rope = 0, states = 0, prefill_hidden = 0, x = 0, results = 0, workspace = 0, chunks = 0,
              stretch_ends = 0, row_operand = 0, gate_up = 0;
  std::size_t panels[kMtpOperandKinds][3] = {};

  [[nodiscard]] std::uint64_t work() const {
    std::uint64_t total = 2 * rope + states + prefill_hidden + 2 * x + results + workspace + chunks + stretch_ends +
                          row_operand + gate_up;
    for (const auto& kind : panels)
      for (const std::size_t bytes : kind) total += bytes;
    return total;
  }
};

[[nodiscard]] MtpSizes mtp_sizes(const ModelConfig& config, const EngineOptions& options, std::int64_t capacity,
                                 const CudaDevice& device, std::int64_t head_rows);

}  // namespace tare::engine
