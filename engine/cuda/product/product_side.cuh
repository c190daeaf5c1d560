// BF16 rows beside a product (GDN's gates): 16 rows a thread block, its 8 warps each an eighth of the columns, their
// sums added in order. The operand's FP16 numbers were BF16 numbers times a power of two, so they become BF16 again
// without loss and the matrix instruction takes both as they are.
//
// K is permuted alike in both operands so that a lane loads 16 contiguous bytes: of 32 columns lane p has columns 8 p
// .. 8 p + 7; K step s takes 8 p + 4 s + 0, 1 as its columns 2 p, 2 p + 1, and 8 p + 4 s + 2, 3 as 2 p + 8, 2 p + 9.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "engine/cuda/product/product_fragments.cuh"
#include "engine/cuda/product/product_stream.h"

namespace tare::engine {

constexpr int kSideChunkColumns = 32;
constexpr int kSideWarps = 8;

[[nodiscard]] constexpr int side_shared_bytes(int tokens) {
  return kSideWarps * kSideRowsABlock * tokens * 4;
}

// Eight columns of a row; zeros past its end and of no row.
__device__ __forceinline__ uint4 load_side_weights(const StreamArguments& arguments, int row, int column) {
  uint4 words{0, 0, 0, 0};
  if (row >= arguments.side_rows) return words;
  const std::uint16_t* source = arguments.side_weights + static_cast<std::int64_t>(row) * arguments.columns + column;
  if (column + 8 <= arguments.columns && arguments.columns % 8 == 0) return *reinterpret_cast<const uint4*>(source);
  std::uint32_t parts[4] = {};
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    if (column + i < arguments.columns) parts[i / 2] |= static_cast<std::uint32_t>(source[i]) << (16 * (i % 2));
  }
  return make_uint4(parts[0], parts[1], parts[2], parts[3]);
}

template <bool kBFloat16>
__device__ __forceinline__ std::uint32_t as_bfloat16(std::uint32_t pair) {
  if constexpr (kBFloat16) return pair;
  const __nv_bfloat162 two = __float22bfloat162_rn(__half22float2(*reinterpret_cast<const __half2*>(&pair)));
  return *reinterpret_cast<const std::uint32_t*>(&two);
}

template <bool kBFloat16, int kTokens>
__device__ __forceinline__ void side_product(const StreamArguments& arguments, int side_block, std::byte* shared) {
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int g = lane / 4;
  const int p = lane % 4;
  const int first_row = side_block * kSideRowsABlock;
  const int chunks =
      2 * static_cast<int>(unit_pairs_a_row_block(arguments.columns)) * (kUnitColumns / kSideChunkColumns);
  const int first = chunks * warp / kSideWarps;
  const int last = chunks * (warp + 1) / kSideWarps;
  // The rows come to L2 while the preceding grid ends: from memory, five dependent batches of loads would outlast the
  // product beside.
  if (threadIdx.x < kSideRowsABlock && arguments.columns % 8 == 0) {
    const int row = first_row + static_cast<int>(threadIdx.x);
    if (row < arguments.side_rows) {
      ptx::bulk_prefetch_l2(arguments.side_weights + static_cast<std::int64_t>(row) * arguments.columns,
                            static_cast<std::uint32_t>(2 * arguments.columns));
    }
  }
  ptx::wait_for_preceding_grid();
  float sums[kTokens / 2] = {};
#pragma unroll 4
  for (int chunk = first; chunk < last; ++chunk) {
    const int column = chunk * kSideChunkColumns + 8 * p;
    const uint4 upper = load_side_weights(arguments, first_row + g, column);
    const uint4 lower = load_side_weights(arguments, first_row + g + 8, column);
    const std::byte* block = arguments.operand + static_cast<std::size_t>(column / kOperandGroup) *
                                                     static_cast<std::size_t>(operand_block_bytes(kTokens));
#pragma unroll
    for (int j = 0; j < kTokens / 8; ++j) {
      const uint4 x =
          *reinterpret_cast<const uint4*>(block + 2 * operand_panel_place(kTokens, 8 * j + g, column % kOperandGroup));
      const std::uint32_t a0[4] = {upper.x, lower.x, upper.y, lower.y};
      const std::uint32_t b0[2] = {as_bfloat16<kBFloat16>(x.x), as_bfloat16<kBFloat16>(x.y)};
      multiply<true>(sums + 4 * j, a0, b0);
      const std::uint32_t a1[4] = {upper.z, lower.z, upper.w, lower.w};
      const std::uint32_t b1[2] = {as_bfloat16<kBFloat16>(x.z), as_bfloat16<kBFloat16>(x.w)};
      multiply<true>(sums + 4 * j, a1, b1);
    }
  }
  auto* partial = reinterpret_cast<float*>(shared);  // [warp][row 16][token]
#pragma unroll
  for (int j = 0; j < kTokens / 8; ++j) {
#pragma unroll
    for (int u = 0; u < 2; ++u) {
      float* target = partial + (warp * kSideRowsABlock + g + 8 * u) * kTokens + 8 * j + 2 * p;
      target[0] = sums[4 * j + 2 * u];
      target[1] = sums[4 * j + 2 * u + 1];
    }
  }
  __syncthreads();
  for (int index = static_cast<int>(threadIdx.x); index < kSideRowsABlock * kTokens; index += kSideWarps * 32) {
    const int row = first_row + index % kSideRowsABlock;
    const int token = index / kSideRowsABlock;
    if (row >= arguments.side_rows) continue;
    float sum = 0.0F;
    for (int part = 0; part < kSideWarps; ++part) {
      sum += partial[(part * kSideRowsABlock + index % kSideRowsABlock) * kTokens + token];
    }
    arguments.side_out[token * arguments.side_rows + row] = sum * arguments.side_factor;
  }
}

}  // namespace tare::engine
