// BF16 rows beside a product (GDN's gates): eight rows a thread block, its 8 warps each an eighth of the columns, their
// sums added in order. The operand's FP16 numbers were BF16 numbers times a power of two, so they become BF16 again
// without loss and the matrix instruction takes both as they are (half of its 16 rows stay empty).
//
// The rows come to shared memory while the preceding grid ends; then a warp has only its part of the operand to fetch,
// in two or three batches. With rows from L2 as well these blocks ended 5 us after the product beside.
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
constexpr int kSideRowsOffset = 128;   // a barrier lies before them
constexpr int kSideRowSkew = 64;       // bytes after each row, so that neighbours' banks differ
constexpr int kSideOperandLoads = 10;  // of 16 bytes and a lane that are on their way together

[[nodiscard]] constexpr int side_partial_bytes(int tokens) {
  return kSideWarps * kSideRowsABlock * tokens * 4;
}
[[nodiscard]] constexpr int side_row_bytes(int columns) {
  return 2 * 2 * kUnitColumns * static_cast<int>(unit_pairs_a_row_block(columns)) + kSideRowSkew;
}
// Whether the rows of a block have room in shared memory; longer ones are read from L2.
[[nodiscard]] constexpr bool side_rows_fit(int columns, int tokens) {
  return columns % 8 == 0 &&
         kSideRowsOffset + kSideRowsABlock * side_row_bytes(columns) + side_partial_bytes(tokens) <= kStreamSharedBytes;
}
[[nodiscard]] constexpr int side_shared_bytes(int columns, int tokens) {
  return side_partial_bytes(tokens) +
         (side_rows_fit(columns, tokens) ? kSideRowsOffset + kSideRowsABlock * side_row_bytes(columns) : 0);
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

// Starts the copies of a block's rows to shared memory; columns past the last are zero there.
__device__ __forceinline__ void fetch_side_rows(const StreamArguments& arguments, int first_row, std::byte* shared) {
  const std::uint32_t barrier = ptx::shared_address(shared);
  const int row_bytes = side_row_bytes(arguments.columns);
  const int rows = min(kSideRowsABlock, arguments.side_rows - first_row);
  const int bytes = 2 * arguments.columns;
  if (threadIdx.x == 0) {
    ptx::barrier_init(barrier, 1);
    ptx::fence_barrier_init();
  }
  __syncthreads();
  // Copies may land before they are announced: the barrier's phase waits for this arrival.
  if (threadIdx.x == 0) ptx::barrier_arrive_expect(barrier, static_cast<std::uint32_t>(rows * bytes));
  const auto row = static_cast<int>(threadIdx.x);
  if (row < rows) {
    ptx::bulk_copy(barrier + static_cast<std::uint32_t>(kSideRowsOffset + row * row_bytes),
                   arguments.side_weights + static_cast<std::int64_t>(first_row + row) * arguments.columns,
                   static_cast<std::uint32_t>(bytes), barrier);
  }
  const int padding = (row_bytes - bytes) / 16;
  for (int index = static_cast<int>(threadIdx.x); index < kSideRowsABlock * padding; index += kSideWarps * 32) {
    ptx::store_shared_16(barrier + static_cast<std::uint32_t>(kSideRowsOffset + index / padding * row_bytes + bytes +
                                                              index % padding * 16),
                         {0.0F, 0.0F, 0.0F, 0.0F});
  }
}

template <bool kBFloat16, int kTokens>
__device__ __forceinline__ void side_product(const StreamArguments& arguments, int side_block, std::byte* shared) {
  constexpr int kBatch = kSideOperandLoads * 8 / kTokens;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int g = lane / 4;
  const int p = lane % 4;
  const int first_row = side_block * kSideRowsABlock;
  const int chunks =
      2 * static_cast<int>(unit_pairs_a_row_block(arguments.columns)) * (kUnitColumns / kSideChunkColumns);
  const int first = chunks * warp / kSideWarps;
  const int last = chunks * (warp + 1) / kSideWarps;
  const bool fit = side_rows_fit(arguments.columns, kTokens);
  const bool real = first_row + g < arguments.side_rows;
  const std::uint32_t row_address = ptx::shared_address(shared) + static_cast<std::uint32_t>(kSideRowsOffset) +
                                    static_cast<std::uint32_t>(g * side_row_bytes(arguments.columns));
  if (fit) fetch_side_rows(arguments, first_row, shared);
  __syncthreads();  // the padding is there
  ptx::wait_for_preceding_grid();
  if (fit) ptx::barrier_wait(ptx::shared_address(shared), 0);
  float sums[kTokens / 2] = {};
  for (int batch = first; batch < last; batch += kBatch) {
    uint4 x[kBatch][kTokens / 8];
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      const int column = min(batch + i, last - 1) * kSideChunkColumns + 8 * p;
      const std::byte* block = arguments.operand + static_cast<std::size_t>(column / kOperandGroup) *
                                                       static_cast<std::size_t>(operand_block_bytes(kTokens));
#pragma unroll
      for (int j = 0; j < kTokens / 8; ++j) {
        x[i][j] = *reinterpret_cast<const uint4*>(block +
                                                  2 * operand_panel_place(kTokens, 8 * j + g, column % kOperandGroup));
      }
    }
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      if (batch + i >= last) break;
      const int column = (batch + i) * kSideChunkColumns + 8 * p;
      uint4 row{0, 0, 0, 0};
      if (fit && real) {
        row = ptx::load_shared_16(row_address + static_cast<std::uint32_t>(2 * column));
      } else if (!fit) {
        row = load_side_weights(arguments, first_row + g, column);
      }
#pragma unroll
      for (int j = 0; j < kTokens / 8; ++j) {
        const std::uint32_t a0[4] = {row.x, 0, row.y, 0};
        const std::uint32_t b0[2] = {as_bfloat16<kBFloat16>(x[i][j].x), as_bfloat16<kBFloat16>(x[i][j].y)};
        multiply<true>(sums + 4 * j, a0, b0);
        const std::uint32_t a1[4] = {row.z, 0, row.w, 0};
        const std::uint32_t b1[2] = {as_bfloat16<kBFloat16>(x[i][j].z), as_bfloat16<kBFloat16>(x[i][j].w)};
        multiply<true>(sums + 4 * j, a1, b1);
      }
    }
  }
  auto* partial =
      reinterpret_cast<float*>(shared + (fit ? kSideRowsOffset + kSideRowsABlock * side_row_bytes(arguments.columns)
                                             : 0));  // [warp][row][token]
#pragma unroll
  for (int j = 0; j < kTokens / 8; ++j) {
    float* target = partial + (warp * kSideRowsABlock + g) * kTokens + 8 * j + 2 * p;
    target[0] = sums[4 * j];
    target[1] = sums[4 * j + 1];
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
