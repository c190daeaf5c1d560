#include "engine/cuda/product/tiles.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "engine/backend/options.h"
#include "engine/cuda/product/product.h"
#include "engine/formats/weight_groups.h"

namespace tare::engine {
namespace {

std::int64_t row_scale_count(WeightFormat format, std::int64_t columns) {
  return format == WeightFormat::kNVFP4 ? (columns + kNVFP4WeightBlock - 1) / kNVFP4WeightBlock
         : has_scales(format)           ? group_count(columns)
                                        : 0;
}

void check(const FieldMatrix& matrix, WeightCodec codec) {
  const bool spans_fit = matrix.rows > 0 && matrix.columns > 0 &&
                         std::ssize(matrix.fields) == matrix.rows * matrix.columns &&
                         std::ssize(matrix.scales) == matrix.rows * row_scale_count(codec.format, matrix.columns) &&
                         std::ssize(matrix.row_scales) == (has_tensor_scale(codec) ? matrix.rows : 0);
  if (!spans_fit) throw internal_error("a matrix's spans do not have the sizes of its shape");
  for (const std::uint16_t field : matrix.fields) {
    if (field >> code_bits(matrix.format) != 0) throw internal_error("a stored weight has more bits than its format");
  }
}

// The scales of one unit; beyond the last row and scale they stay 0.
void pack_scales(const FieldMatrix& matrix, WeightCodec codec, std::int64_t first_row, std::int64_t group,
                 std::byte* out) {
  const int blocks = row_scales_a_unit(codec.format);
  const std::int64_t count = row_scale_count(codec.format, matrix.columns);
  const std::size_t size = scale_bytes(codec);
  for (int place = 0; place < kUnitRows * blocks; ++place) {
    const std::int64_t row = first_row + scale_row(place, blocks);
    const std::int64_t scale = group * blocks + scale_block(place, blocks);
    if (row >= matrix.rows || scale >= count) continue;
    std::memcpy(out + static_cast<std::size_t>(place) * size,
                &matrix.scales[static_cast<std::size_t>(row * count + scale)], size);  // little-endian
  }
}

}  // namespace

std::int64_t unit_run_bytes(WeightCodec codec, std::int64_t rows, std::int64_t columns) {
  return unit_row_blocks(rows) * units_a_row_block(columns) * unit_bytes(codec);
}

std::int64_t tile_bytes(WeightCodec codec, std::int64_t rows, std::int64_t columns) {
  const std::int64_t row_scales =
      has_tensor_scale(codec) ? unit_row_blocks(rows) * kUnitRows * static_cast<std::int64_t>(sizeof(float)) : 0;
  return unit_run_bytes(codec, rows, columns) + row_scales;
}

std::string stored_format(const WeightMatrix& matrix) {
  const bool named = has_tensor_scale(matrix.codec()) && matrix.format != WeightFormat::kNVFP4;
  return to_text(matrix.format) + (named ? ", e4m3 scales" : "");
}

const float* row_scales(const WeightMatrix& matrix) {
  if (!has_tensor_scale(matrix.codec())) return nullptr;
  return reinterpret_cast<const float*>(matrix.tiles + unit_run_bytes(matrix.codec(), matrix.rows, matrix.columns));
}

std::vector<std::byte> pack_tiles(const FieldMatrix& matrix) {
  const WeightCodec codec{matrix.format, matrix.scale_format};
  check(matrix, codec);
  const WeightFormat format = matrix.format;
  const std::int64_t units = units_a_row_block(matrix.columns);
  std::vector<std::byte> packed(static_cast<std::size_t>(tile_bytes(codec, matrix.rows, matrix.columns)));
  std::byte* unit = packed.data();
  for (std::int64_t first_row = 0; first_row < matrix.rows; first_row += kUnitRows) {
    for (std::int64_t group = 0; group < units; ++group, unit += unit_bytes(codec)) {
      const auto code_at = [&](int row, int column) -> std::uint32_t {
        const std::int64_t source_row = first_row + row;
        const std::int64_t source_column = group * kUnitColumns + column;
        if (source_row >= matrix.rows || source_column >= matrix.columns) {
          return static_cast<std::uint32_t>(code_bias(format));
        }
        return matrix.fields[static_cast<std::size_t>(source_row * matrix.columns + source_column)];
      };
      for (int index = 0; index < unit_code_bytes(format) / 4; ++index) {
        const std::uint32_t word = unit_word(format, index, code_at);
        std::memcpy(unit + index * 4, &word, sizeof word);
      }
      if (has_scales(format)) pack_scales(matrix, codec, first_row, group, unit + unit_code_bytes(format));
    }
  }
  if (has_tensor_scale(codec)) {
    std::vector<float> scales(static_cast<std::size_t>(unit_row_blocks(matrix.rows) * kUnitRows), 1.0F);
    std::copy(matrix.row_scales.begin(), matrix.row_scales.end(), scales.begin());
    std::memcpy(unit, scales.data(), scales.size() * sizeof(float));
  }
  return packed;
}

}  // namespace tare::engine
