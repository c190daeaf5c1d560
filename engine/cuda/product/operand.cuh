// store_group, alone and for two tokens: the way to write an Operand.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "engine/cuda/product/operand.h"

namespace tare::engine {

// Called by a whole warp: lane l has columns 2 l and 2 l + 1 of `group` (64 columns) of `token`; columns past
// operand.columns and tokens past the real ones must come as zeros. In row layouts a token past the width and columns
// past the last are not written.
__device__ __forceinline__ void store_group(const Operand& operand, int group, int token, float2 pair) {
  const auto lane = static_cast<int>(threadIdx.x % 32);
  const std::int64_t column = static_cast<std::int64_t>(group) * kOperandGroup + 2 * lane;
  if (operand.layout == OperandLayout::kFP32Rows || operand.layout == OperandLayout::kBF16Rows) {
    if (token >= operand.width) return;
    const std::int64_t place = token * operand.columns + column;
    for (int i = 0; i < 2; ++i) {
      if (column + i >= operand.columns) break;
      const float value = i == 0 ? pair.x : pair.y;
      if (operand.layout == OperandLayout::kFP32Rows) {
        reinterpret_cast<float*>(operand.data)[place + i] = value;
      } else {
        reinterpret_cast<__nv_bfloat16*>(operand.data)[place + i] = __float2bfloat16_rn(value);
      }
    }
    return;
  }
  std::byte* block =
      operand.data + static_cast<std::size_t>(group) * static_cast<std::size_t>(operand_block_bytes(operand.width));
  auto* target = reinterpret_cast<std::uint32_t*>(block + 2 * operand_panel_place(operand.width, token, 2 * lane));
  const __nv_bfloat162 rounded = __float22bfloat162_rn(pair);
  if (operand.layout == OperandLayout::kBF16Panels) {
    *target = *reinterpret_cast<const std::uint32_t*>(&rounded);
    return;
  }
  const float factor = __int_as_float((operand.exponent + 127) << 23);
  const float2 exact = __bfloat1622float2(rounded);
  const __half2 halves = __floats2half2_rn(exact.x * factor, exact.y * factor);
  *target = *reinterpret_cast<const std::uint32_t*>(&halves);
  const float2 kept = __half22float2(halves);
  float sum = kept.x + kept.y;
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(~0U, sum, step);
  auto* sums = reinterpret_cast<float*>(block + operand_panel_bytes(operand.width));
  if (lane == 0) sums[operand_sum_place(operand.width, token)] = sum;
}

// One number of a panel, by one thread; returns what was kept of it times 2^exponent, the group's part of which its sum
// is. `block`: of the number's group.
__device__ __forceinline__ float store_number(const Operand& operand, std::byte* block, int token, int column,
                                              float value) {
  auto* target = reinterpret_cast<std::uint16_t*>(block) + operand_panel_place(operand.width, token, column);
  const __nv_bfloat16 rounded = __float2bfloat16_rn(value);
  if (operand.layout == OperandLayout::kBF16Panels) {
    *target = __bfloat16_as_ushort(rounded);
    return 0.0F;
  }
  const float factor = __int_as_float((operand.exponent + 127) << 23);
  const __half kept = __float2half_rn(__bfloat162float(rounded) * factor);
  *target = __half_as_ushort(kept);
  return __half2float(kept);
}
// The sum of a group's numbers as store_number returned them.
__device__ __forceinline__ void store_group_sum(const Operand& operand, std::byte* block, int token, float sum) {
  reinterpret_cast<float*>(block + operand_panel_bytes(operand.width))[operand_sum_place(operand.width, token)] = sum;
}

// The same for `token`, an even one, and the one after it: their sums cross the warp together.
__device__ __forceinline__ void store_two_groups(const Operand& operand, int group, int token, float2 first,
                                                 float2 second) {
  if (operand.layout != OperandLayout::kFP16Panels) {
    store_group(operand, group, token, first);
    store_group(operand, group, token + 1, second);
    return;
  }
  const auto lane = static_cast<int>(threadIdx.x % 32);
  std::byte* block =
      operand.data + static_cast<std::size_t>(group) * static_cast<std::size_t>(operand_block_bytes(operand.width));
  const float factor = __int_as_float((operand.exponent + 127) << 23);
  float2 sums;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const float2 exact = __bfloat1622float2(__float22bfloat162_rn(i == 0 ? first : second));
    const __half2 halves = __floats2half2_rn(exact.x * factor, exact.y * factor);
    *reinterpret_cast<__half2*>(block + 2 * operand_panel_place(operand.width, token + i, 2 * lane)) = halves;
    const float2 kept = __half22float2(halves);
    (i == 0 ? sums.x : sums.y) = kept.x + kept.y;
  }
#pragma unroll
  for (int step = 16; step > 0; step /= 2) {
    sums.x += __shfl_xor_sync(~0U, sums.x, step);
    sums.y += __shfl_xor_sync(~0U, sums.y, step);
  }
  auto* group_sums = reinterpret_cast<float*>(block + operand_panel_bytes(operand.width));
  static_assert(operand_sum_place(8, 1) == operand_sum_place(8, 0) + 1);
  if (lane == 0) *reinterpret_cast<float2*>(group_sums + operand_sum_place(operand.width, token)) = sums;
}

}  // namespace tare::engine
