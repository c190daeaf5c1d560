// What a warp of a weight product holds of a unit: operands of mma.sync m16n8k16 and its sums (register fragments: PTX
// ISA). Lane 4 g + p of warp w has rows 64 t + 16 w + g + 8 u of tile t and, in its sums, d[4 j + 2 u + v] of token
// 8 j + 2 p + v.
#pragma once

#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <cstdint>

#include "engine/cuda/device/ptx.cuh"
#include "engine/cuda/product/operand.h"
#include "engine/cuda/product/tiles.h"

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

// Operand B of one K step for a lane, from a panel (operand.h).
template <int kTokens>
struct OperandStep {
  std::uint32_t b[kTokens / 4];  // [j][k half]

  // Where a lane's row of the matrices of step 0 lies in the panel.
  [[nodiscard]] static __device__ __forceinline__ std::uint32_t row(std::uint32_t lane) {
    return lane / 8 % 2 * (16 * kTokens) + (kTokens == 8 ? 0 : lane / 16 * 128) + lane % 8 * 16;
  }
  // Of what load() asked for.
  [[nodiscard]] __device__ __forceinline__ std::uint32_t last() const { return b[kTokens / 4 - 1]; }
  // `row`: shared address of the panel plus row().
  __device__ __forceinline__ void load(std::uint32_t row, int step) {
    const std::uint32_t place = row + static_cast<std::uint32_t>(step * 32 * kTokens);
    if constexpr (kTokens == 8) {
      ptx::load_two_matrices(place, b);
    } else {
#pragma unroll
      for (int tokens = 0; tokens < kTokens / 16; ++tokens) {
        ptx::load_four_matrices(place + static_cast<std::uint32_t>(tokens * 256), b + 4 * tokens);
      }
    }
  }
};

// The group sums of a lane's tokens, [j][v].
template <int kTokens>
struct GroupSums {
  float at[kTokens / 4];

  // Where the sums of lanes 4 g + p lie in an operand block.
  [[nodiscard]] static __device__ __forceinline__ std::uint32_t place(std::uint32_t p) {
    return operand_panel_bytes(kTokens) + p * kTokens;
  }
  __device__ __forceinline__ void load(std::uint32_t place) {
    if constexpr (kTokens == 8) {
      const uint2 two = ptx::load_shared_8(place);
      at[0] = __uint_as_float(two.x), at[1] = __uint_as_float(two.y);
    } else {
#pragma unroll
      for (int four = 0; four < kTokens / 16; ++four) {
        const uint4 words = ptx::load_shared_16(place + static_cast<std::uint32_t>(four * 16));
        at[4 * four] = __uint_as_float(words.x), at[4 * four + 1] = __uint_as_float(words.y);
        at[4 * four + 2] = __uint_as_float(words.z), at[4 * four + 3] = __uint_as_float(words.w);
      }
    }
  }
};

// What a group's sums start at: the format's bias times the group sum.
template <class Format, int kTokens>
__device__ __forceinline__ void start_sums(float (&sums)[kTokens / 2], const GroupSums<kTokens>& group_sums) {
#pragma unroll
  for (int j = 0; j < kTokens / 8; ++j) {
#pragma unroll
    for (int v = 0; v < 2; ++v) {
      if constexpr (Format::kGroupBias != 0.0F) {
        sums[4 * j + v] = Format::kGroupBias * group_sums.at[2 * j + v];
        sums[4 * j + 2 + v] = Format::kGroupBias * Format::kRowFactor * group_sums.at[2 * j + v];
      } else {
        sums[4 * j + v] = 0.0F;
        sums[4 * j + 2 + v] = 0.0F;
      }
    }
  }
}

// The scales of rows g and g + 8 in a lane's two tiles, as a unit has them.
template <ScaleFormat kScales>
struct LaneScales {
  uint2 pairs;
  __device__ __forceinline__ void load(std::uint32_t place) { pairs = ptx::load_shared_8(place); }
  [[nodiscard]] __device__ __forceinline__ std::uint32_t last() const { return pairs.y; }
  // Two FP16 numbers.
  [[nodiscard]] __device__ __forceinline__ std::uint32_t of(int tile) const { return tile == 0 ? pairs.x : pairs.y; }
};
template <>
struct LaneScales<ScaleFormat::kE4M3> {
  std::uint32_t bytes;
  __device__ __forceinline__ void load(std::uint32_t place) { bytes = ptx::load_shared_4(place); }
  [[nodiscard]] __device__ __forceinline__ std::uint32_t last() const { return bytes; }
  [[nodiscard]] __device__ __forceinline__ std::uint32_t of(int tile) const {
    const auto two = static_cast<__nv_fp8x2_storage_t>(bytes >> (16 * tile));
    const __half2_raw halves = __nv_cvt_fp8x2_to_halfraw2(two, __NV_E4M3);  // exact
    return static_cast<std::uint32_t>(halves.x) | static_cast<std::uint32_t>(halves.y) << 16;
  }
};

// totals += sums of weights that had their scales.
template <int kTokens>
__device__ __forceinline__ void add_unit(float (&totals)[kTokens / 2], const float (&sums)[kTokens / 2]) {
#pragma unroll
  for (int i = 0; i < kTokens / 2; ++i) totals[i] += sums[i];
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
