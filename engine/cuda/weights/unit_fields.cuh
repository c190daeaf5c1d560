// A unit of 256 x 64 weights as fields and scales in shared memory, on their way to the unit's words.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "engine/cuda/product/tiles.h"

namespace tare::engine {

template <WeightFormat kFormat, ScaleFormat kScales>
struct UnitFields {
  using Field = std::conditional_t<kFormat == WeightFormat::kBF16, std::uint16_t, std::uint8_t>;
  static constexpr int kStride = kUnitColumns + 4 / static_cast<int>(sizeof(Field));  // a word more: other banks
  static constexpr int kBlocks = row_scales_a_unit(kFormat);

  Field fields[kUnitRows][kStride];
  std::uint16_t scales[kUnitRows][kBlocks == 0 ? 1 : kBlocks];

  // By all threads of the block, after the last field was written: the words in order, so that they are written as they
  // lie, then the scales.
  __device__ __forceinline__ void write(std::byte* unit) const {
    __syncthreads();
    auto* words = reinterpret_cast<std::uint32_t*>(unit);
    for (auto index = static_cast<int>(threadIdx.x); index < unit_code_bytes(kFormat) / 4;
         index += static_cast<int>(blockDim.x)) {
      words[index] =
          unit_word(kFormat, index, [&](int row, int column) -> std::uint32_t { return fields[row][column]; });
    }
    if constexpr (kBlocks > 0) {
      using Scale = std::conditional_t<has_tensor_scale({kFormat, kScales}), std::uint8_t, std::uint16_t>;
      auto* out = reinterpret_cast<Scale*>(unit + unit_code_bytes(kFormat));
      for (auto place = static_cast<int>(threadIdx.x); place < kUnitRows * kBlocks;
           place += static_cast<int>(blockDim.x)) {
        out[place] = static_cast<Scale>(scales[scale_row(place, kBlocks)][scale_block(place, kBlocks)]);
      }
    }
  }
};

}  // namespace tare::engine
