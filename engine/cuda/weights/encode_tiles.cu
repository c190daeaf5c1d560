#include "base/error.h"
#include "engine/cuda/device/launch.cuh"
#include "engine/cuda/device/ptx.cuh"
#include "engine/cuda/product/gate_up_rows.h"
#include "engine/cuda/weights/encode_group.cuh"
#include "engine/cuda/weights/encode_tiles.h"
#include "engine/cuda/weights/unit_fields.cuh"

namespace tare::engine {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr int kRowsAtOnce = 4;  // rows of a warp whose loads are under way together

__device__ __forceinline__ float widen(float value) {
  return value;
}
__device__ __forceinline__ float widen(std::uint16_t bits) {
  return __uint_as_float(static_cast<std::uint32_t>(bits) << 16);
}

__device__ __forceinline__ void report(std::uint64_t* fault, std::int64_t element) {
  atomicMin(reinterpret_cast<unsigned long long*>(fault), static_cast<unsigned long long>(element));
}

// A thread block makes one unit: its warps encode a row's group at a time into shared memory, then all threads gather
// the words of the unit from there. row_scales: of the matrix's rows, where scales are E4M3.
template <WeightFormat kFormat, ScaleFormat kScales, class Element>
__global__ void __launch_bounds__(kThreads)
    encode_tiles_kernel(StagedRows source, const float* row_scales, std::byte* tiles, std::uint64_t* fault) {
  using Fields = UnitFields<kFormat, kScales>;
  __shared__ Fields shared;
  ptx::wait_for_preceding_grid();

  const std::int64_t units = units_a_row_block(source.columns);
  const std::int64_t row_block = blockIdx.x / units;
  const std::int64_t group = blockIdx.x % units;
  const auto* elements = reinterpret_cast<const Element*>(source.data);
  const auto warp = static_cast<int>(threadIdx.x / 32);
  const auto lane = static_cast<int>(threadIdx.x % 32);
  const std::int64_t column = group * kUnitColumns + 2 * lane;
  for (int first = 0; first < kUnitRows; first += kWarps * kRowsAtOnce) {
    float values[kRowsAtOnce][2];
#pragma unroll
    for (int i = 0; i < kRowsAtOnce; ++i) {
      const std::int64_t row = row_block * kUnitRows + first + i * kWarps + warp;
      const std::int64_t staged = source.alternating ? stacked_row(row, source.rows / 2) : row;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const bool inside = row < source.rows && column + half < source.columns;
        values[i][half] = inside ? widen(elements[staged * source.columns + column + half]) : 0.0F;
      }
    }
#pragma unroll
    for (int i = 0; i < kRowsAtOnce; ++i) {
      const int row = first + i * kWarps + warp;
      const std::int64_t matrix_row = source.first_row + row_block * kUnitRows + row;
      const float tensor_scale = has_tensor_scale({kFormat, kScales}) ? row_scales[matrix_row] : 1.0F;
      const EncodedPair encoded = device_encode_group<kFormat, kScales>(values[i][0], values[i][1], tensor_scale);
      shared.fields[row][2 * lane] = static_cast<typename Fields::Field>(encoded.field[0]);
      shared.fields[row][2 * lane + 1] = static_cast<typename Fields::Field>(encoded.field[1]);
      if (lane % kLanesAScale<kFormat> == 0) shared.scales[row][lane / kLanesAScale<kFormat>] = encoded.scale;
      if (lane == 0 && encoded.faulty) report(fault, matrix_row * source.columns + group * kUnitColumns);
    }
  }
  shared.write(tiles + ((source.first_row / kUnitRows + row_block) * units + group) * unit_bytes({kFormat, kScales}));
}

// A warp has a row.
template <class Element>
__global__ void __launch_bounds__(kThreads) row_absmax_kernel(StagedRows source, float* absmax, std::uint64_t* fault) {
  constexpr std::uint32_t kMagnitude = 0x7FFF'FFFFU;
  ptx::wait_for_preceding_grid();
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
  if (row >= source.rows) return;
  const auto* elements = reinterpret_cast<const Element*>(source.data) + row * source.columns;
  const std::int64_t first = (source.first_row + row) * source.columns;
  std::uint32_t most = 0;
  for (std::int64_t column = threadIdx.x % 32; column < source.columns; column += 32) {
    const std::uint32_t bits = __float_as_uint(widen(elements[column])) & kMagnitude;
    if (bits >= kFloatInfinityBits) report(fault, first + column);
    most = max(most, bits);
  }
  most = __reduce_max_sync(~0U, most);
  if (threadIdx.x % 32 == 0) absmax[source.first_row + row] = __uint_as_float(most);
}

template <class Element>
__global__ void __launch_bounds__(kThreads)
    store_rows_kernel(StagedRows source, std::uint16_t* out, std::uint64_t* fault) {
  ptx::wait_for_preceding_grid();
  const std::int64_t index = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (index >= source.rows * source.columns) return;
  const float value = widen(reinterpret_cast<const Element*>(source.data)[index]);
  const std::int64_t element = source.first_row * source.columns + index;
  out[element] = __bfloat16_as_ushort(__float2bfloat16_rn(value));
  if ((__float_as_uint(value) & kFloatInfinityBits) == kFloatInfinityBits) report(fault, element);
}

template <WeightFormat kFormat, ScaleFormat kScales>
void encode(const StagedRows& source, const float* row_scales, std::byte* tiles, std::uint64_t* fault,
            const CudaLaunch& launch) {
  const auto blocks = static_cast<int>(unit_row_blocks(source.rows) * units_a_row_block(source.columns));
  launch_kernel(
      "encode_tiles",
      source.wide ? encode_tiles_kernel<kFormat, kScales, float> : encode_tiles_kernel<kFormat, kScales, std::uint16_t>,
      {.blocks = blocks, .threads = kThreads}, launch, source, row_scales, tiles, fault);
}

}  // namespace

void launch_encode_tiles(WeightCodec codec, const StagedRows& source, const float* row_scales, std::byte* tiles,
                         std::uint64_t* fault, const CudaLaunch& launch) {
  if (source.first_row % kUnitRows != 0) throw internal_error("encoding must begin at a row block");
  if (has_tensor_scale(codec) != (row_scales != nullptr))
    throw internal_error("E4M3 scales stand under their tensor's");
  if (source.rows == 0) return;
  for_codec(codec, [&]<WeightFormat kFormat, ScaleFormat kScales>() {
    encode<kFormat, kScales>(source, row_scales, tiles, fault, launch);
  });
}

void launch_row_absmax(const StagedRows& source, float* absmax, std::uint64_t* fault, const CudaLaunch& launch) {
  if (source.rows == 0) return;
  launch_kernel("row_absmax", source.wide ? row_absmax_kernel<float> : row_absmax_kernel<std::uint16_t>,
                {.blocks = static_cast<int>((source.rows + kWarps - 1) / kWarps), .threads = kThreads}, launch, source,
                absmax, fault);
}

void launch_store_rows(const StagedRows& source, std::uint16_t* out, std::uint64_t* fault, const CudaLaunch& launch) {
  if (source.rows == 0) return;
  const auto blocks = static_cast<int>((source.rows * source.columns + kThreads - 1) / kThreads);
  launch_kernel("store_rows", source.wide ? store_rows_kernel<float> : store_rows_kernel<std::uint16_t>,
                {.blocks = blocks, .threads = kThreads}, launch, source, out, fault);
}

}  // namespace tare::engine
