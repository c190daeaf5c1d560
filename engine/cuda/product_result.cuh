// Reading what a product left.
#pragma once

#include "engine/cuda/product.h"

namespace tare::engine {

__device__ __forceinline__ float product_value(const ProductResult& result, int row, int token) {
  if (!result.planes) {
    return result.data[static_cast<std::int64_t>(token) * result.rows + row] * result.factor;
  }
  const std::int64_t stride = plane_floats(result.plan, result.width);
  const int count = result.plan.planes(row / 256);
  const float* source = result.data + plane_place(result.width, row, token);
  float sum = source[0];
  for (int plane = 1; plane < count; ++plane) sum += source[plane * stride];
  return sum * result.factor;
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
  const std::int64_t stride = plane_floats(result.plan, result.width);
  const int count = result.plan.planes(row / 256);
  const float* source = result.data + plane_place(result.width, row, 2 * token_pair);
  float2 sum = *reinterpret_cast<const float2*>(source);
  for (int plane = 1; plane < count; ++plane) {
    const float2 more = *reinterpret_cast<const float2*>(source + plane * stride);
    sum.x += more.x;
    sum.y += more.y;
  }
  return {sum.x * result.factor, sum.y * result.factor};
}

// Rows `row` and row + 1 of tokens 2 pair and 2 pair + 1: {row token 0, row token 1, row + 1 token 0, row + 1 token 1}.
// row is even; planes lie so that this is one 16-byte load each.
__device__ __forceinline__ float4 product_quad(const ProductResult& result, int plane_count, int row, int pair) {
  const std::int64_t stride = plane_floats(result.plan, result.width);
  const float* source = result.data + plane_place(result.width, row, 2 * pair);
  float4 sum = *reinterpret_cast<const float4*>(source);
  for (int plane = 1; plane < plane_count; ++plane) {
    const float4 more = *reinterpret_cast<const float4*>(source + plane * stride);
    sum.x += more.x, sum.y += more.y, sum.z += more.z, sum.w += more.w;
  }
  return {sum.x * result.factor, sum.y * result.factor, sum.z * result.factor, sum.w * result.factor};
}

}  // namespace tare::engine
