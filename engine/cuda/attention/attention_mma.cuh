// The tensor-core instructions of attention (PTX ISA 9.0), and operand A from the tiled cache.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>

#include "engine/cuda/attention/attention_layout.h"

namespace tare::engine {

// d[16 x 8] += a[16 x 16] b[16 x 8] of FP16 numbers, in FP32.
__device__ __forceinline__ void multiply_add(float (&d)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                             std::uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Makes this thread's ordinary accesses to shared memory come before later bulk copies into it.
__device__ __forceinline__ void fence_before_copies() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// Transposes an 8 x 8 matrix of 16-bit numbers of which lane 4 g + p has row g, columns 2 p and 2 p + 1.
__device__ __forceinline__ std::uint32_t transpose_matrix(std::uint32_t pair) {
  std::uint32_t transposed = 0;
  asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(transposed) : "r"(pair));
  return transposed;
}

// 2^x to two units in the last place; results below 2^-126 are 0.
__device__ __forceinline__ float power_of_two(float x) {
  float power = 0.0F;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
  return power;
}

__device__ __forceinline__ std::uint32_t narrow(float x, float y) {
  const __half2 pair = __floats2half2_rn(x, y);
  return *reinterpret_cast<const std::uint32_t*>(&pair);
}

// Two E4M3 numbers (the lower 16 bits) as FP16, exactly.
__device__ __forceinline__ std::uint32_t widen_e4m3(std::uint32_t pair) {
  std::uint32_t halves = 0;
  asm("{\n\t.reg .b16 low;\n\tcvt.u16.u32 low, %1;\n\tcvt.rn.f16x2.e4m3x2 %0, low;\n\t}" : "=r"(halves) : "r"(pair));
  return halves;
}

// Two BF16 numbers as FP16: exact from 2^-17 (8 significant bits) to 65504; larger ones become infinite, which reaches
// the logits and is reported there.
__device__ __forceinline__ std::uint32_t narrow_bf16(std::uint32_t pair) {
  const __half2 halves = __floats2half2_rn(__uint_as_float(pair << 16), __uint_as_float(pair & 0xFFFF0000U));
  return *reinterpret_cast<const std::uint32_t*>(&halves);
}

// The operands of two neighbouring steps from the tiled cache (attention_layout.h): FP8 has both in the 16 bytes of a
// lane, BF16 in those of two pieces.
template <CacheFormat kFormat>
struct CachedOperands {
  static constexpr int kPieces = element_bytes(kFormat);
  uint4 words[kPieces];

  __device__ __forceinline__ void widen(std::uint32_t (&a)[2][4]) const {
    if constexpr (kFormat == CacheFormat::kFP8) {
      const std::uint32_t four[4] = {words[0].x, words[0].y, words[0].z, words[0].w};
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        a[i / 2][i % 2 * 2] = widen_e4m3(four[i]);
        a[i / 2][i % 2 * 2 + 1] = widen_e4m3(four[i] >> 16);
      }
    } else {
#pragma unroll
      for (int step = 0; step < 2; ++step) {
        a[step][0] = narrow_bf16(words[step].x);
        a[step][1] = narrow_bf16(words[step].y);
        a[step][2] = narrow_bf16(words[step].z);
        a[step][3] = narrow_bf16(words[step].w);
      }
    }
  }
  // Values: the inner index is a position. Those at or past `valid` of the 32 become 0; they may be anything, a NaN
  // too, and 0 times that is not 0.
  __device__ __forceinline__ void keep_below(int valid, int p) {
    // Octet 0..3 of positions, of which a lane has the pair at 2 p.
    const auto keep = [&](std::uint32_t word, int octet) {
      constexpr std::uint32_t kFirst = kFormat == CacheFormat::kFP8 ? 0x00FF00FFU : 0x0000FFFFU;
      const std::uint32_t first = 8 * octet + 2 * p < valid ? kFirst : 0U;
      const std::uint32_t second = 8 * octet + 2 * p + 1 < valid ? ~kFirst : 0U;
      return word & (first | second);
    };
    if constexpr (kFormat == CacheFormat::kFP8) {
      words[0] = {keep(words[0].x, 0), keep(words[0].y, 1), keep(words[0].z, 2), keep(words[0].w, 3)};
    } else {
#pragma unroll
      for (int step = 0; step < 2; ++step) {
        words[step] = {keep(words[step].x, 2 * step), keep(words[step].y, 2 * step), keep(words[step].z, 2 * step + 1),
                       keep(words[step].w, 2 * step + 1)};
      }
    }
  }
};

}  // namespace tare::engine
