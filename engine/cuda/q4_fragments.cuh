// What a consumer thread of the q4 stream does with its part of a stage, apart from the products: where it lies, how
// codes become operand A, how sums become totals, where totals go.
//
// Sums: d[4 j + 2 u + v] of a thread is row 16 w + g + 8 u of a tile, token 8 j + 2 p + v (register fragments of
// mma.sync m16n8k16 and of wgmma m64nNk16: PTX ISA).
#pragma once

#include <cuda_fp16.h>

#include "engine/cuda/q4_stream.cuh"

namespace tare::engine {

constexpr float kQ4OddRowFactor = 16.0F;  // what sums of rows g + 8 come out too large by
constexpr float kQ4SumFactor = 0x1p24F;   // codes enter as subnormals, q 2^-24

// Operand A of one K step, registers 0..3, from the word that holds it: five operations for eight codes, each then
// exact in FP16 (q4_activations.h).
__device__ __forceinline__ void unpack_word(std::uint32_t word, std::uint32_t* registers) {
  const std::uint32_t upper = word >> 8;
  registers[0] = word & 0x000F'000FU;
  registers[1] = word & 0x00F0'00F0U;
  registers[2] = upper & 0x000F'000FU;
  registers[3] = upper & 0x00F0'00F0U;
}

// Of a tile, all four K steps.
__device__ __forceinline__ void unpack_tile(const uint4& codes, std::uint32_t* registers) {
  unpack_word(codes.x, registers);
  unpack_word(codes.y, registers + 4);
  unpack_word(codes.z, registers + 8);
  unpack_word(codes.w, registers + 12);
}

// The offsets of this thread's tokens, [j][v].
template <int kTokens>
struct Offsets {
  float at[kTokens / 4];

  __device__ __forceinline__ void load(std::uint32_t shared_address) {
    if constexpr (kTokens == 16) {
      asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                   : "=f"(at[0]), "=f"(at[1]), "=f"(at[2]), "=f"(at[3])
                   : "r"(shared_address));
    } else {
      asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(at[0]), "=f"(at[1]) : "r"(shared_address));
    }
  }
};

// totals += scale (sums + offset), of rows g and g + 8 with their scales.
template <int kTokens>
__device__ __forceinline__ void add_group(float (&totals)[kTokens / 2], const float (&sums)[kTokens / 2],
                                          __half2 packed_scales, const Offsets<kTokens>& offsets) {
  const float2 scales = __half22float2(packed_scales);
#pragma unroll
  for (int j = 0; j < kTokens / 8; ++j) {
#pragma unroll
    for (int v = 0; v < 2; ++v) {
      const float offset = offsets.at[2 * j + v];
      totals[4 * j + v] = fmaf(scales.x, sums[4 * j + v] + offset, totals[4 * j + v]);
      totals[4 * j + 2 + v] = fmaf(scales.y, fmaf(kQ4OddRowFactor, offset, sums[4 * j + 2 + v]), totals[4 * j + 2 + v]);
    }
  }
}

// Where a consumer thread stands, and where its parts of a unit lie. `Tiles`: how many of the unit's four tiles a
// warpgroup has.
template <int kTiles>
struct Q4Lane {
  int first_tile = static_cast<int>(threadIdx.x) / 128 * kTiles;
  int warp = static_cast<int>(threadIdx.x) % 128 / 32;
  int g = static_cast<int>(threadIdx.x) % 32 / 4;
  int p = static_cast<int>(threadIdx.x) % 4;
  std::uint32_t codes = static_cast<std::uint32_t>(first_tile * 2048 + static_cast<int>(threadIdx.x) % 128 * 16);
  std::uint32_t scales =
      static_cast<std::uint32_t>(kQ4CodeBytes + ((first_tile / 2 * 4 + warp) * 8 + g) * 8 + first_tile % 2 * 4);

  // Keeps the two offsets in registers; else they are made anew in every turn of the loop.
  __device__ __forceinline__ void hold() { asm volatile("" : "+r"(codes), "+r"(scales)); }
  [[nodiscard]] __device__ __forceinline__ int row(int tile) const {
    return (first_tile + tile) * kQ4TileRows + warp * 16 + g;
  }
};

__device__ __forceinline__ uint4 load_codes(std::uint32_t shared_address) {
  uint4 codes;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(codes.x), "=r"(codes.y), "=r"(codes.z), "=r"(codes.w)
               : "r"(shared_address));
  return codes;
}
// The scales of rows g and g + 8 of a tile.
__device__ __forceinline__ __half2 load_scales(std::uint32_t shared_address) {
  std::uint32_t scales = 0;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(scales) : "r"(shared_address));
  return *reinterpret_cast<__half2*>(&scales);
}

// Writes a thread's totals of its tiles to the plane of its row block.
template <int kTokens, int kTiles>
__device__ __forceinline__ void store_totals(float* plane, const float (&totals)[kTiles][kTokens / 2],
                                             const Q4Lane<kTiles>& lane) {
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
    for (int j = 0; j < kTokens / 8; ++j) {
#pragma unroll
      for (int u = 0; u < 2; ++u) {
        const float factor = kQ4SumFactor / (u == 0 ? 1.0F : kQ4OddRowFactor);
        const float2 pair{totals[tile][4 * j + 2 * u] * factor, totals[tile][4 * j + 2 * u + 1] * factor};
        *reinterpret_cast<float2*>(plane + (lane.row(tile) + 8 * u) * kTokens + 8 * j + 2 * lane.p) = pair;
      }
    }
  }
}

}  // namespace tare::engine
