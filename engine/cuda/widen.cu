#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <algorithm>

#include "base/error.h"
#include "engine/cuda/launch.cuh"
#include "engine/cuda/ptx.cuh"
#include "engine/cuda/stored_weight.cuh"
#include "engine/cuda/widen.h"

namespace tare::engine {
namespace {

constexpr int kThreads = 256;
constexpr int kPartColumns = 8;  // what a thread writes at once: 16 bytes
constexpr int kPartsARow = kUnitColumns / kPartColumns;
constexpr int kRowsAtOnce = kThreads / kPartsARow;

struct Widening {
  const std::byte* units = nullptr;  // of the first row block
  std::int64_t rows = 0;
  int units_a_row_block = 0;
  int stride = 0;
  std::uint16_t* out = nullptr;
};

// A thread block one unit; a thread 8 columns of every 32nd row, a warp 128 bytes of four rows at once.
template <WeightFormat kFormat>
__global__ void __launch_bounds__(kThreads) widen_kernel(const __grid_constant__ Widening widening) {
  ptx::launch_dependents();
  ptx::wait_for_preceding_grid();
  const std::byte* unit = widening.units + static_cast<std::int64_t>(blockIdx.x) * unit_bytes(kFormat);
  const auto* words = reinterpret_cast<const std::uint32_t*>(unit);
  const int row_block = static_cast<int>(blockIdx.x) / widening.units_a_row_block;
  const int group = static_cast<int>(blockIdx.x) % widening.units_a_row_block;
  const auto part = static_cast<int>(threadIdx.x % kPartsARow);
  const int first_column = group * kUnitColumns + part * kPartColumns;
  if (first_column >= widening.stride) return;
  const std::int64_t rows = widening.rows - static_cast<std::int64_t>(row_block) * kUnitRows;
  std::uint16_t* out = widening.out + static_cast<std::int64_t>(row_block) * kUnitRows * widening.stride + first_column;
#pragma unroll 4
  for (int step = 0; step < kUnitRows / kRowsAtOnce; ++step) {
    const int row = step * kRowsAtOnce + static_cast<int>(threadIdx.x / kPartsARow);
    if (row >= rows) break;
    const float scale = row_scale<kFormat>(unit, row);
    union {
      __nv_bfloat162 pairs[kPartColumns / 2];
      uint4 all;
    } packed;
#pragma unroll
    for (int pair = 0; pair < kPartColumns / 2; ++pair) {
      const int column = part * kPartColumns + 2 * pair;
      const float2 weights{scale * field_value<kFormat>(read_code(kFormat, words, row, column)),
                           scale * field_value<kFormat>(read_code(kFormat, words, row, column + 1))};
      packed.pairs[pair] = __float22bfloat162_rn(weights);
    }
    *reinterpret_cast<uint4*>(out + static_cast<std::int64_t>(row) * widening.stride) = packed.all;
  }
}

}  // namespace

void launch_widen(const WeightMatrix& matrix, std::int64_t first_row, std::int64_t rows, std::uint16_t* out,
                  const CudaLaunch& launch) {
  if (first_row % kUnitRows != 0 || rows < 1 || first_row + rows > matrix.rows) {
    throw internal_error("whole row blocks of the matrix are widened");
  }
  const std::int64_t units = units_a_row_block(matrix.columns);
  const Widening widening{.units = matrix.tiles + first_row / kUnitRows * units * unit_bytes(matrix.format),
                          .rows = rows,
                          .units_a_row_block = static_cast<int>(units),
                          .stride = widened_stride(matrix.columns),
                          .out = out};
  const LaunchShape shape{.blocks = static_cast<int>(unit_row_blocks(rows) * units), .threads = kThreads};
  switch (matrix.format) {
    case WeightFormat::kBF16:
      return launch_kernel("widen", widen_kernel<WeightFormat::kBF16>, shape, launch, widening);
    case WeightFormat::kQ8:
      return launch_kernel("widen", widen_kernel<WeightFormat::kQ8>, shape, launch, widening);
    case WeightFormat::kQ4:
      return launch_kernel("widen", widen_kernel<WeightFormat::kQ4>, shape, launch, widening);
    case WeightFormat::kQ3:
      return launch_kernel("widen", widen_kernel<WeightFormat::kQ3>, shape, launch, widening);
    case WeightFormat::kFP8:
      return launch_kernel("widen", widen_kernel<WeightFormat::kFP8>, shape, launch, widening);
  }
}

}  // namespace tare::engine
