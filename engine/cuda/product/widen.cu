#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <algorithm>

#include "base/error.h"
#include "engine/cuda/device/launch.cuh"
#include "engine/cuda/device/ptx.cuh"
#include "engine/cuda/product/stored_weight.cuh"
#include "engine/cuda/product/widen.h"

namespace tare::engine {
namespace {

constexpr int kThreads = 256;
constexpr int kPartColumns = 8;  // what a thread writes at once: 16 bytes
constexpr int kPartsARow = kUnitColumns / kPartColumns;
constexpr int kRowsAtOnce = kThreads / kPartsARow;

struct Widening {
  std::int64_t rows = 0;
  int units_a_row_block = 0;
  int stride = 0;
  const float* row_scales = nullptr;  // of the first row block on, with E4M3 scales
};

// The eight weights of `row` from column 8 part on, as BF16. kSplit: their fields are split (tiles.h); those of eight
// such columns are so all or none.
template <WeightFormat kFormat, ScaleFormat kScales, bool kSplit>
__device__ __forceinline__ uint4 widened_part(const std::byte* unit, int row, int part, float tensor_scale) {
  const auto* words = reinterpret_cast<const std::uint32_t*>(unit);
  const float scale = row_scale<kFormat, kScales>(unit, row, part * kPartColumns);
  const auto weight = [&](int column) {
    CodePlace place = code_place(kFormat, row, column);
    place.split = kSplit;
    const float weight = scale * field_value<kFormat>(read_code(kFormat, words, place));
    return has_tensor_scale({kFormat, kScales}) ? tensor_scale * weight : weight;
  };
  std::uint32_t pairs[kPartColumns / 2];
#pragma unroll
  for (int pair = 0; pair < kPartColumns / 2; ++pair) {
    const int column = part * kPartColumns | 2 * pair;  // by "or", so that the compiler sees that both share a word
    const __nv_bfloat162 rounded = __float22bfloat162_rn({weight(column), weight(column | 1)});
    pairs[pair] = *reinterpret_cast<const std::uint32_t*>(&rounded);
  }
  return make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
}

// A thread block one unit; a thread 8 columns of every 32nd row, a warp 128 bytes of four rows at once. `units`: of the
// first row block. "restrict", so that loads pass the stores before them.
template <WeightFormat kFormat, ScaleFormat kScales>
__global__ void __launch_bounds__(kThreads)
    widen_kernel(const __grid_constant__ Widening widening, const std::byte* __restrict__ units,
                 std::uint16_t* __restrict__ widened) {
  ptx::launch_dependents();
  ptx::wait_for_preceding_grid();
  const std::byte* unit = units + static_cast<std::int64_t>(blockIdx.x) * unit_bytes({kFormat, kScales});
  const int row_block = static_cast<int>(blockIdx.x) / widening.units_a_row_block;
  const int group = static_cast<int>(blockIdx.x) % widening.units_a_row_block;
  const auto part = static_cast<int>(threadIdx.x % kPartsARow);
  const auto first_row = static_cast<int>(threadIdx.x / kPartsARow % kRowsAtOnce);
  const int first_column = group * kUnitColumns + part * kPartColumns;
  if (first_column >= widening.stride) return;
  const std::int64_t rows = widening.rows - static_cast<std::int64_t>(row_block) * kUnitRows;
  std::uint16_t* out = widened + static_cast<std::int64_t>(row_block) * kUnitRows * widening.stride + first_column;
#pragma unroll
  for (int step = 0; step < kUnitRows / kRowsAtOnce; ++step) {
    const int row = step * kRowsAtOnce + first_row;
    const bool split = code_place(kFormat, row, part * kPartColumns).split;
    float tensor_scale = 1.0F;
    if constexpr (has_tensor_scale({kFormat, kScales})) tensor_scale = widening.row_scales[row_block * kUnitRows + row];
    const uint4 numbers = split ? widened_part<kFormat, kScales, true>(unit, row, part, tensor_scale)
                                : widened_part<kFormat, kScales, false>(unit, row, part, tensor_scale);
    if (row >= rows) continue;  // only now: loads of all steps may run ahead, and tiles have rows to the block's end
    // By name, or the compiler makes four stores of it, each to a part of a sector.
    __stcg(reinterpret_cast<uint4*>(out + static_cast<std::int64_t>(row) * widening.stride), numbers);
  }
}

}  // namespace

void launch_widen(const WeightMatrix& matrix, std::int64_t first_row, std::int64_t rows, std::uint16_t* out,
                  const CudaLaunch& launch) {
  if (first_row % kUnitRows != 0 || rows < 1 || first_row + rows > matrix.rows) {
    throw internal_error("whole row blocks of the matrix are widened");
  }
  const std::int64_t units = units_a_row_block(matrix.columns);
  const float* scales = row_scales(matrix);
  const Widening widening{.rows = rows,
                          .units_a_row_block = static_cast<int>(units),
                          .stride = widened_stride(matrix.columns),
                          .row_scales = scales == nullptr ? nullptr : scales + first_row};
  const std::byte* first = matrix.tiles + first_row / kUnitRows * units * unit_bytes(matrix.codec());
  const LaunchShape shape{.blocks = static_cast<int>(unit_row_blocks(rows) * units), .threads = kThreads};
  for_codec(matrix.codec(), [&]<WeightFormat kFormat, ScaleFormat kScales>() {
    launch_kernel("widen", widen_kernel<kFormat, kScales>, shape, launch, widening, first, out);
  });
}

}  // namespace tare::engine
