// Rows of codes as files hold them into tiles. A thread block makes one unit: a warp takes a row's group at a time, two
// fields a lane.
#include "base/error.h"
#include "engine/cuda/device/launch.cuh"
#include "engine/cuda/device/ptx.cuh"
#include "engine/cuda/product/gate_up_rows.h"
#include "engine/cuda/weights/encode_tiles.h"
#include "engine/cuda/weights/unit_fields.cuh"

namespace tare::engine {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;

// What a row has in its file.
struct StoredRow {
  std::int64_t code_bytes = 0;
  std::int64_t scales = 0;
};

// Field `index` of a row: `kBits` bits that may reach into the next byte, which is there then.
template <int kBits>
__device__ __forceinline__ std::uint32_t stored_field(const std::byte* row, std::int64_t index) {
  const std::int64_t bit = index * kBits;
  const auto shift = static_cast<int>(bit % 8);
  auto bits = static_cast<std::uint32_t>(row[bit / 8]);
  if (shift + kBits > 8) bits |= static_cast<std::uint32_t>(row[bit / 8 + 1]) << 8;
  return bits >> shift & ((1U << kBits) - 1U);
}

template <WeightFormat kFormat, ScaleFormat kScales>
__global__ void __launch_bounds__(kThreads) store_codes_kernel(StagedCodes source, StoredRow stored, std::byte* tiles) {
  using Fields = UnitFields<kFormat, kScales>;
  using Scale = std::conditional_t<has_tensor_scale({kFormat, kScales}), std::uint8_t, std::uint16_t>;
  __shared__ Fields shared;
  ptx::wait_for_preceding_grid();
  const std::int64_t units = units_a_row_block(source.columns);
  const std::int64_t row_block = blockIdx.x / units;
  const std::int64_t group = blockIdx.x % units;
  const auto lane = static_cast<int>(threadIdx.x % 32);
  for (auto row = static_cast<int>(threadIdx.x / 32); row < kUnitRows; row += kWarps) {
    const std::int64_t matrix_row = row_block * kUnitRows + row;
    const bool inside_row = matrix_row < source.rows;
    const std::int64_t source_row = source.alternating ? stacked_row(matrix_row, source.rows / 2) : matrix_row;
    const std::byte* codes = source.codes + source_row * stored.code_bytes;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const std::int64_t column = group * kUnitColumns + 2 * lane + half;
      const std::uint32_t field = inside_row && column < source.columns
                                      ? stored_field<code_bits(kFormat)>(codes, column)
                                      : static_cast<std::uint32_t>(code_bias(kFormat));
      shared.fields[row][2 * lane + half] = static_cast<typename Fields::Field>(field);
    }
    if (lane >= Fields::kBlocks) continue;
    const std::int64_t scale = group * Fields::kBlocks + lane;
    const auto* scales = reinterpret_cast<const Scale*>(source.scales) + source_row * stored.scales;
    shared.scales[row][lane] = inside_row && scale < stored.scales ? scales[scale] : Scale{0};
  }
  shared.write(tiles + ((source.first_row / kUnitRows + row_block) * units + group) * unit_bytes({kFormat, kScales}));
}

template <WeightFormat kFormat, ScaleFormat kScales>
void store(const StagedCodes& source, std::byte* tiles, const CudaLaunch& launch) {
  const auto blocks = static_cast<int>(unit_row_blocks(source.rows) * units_a_row_block(source.columns));
  constexpr int kScaleColumns = kUnitColumns / row_scales_a_unit(kFormat);
  const StoredRow stored{packed_bytes(source.columns, code_bits(kFormat)),
                         (source.columns + kScaleColumns - 1) / kScaleColumns};
  launch_kernel("store_codes", store_codes_kernel<kFormat, kScales>, {.blocks = blocks, .threads = kThreads}, launch,
                source, stored, tiles);
}

}  // namespace

void launch_store_codes(WeightCodec codec, const StagedCodes& source, std::byte* tiles, const CudaLaunch& launch) {
  if (source.first_row % kUnitRows != 0) throw internal_error("storing codes must begin at a row block");
  if (source.rows == 0) return;
  for_codec(codec, [&]<WeightFormat kFormat, ScaleFormat kScales>() {
    if constexpr (kFormat == WeightFormat::kBF16) {
      throw internal_error("bf16 weights have no codes");
    } else {
      store<kFormat, kScales>(source, tiles, launch);
    }
  });
}

}  // namespace tare::engine
