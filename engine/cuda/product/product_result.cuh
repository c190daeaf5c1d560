// Reading what a product left.
#pragma once

#include "engine/cuda/product/product.h"

namespace tare::engine {

// totals[i]: sum of `count` planes at source + i step, that + stride, ..., in order. Loads of a batch of planes are on
// their way together, of all i: one after the other, each would cost a trip to L2. Few go round twice, so the loop
// stays one: straight code comes from a cold instruction cache.
template <int kBatch, int kCount, class Vector>
__device__ __forceinline__ void sum_planes(const float* source, int step, std::int64_t stride, int count,
                                           Vector (&totals)[kCount]) {
  constexpr int kParts = sizeof(Vector) / sizeof(float);
#pragma unroll
  for (auto& total : totals) total = Vector{};
#pragma unroll 1
  for (int first = 0; first < count; first += kBatch) {
    Vector batch[kBatch][kCount];
#pragma unroll
    for (int plane = 0; plane < kBatch; ++plane) {
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        batch[plane][i] = Vector{};
        if (first + plane < count) batch[plane][i] = *reinterpret_cast<const Vector*>(source + i * step);
      }
      source += stride;  // not a product a plane: five operations each, before any load is on its way
    }
#pragma unroll
    for (auto& plane : batch) {
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
#pragma unroll
        for (int part = 0; part < kParts; ++part) {
          reinterpret_cast<float*>(&totals[i])[part] += reinterpret_cast<const float*>(&plane[i])[part];
        }
      }
    }
  }
}
template <int kBatch, class Vector>
__device__ __forceinline__ Vector sum_planes(const float* source, std::int64_t stride, int count) {
  Vector total[1];
  sum_planes<kBatch>(source, 0, stride, count, total);
  return total[0];
}

struct alignas(4) OneFloat {
  float x;
};

__device__ __forceinline__ float product_value(const ProductResult& result, int row, int token) {
  if (!result.planes) {
    return result.data[static_cast<std::int64_t>(token) * result.rows + row] * result.factor;
  }
  const float* source = result.data + plane_place(result.width, row, token);
  const int count = result.plan.planes(row / 256);
  return sum_planes<4, OneFloat>(source, plane_floats(result.plan, result.width), count).x * result.factor;
}

// Two neighbouring tokens (2 i, 2 i + 1) of one row, one 8-byte load a plane. With plain rows a token at or past
// `tokens` is 0.
__device__ __forceinline__ float2 product_pair(const ProductResult& result, int row, int token_pair, int tokens) {
  if (!result.planes) {
    const float* source = result.data + static_cast<std::int64_t>(2 * token_pair) * result.rows + row;
    float2 pair{0.0F, 0.0F};
    if (2 * token_pair < tokens) pair.x = source[0] * result.factor;
    if (2 * token_pair + 1 < tokens) pair.y = source[result.rows] * result.factor;
    return pair;
  }
  const float* source = result.data + plane_place(result.width, row, 2 * token_pair);
  const int count = result.plan.planes(row / 256);
  const auto sum = sum_planes<4, float2>(source, plane_floats(result.plan, result.width), count);
  return {sum.x * result.factor, sum.y * result.factor};
}

// Rows `row` and row + 1 of tokens 2 pair and 2 pair + 1: {row token 0, row token 1, row + 1 token 0, row + 1 token 1}.
// row is even; planes lie so that this is one 16-byte load each.
template <int kBatch>
__device__ __forceinline__ float4 product_quad(const ProductResult& result, int plane_count, int row, int pair) {
  const float* source = result.data + plane_place(result.width, row, 2 * pair);
  const auto sum = sum_planes<kBatch, float4>(source, plane_floats(result.plan, result.width), plane_count);
  return {sum.x * result.factor, sum.y * result.factor, sum.z * result.factor, sum.w * result.factor};
}

// The same for kCount pairs of rows kStep rows apart, all of one row block.
template <int kBatch, int kStep, int kCount>
__device__ __forceinline__ void product_quads(const ProductResult& result, int plane_count, int row, int pair,
                                              float4 (&quads)[kCount]) {
  const float* source = result.data + plane_place(result.width, row, 2 * pair);
  sum_planes<kBatch>(source, 2 * kStep, plane_floats(result.plan, result.width), plane_count, quads);
#pragma unroll
  for (float4& quad : quads) {
    quad = {quad.x * result.factor, quad.y * result.factor, quad.z * result.factor, quad.w * result.factor};
  }
}

}  // namespace tare::engine
