// The product in FP32 on the CUDA cores, of any device: what rounds are held against, and what runs where activations
// are asked for in FP32.
//
// A thread block has 16 rows and 8 tokens; its 8 warps take every eighth unit of K each. A lane (g, p) has rows g and
// g + 8 and, of 16 columns, 2 p, 2 p + 1, 2 p + 8, 2 p + 9, as in operand A, so that the codes of neighbouring lanes
// are neighbours. A token's sum: in its lane in order of K, then the four lanes of a row, then the eight warps in
// order: the same whatever the number of tokens and blocks.
#include <cuda_runtime.h>

#include "base/error.h"
#include "engine/cuda/device/launch.cuh"
#include "engine/cuda/device/ptx.cuh"
#include "engine/cuda/product/product.h"
#include "engine/cuda/product/stored_weight.cuh"

namespace tare::engine {
namespace {

constexpr int kWarps = 8;
constexpr int kThreads = 32 * kWarps;
constexpr int kStripRows = 16;
constexpr int kTokens = 8;  // of one thread block

struct ReferenceProduct {
  const std::byte* tiles = nullptr;
  int rows = 0;
  int columns = 0;
  int units = 0;  // a row block, those that have columns
  int units_a_row_block = 0;
  int strips = 0;  // of 16 rows
  int tokens = 0;
  const float* x = nullptr;  // [tokens][columns]
  float* y = nullptr;        // [tokens][rows]
  SideRows side;
  const float* row_scales = nullptr;  // with E4M3 scales
};

// Adds the products of one unit's 16 columns of this lane and their tokens to the sums of rows g and g + 8.
template <WeightFormat kFormat, ScaleFormat kScales>
__device__ __forceinline__ void add_unit(const ReferenceProduct& product, const std::byte* unit, int row, int group,
                                         int first_token, const float (&tensor_scales)[2], float (&sums)[2][kTokens]) {
  const auto* words = reinterpret_cast<const std::uint32_t*>(unit);
  constexpr int kScaleParts = 8 / (row_scales_a_unit(kFormat) > 0 ? row_scales_a_unit(kFormat) : 1);  // of 8 columns
  float scales[2];
  const auto p = static_cast<int>(threadIdx.x % 4U);
#pragma unroll
  for (int part = 0; part < 8; ++part) {  // of 8 columns
    if (part % kScaleParts == 0) {
#pragma unroll
      for (int u = 0; u < 2; ++u) scales[u] = row_scale<kFormat, kScales>(unit, row + 8 * u, 8 * part);
    }
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int column = 8 * part + 2 * p + h;
      const int k = group * kUnitColumns + column;
      if (k >= product.columns) continue;
      float weights[2];
#pragma unroll
      for (int u = 0; u < 2; ++u) {
        weights[u] = scales[u] * field_value<kFormat>(read_code(kFormat, words, row + 8 * u, column));
        if constexpr (has_tensor_scale({kFormat, kScales})) weights[u] *= tensor_scales[u];
      }
      const float* x = product.x + static_cast<std::int64_t>(first_token) * product.columns + k;
#pragma unroll
      for (int token = 0; token < kTokens; ++token) {
        if (first_token + token >= product.tokens) break;
        const float value = x[static_cast<std::int64_t>(token) * product.columns];
        sums[0][token] = fmaf(weights[0], value, sums[0][token]);
        sums[1][token] = fmaf(weights[1], value, sums[1][token]);
      }
    }
  }
}

template <WeightFormat kFormat, ScaleFormat kScales>
__device__ void multiply_strip(const ReferenceProduct& product, int strip, int first_token) {
  __shared__ float partial[kWarps][kStripRows][kTokens];
  const auto warp = static_cast<int>(threadIdx.x / 32U);
  const auto g = static_cast<int>(threadIdx.x % 32U / 4U);
  const int first_row = strip * kStripRows;
  // Unsigned, so that the compiler knows its range and the places of codes fold.
  const auto unit_row = static_cast<int>(static_cast<unsigned>(first_row) % kUnitRows) + g;
  const std::byte* units = product.tiles + static_cast<std::int64_t>(first_row / kUnitRows) *
                                               product.units_a_row_block * unit_bytes({kFormat, kScales});
  float tensor_scales[2] = {1.0F, 1.0F};
  if constexpr (has_tensor_scale({kFormat, kScales})) {
    tensor_scales[0] = product.row_scales[first_row + g], tensor_scales[1] = product.row_scales[first_row + g + 8];
  }
  float sums[2][kTokens] = {};
  for (int group = warp; group < product.units; group += kWarps) {
    add_unit<kFormat, kScales>(product, units + static_cast<std::int64_t>(group) * unit_bytes({kFormat, kScales}),
                               unit_row, group, first_token, tensor_scales, sums);
  }
#pragma unroll
  for (int u = 0; u < 2; ++u) {
#pragma unroll
    for (int token = 0; token < kTokens; ++token) {
      float sum = sums[u][token];
      sum += __shfl_xor_sync(~0U, sum, 1);
      sum += __shfl_xor_sync(~0U, sum, 2);
      if (threadIdx.x % 4 == 0) partial[warp][g + 8 * u][token] = sum;
    }
  }
  __syncthreads();
  const int row = static_cast<int>(threadIdx.x) % kStripRows;
  const int token = static_cast<int>(threadIdx.x) / kStripRows;
  if (token >= kTokens || first_row + row >= product.rows || first_token + token >= product.tokens) return;
  float sum = partial[0][row][token];
#pragma unroll
  for (int other = 1; other < kWarps; ++other) sum += partial[other][row][token];
  product.y[static_cast<std::int64_t>(first_token + token) * product.rows + first_row + row] = sum;
}

// One BF16 row beside the matrix, by a whole thread block.
__device__ void multiply_side_row(const ReferenceProduct& product, int row, int first_token) {
  __shared__ float partial[kWarps][kTokens];
  const std::uint16_t* weights = product.side.weights + static_cast<std::int64_t>(row) * product.columns;
  float sums[kTokens] = {};
  for (int k = static_cast<int>(threadIdx.x); k < product.columns; k += kThreads) {
    const float weight = field_value<WeightFormat::kBF16>(weights[k]);
    const float* x = product.x + static_cast<std::int64_t>(first_token) * product.columns + k;
#pragma unroll
    for (int token = 0; token < kTokens; ++token) {
      if (first_token + token >= product.tokens) break;
      sums[token] = fmaf(weight, x[static_cast<std::int64_t>(token) * product.columns], sums[token]);
    }
  }
#pragma unroll
  for (int token = 0; token < kTokens; ++token) {
    float sum = sums[token];
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(~0U, sum, step);
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32][token] = sum;
  }
  __syncthreads();
  const int token = static_cast<int>(threadIdx.x);
  if (token >= kTokens || first_token + token >= product.tokens) return;
  float sum = partial[0][token];
  for (int other = 1; other < kWarps; ++other) sum += partial[other][token];
  product.side.out[static_cast<std::int64_t>(first_token + token) * product.side.rows + row] = sum;
}

