// How a drafter's shape becomes sizes in device memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "engine/backend/options.h"
#include "engine/cuda/device/cuda_device.h"
#include "engine/cuda/drafter/drafter_kernels.h"

namespace tare::engine {

constexpr std::array<int, 3> kDrafterWidths = {8, 16, 32};  // of panels
enum class DrafterOperand { kFeatures, kContext, kNormed, kMixed, kActivated };
constexpr std::size_t kDrafterOperandKinds = 5;
// Positions of a prefill chunk that are projected at once: few enough for a modest work space, many enough that
// widening the weights for each is a small part of the work.
constexpr std::int64_t kDrafterPrefillSlice = 1024;

[[nodiscard]] DrafterShape drafter_shape(const BlockDrafterConfig& config);
[[nodiscard]] CacheFormat drafter_cache_format(const EngineOptions& options);
[[nodiscard]] ProductSettings drafter_product_settings(const EngineOptions& options, const CudaDevice& device,
                                                       std::int64_t blocks_per_sm);

// Bytes of every buffer.
struct DrafterSizes {
  std::size_t round_taps = 0, prefill_taps = 0, cache = 0, rope = 0, x = 0, results = 0, queries = 0, sums = 0,
              ends = 0, row_operand = 0, chunk_largest = 0, stretch_ends = 0, gate_up = 0;
  std::size_t panels[kDrafterOperandKinds][3] = {};

  [[nodiscard]] std::uint64_t work() const {
    std::uint64_t total = round_taps + prefill_taps + 3 * x + results + queries + sums + ends + row_operand +
                          chunk_largest + stretch_ends + gate_up + 2 * rope;
    for (const auto& kind : panels)
      for (const std::size_t bytes : kind) total += bytes;
    return total;
  }
};

[[nodiscard]] DrafterSizes drafter_sizes(const BlockDrafterConfig& config, const EngineOptions& options,
                                         std::int64_t capacity, const CudaDevice& device, std::int64_t head_rows);

}  // namespace tare::engine
