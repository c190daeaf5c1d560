// The tensor-core instructions of attention (PTX ISA 9.0), and operand A from the tiled cache.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "engine/backend/options.h"

namespace tare::engine {

// d[16 x 8] += a[16 x 16] b[16 x 8] in FP32; numbers are FP16 for FP8 caches, else BF16.
template <CacheFormat kFormat>
__device__ __forceinline__ void multiply_add(float (&d)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                             std::uint32_t b1) {
  if constexpr (kFormat == CacheFormat::kFP8) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
}

// Transposes an 8 x 8 matrix of 16-bit numbers of which lane 4 g + p has row g, columns 2 p and 2 p + 1.
__device__ __forceinline__ std::uint32_t transpose_matrix(std::uint32_t pair) {
  std::uint32_t transposed = 0;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(transposed) : "r"(pair));
  return transposed;
}

// 2^x to two units in the last place; results below 2^-126 are 0.
__device__ __forceinline__ float power_of_two(float x) {
  float power = 0.0F;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
  return power;
}

// Two E4M3 numbers (the lower 16 bits) as FP16, exactly.
__device__ __forceinline__ std::uint32_t widen_e4m3(std::uint32_t pair) {
  std::uint32_t halves = 0;
  asm("{\n\t.reg .b16 low;\n\tcvt.u16.u32 low, %1;\n\tcvt.rn.f16x2.e4m3x2 %0, low;\n\t}" : "=r"(halves) : "r"(pair));
  return halves;
}

[[nodiscard]] __device__ __forceinline__ constexpr std::uint32_t word_of(const uint4& words, int index) {
  return index == 0 ? words.x : index == 1 ? words.y : index == 2 ? words.z : words.w;
}

// Operand A of step `step` of a lane's 16 cached bytes: `low` of rows 0..7, `high` of rows 8..15 (attention_layout.h).
// FP8 has four steps in 16 bytes, BF16 two.
template <CacheFormat kFormat>
__device__ __forceinline__ void cached_operand(const uint4& low, const uint4& high, int step, std::uint32_t (&a)[4]) {
  if constexpr (kFormat == CacheFormat::kFP8) {
    a[0] = widen_e4m3(word_of(low, step));
    a[1] = widen_e4m3(word_of(high, step));
    a[2] = widen_e4m3(word_of(low, step) >> 16);
    a[3] = widen_e4m3(word_of(high, step) >> 16);
  } else {
    a[0] = word_of(low, 2 * step);
    a[1] = word_of(high, 2 * step);
    a[2] = word_of(low, 2 * step + 1);
    a[3] = word_of(high, 2 * step + 1);
  }
}

// Two numbers of an FP32 pair in the 16-bit format that meets the cache's, and what rounding left.
template <CacheFormat kFormat>
__device__ __forceinline__ std::uint32_t narrow(float x, float y) {
  if constexpr (kFormat == CacheFormat::kFP8) {
    const __half2 pair = __floats2half2_rn(x, y);
    return *reinterpret_cast<const std::uint32_t*>(&pair);
  } else {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(x, y);
    return *reinterpret_cast<const std::uint32_t*>(&pair);
  }
}
__device__ __forceinline__ std::uint32_t rest_of_bf16(float x, float y, std::uint32_t rounded) {
  const float low = __uint_as_float(rounded << 16);
  const float high = __uint_as_float(rounded & 0xFFFF0000U);
  return narrow<CacheFormat::kBF16>(x - low, y - high);
}

}  // namespace tare::engine
