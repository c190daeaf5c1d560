#include "base/error.h"
#include "engine/cuda/device/launch.cuh"
#include "engine/cuda/device/ptx.cuh"
#include "engine/cuda/weights/encode_group.cuh"
#include "engine/cuda/weights/encode_tiles.h"

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
// the words of the unit from there, in order, so that they are written as they lie.
template <WeightFormat kFormat, class Element>
__global__ void __launch_bounds__(kThreads)
    encode_tiles_kernel(StagedRows source, std::byte* tiles, std::uint64_t* fault) {
  using Field = std::conditional_t<kFormat == WeightFormat::kBF16, std::uint16_t, std::uint8_t>;
  constexpr int kStride = kUnitColumns + 4 / static_cast<int>(sizeof(Field));  // a word more: other banks
  __shared__ Field fields[kUnitRows][kStride];
  __shared__ std::uint16_t scales[kUnitRows];
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
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const bool inside = row < source.rows && column + half < source.columns;
        values[i][half] = inside ? widen(elements[row * source.columns + column + half]) : 0.0F;
      }
    }
#pragma unroll
    for (int i = 0; i < kRowsAtOnce; ++i) {
      const int row = first + i * kWarps + warp;
      const EncodedPair encoded = device_encode_group<kFormat>(values[i][0], values[i][1]);
      fields[row][2 * lane] = static_cast<Field>(encoded.field[0]);
      fields[row][2 * lane + 1] = static_cast<Field>(encoded.field[1]);
      if (lane != 0) continue;
      scales[row] = encoded.scale;
      if (encoded.faulty) {
        report(fault, (source.first_row + row_block * kUnitRows + row) * source.columns + group * kUnitColumns);
      }
    }
  }
  __syncthreads();

  std::byte* unit = tiles + ((source.first_row / kUnitRows + row_block) * units + group) * unit_bytes(kFormat);
  auto* words = reinterpret_cast<std::uint32_t*>(unit);
  for (int index = static_cast<int>(threadIdx.x); index < unit_code_bytes(kFormat) / 4; index += kThreads) {
    words[index] = unit_word(kFormat, index,
                             [&](int row, int column_of_unit) -> std::uint32_t { return fields[row][column_of_unit]; });
  }
  if constexpr (has_scales(kFormat)) {
    auto* out = reinterpret_cast<std::uint16_t*>(unit + unit_code_bytes(kFormat));
    for (int place = static_cast<int>(threadIdx.x); place < kUnitRows; place += kThreads) {
      out[place] = scales[scale_row(place)];
    }
  }
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

template <WeightFormat kFormat>
void encode(const StagedRows& source, std::byte* tiles, std::uint64_t* fault, const CudaLaunch& launch) {
  const auto blocks = static_cast<int>(unit_row_blocks(source.rows) * units_a_row_block(source.columns));
  launch_kernel("encode_tiles",
                source.wide ? encode_tiles_kernel<kFormat, float> : encode_tiles_kernel<kFormat, std::uint16_t>,
                {.blocks = blocks, .threads = kThreads}, launch, source, tiles, fault);
}

}  // namespace

void launch_encode_tiles(WeightFormat format, const StagedRows& source, std::byte* tiles, std::uint64_t* fault,
                         const CudaLaunch& launch) {
  if (source.first_row % kUnitRows != 0) throw internal_error("encoding must begin at a row block");
  if (source.rows == 0) return;
  switch (format) {
    case WeightFormat::kBF16:
      return encode<WeightFormat::kBF16>(source, tiles, fault, launch);
    case WeightFormat::kQ8:
      return encode<WeightFormat::kQ8>(source, tiles, fault, launch);
    case WeightFormat::kQ4:
      return encode<WeightFormat::kQ4>(source, tiles, fault, launch);
    case WeightFormat::kQ3:
      return encode<WeightFormat::kQ3>(source, tiles, fault, launch);
    case WeightFormat::kFP8:
      return encode<WeightFormat::kFP8>(source, tiles, fault, launch);
    case WeightFormat::kQ5:
    case WeightFormat::kNVFP4:
      break;
  }
  throw internal_error("a weight format has no tiles");
}

void launch_store_rows(const StagedRows& source, std::uint16_t* out, std::uint64_t* fault, const CudaLaunch& launch) {
  if (source.rows == 0) return;
  const auto blocks = static_cast<int>((source.rows * source.columns + kThreads - 1) / kThreads);
  launch_kernel("store_rows", source.wide ? store_rows_kernel<float> : store_rows_kernel<std::uint16_t>,
                {.blocks = blocks, .threads = kThreads}, launch, source, out, fault);
}

}  // namespace tare::engine
