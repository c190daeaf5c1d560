// What a warp of a weight product holds of a unit: operands of mma.sync m16n8k16 and its sums (register fragments: PTX
// ISA). Lane 4 g + p of warp w has rows 64 t + 16 w + g + 8 u of tile t and, in its sums, d[4 j + 2 u + v] of token
// 8 j + 2 p + v.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>

#include "engine/cuda/operand.h"
#include "engine/cuda/ptx.cuh"
#include "engine/cuda/tiles.h"

namespace tare::engine {

constexpr int kTilesAUnit = kUnitRows / kTileRows;

// d += a b, FP32 sums of products of FP16 or BF16 numbers.
template <bool kBFloat16>
__device__ __forceinline__ void multiply(float* d, const std::uint32_t* a, const std::uint32_t* b) {
  if constexpr (kBFloat16) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  } else {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  }
}

// A lane's part of an operand block: operand B of the four K steps and the group sums of its tokens.
template <int kTokens>
struct OperandPart {
  std::uint32_t b[kTokens];      // [step 4][j][k half]
  float group_sum[kTokens / 4];  // [j][v]

  [[nodiscard]] __device__ __forceinline__ const std::uint32_t* step(int index) const {
    return b + index * (kTokens / 4);
  }

  // Where a lane's row of the first matrices lies in the block.
  [[nodiscard]] static __device__ __forceinline__ std::uint32_t panel_row(std::uint32_t lane) {
    if constexpr (kTokens == 8) return lane * 16;  // two steps are four matrices in a row
    return lane / 8 % 2 * (16 * kTokens) + lane / 16 * 128 + lane % 8 * 16;
  }
  // `row`: shared address of the block plus panel_row.
  __device__ __forceinline__ void load_panel(std::uint32_t row) {
    constexpr int kStepsALoad = kTokens == 8 ? 2 : 1;
    constexpr int kLoadsAStep = kTokens == 32 ? 2 : 1;
#pragma unroll
    for (int step = 0; step < 4; step += kStepsALoad) {
#pragma unroll
      for (int load = 0; load < kLoadsAStep; ++load) {
        ptx::load_matrices(row + static_cast<std::uint32_t>(step * 32 * kTokens + load * 256),
                           b + step * (kTokens / 4) + 4 * load);
      }
    }
  }
  // `block`: its shared address; p: lane % 4.
  __device__ __forceinline__ void load_sums(std::uint32_t block, std::uint32_t p) {
    const std::uint32_t place = block + operand_panel_bytes(kTokens) + p * kTokens;
    if constexpr (kTokens == 8) {
      const uint2 two = ptx::load_shared_8(place);
      group_sum[0] = __uint_as_float(two.x), group_sum[1] = __uint_as_float(two.y);
    } else {
#pragma unroll
      for (int four = 0; four < kTokens / 16; ++four) {
        const uint4 words = ptx::load_shared_16(place + static_cast<std::uint32_t>(four * 16));
        group_sum[4 * four] = __uint_as_float(words.x), group_sum[4 * four + 1] = __uint_as_float(words.y);
        group_sum[4 * four + 2] = __uint_as_float(words.z), group_sum[4 * four + 3] = __uint_as_float(words.w);
      }
    }
  }
};

// What a group's sums start at: the format's bias times the group sum.
template <class Format, int kTokens>
__device__ __forceinline__ void start_sums(float (&sums)[kTokens / 2], const float (&group_sum)[kTokens / 4]) {
#pragma unroll
  for (int j = 0; j < kTokens / 8; ++j) {
#pragma unroll
    for (int v = 0; v < 2; ++v) {
      if constexpr (Format::kGroupBias != 0.0F) {
        sums[4 * j + v] = Format::kGroupBias * group_sum[2 * j + v];
        sums[4 * j + 2 + v] = Format::kGroupBias * Format::kRowFactor * group_sum[2 * j + v];
      } else {
        sums[4 * j + v] = 0.0F;
        sums[4 * j + 2 + v] = 0.0F;
      }
    }
  }
}

// totals += scale sums, rows g and g + 8 with their scales.
template <int kTokens>
__device__ __forceinline__ void add_group(float (&totals)[kTokens / 2], const float (&sums)[kTokens / 2],
                                          std::uint32_t packed_scales) {
  const float2 scales = __half22float2(*reinterpret_cast<const __half2*>(&packed_scales));
#pragma unroll
  for (int j = 0; j < kTokens / 8; ++j) {
#pragma unroll
    for (int v = 0; v < 2; ++v) {
      totals[4 * j + v] = fmaf(scales.x, sums[4 * j + v], totals[4 * j + v]);
      totals[4 * j + 2 + v] = fmaf(scales.y, sums[4 * j + 2 + v], totals[4 * j + 2 + v]);
    }
  }
}

}  // namespace tare::engine