// Thread blocks: strips, then side rows, for each 8 tokens.
template <WeightFormat kFormat, ScaleFormat kScales>
__global__ void __launch_bounds__(kThreads) reference_product_kernel(const __grid_constant__ ReferenceProduct product) {
  ptx::launch_dependents();
  ptx::wait_for_preceding_grid();
  const int blocks = product.strips + product.side.rows;
  const int block = static_cast<int>(blockIdx.x) % blocks;
  const int first_token = static_cast<int>(blockIdx.x) / blocks * kTokens;
  if (block < product.strips) {
    multiply_strip<kFormat, kScales>(product, block, first_token);
  } else {
    multiply_side_row(product, block - product.strips, first_token);
  }
}

template <WeightFormat kFormat, ScaleFormat kScales>
void launch(const ReferenceProduct& product, const CudaLaunch& launch) {
  const int chunks = (product.tokens + kTokens - 1) / kTokens;
  const LaunchShape shape{.blocks = (product.strips + product.side.rows) * chunks, .threads = kThreads};
  launch_kernel("reference_product", reference_product_kernel<kFormat, kScales>, shape, launch, product);
}

}  // namespace

ProductResult launch_reference_product(const WeightMatrix& matrix, const Operand& operand, const SideRows& side,
                                       float* y, const CudaLaunch& launch_to) {
  if (operand.layout != OperandLayout::kFP32Rows || operand.columns != matrix.columns || operand.width < 1) {
    throw internal_error("a reference product takes FP32 rows of the matrix's columns");
  }
  const ReferenceProduct product{.tiles = matrix.tiles,
                                 .rows = static_cast<int>(matrix.rows),
                                 .columns = static_cast<int>(matrix.columns),
                                 .units = static_cast<int>((matrix.columns + kUnitColumns - 1) / kUnitColumns),
                                 .units_a_row_block = static_cast<int>(units_a_row_block(matrix.columns)),
                                 .strips = static_cast<int>((matrix.rows + kStripRows - 1) / kStripRows),
                                 .tokens = operand.width,
                                 .x = reinterpret_cast<const float*>(operand.data),
                                 .y = y,
                                 .side = side,
                                 .row_scales = row_scales(matrix)};
  for_codec(matrix.codec(),
            [&]<WeightFormat kFormat, ScaleFormat kScales>() { launch<kFormat, kScales>(product, launch_to); });
  return {.data = y, .rows = product.rows, .width = product.tokens, .plan = {}};
}

}  // namespace tare::engine
