#include "engine/cuda/product/tiles.h"

#include <cstring>

#include "base/error.h"
#include "engine/cuda/product/product.h"
#include "engine/formats/weight_groups.h"

namespace tare::engine {
namespace {

void check(const FieldMatrix& matrix) {
  const bool spans_fit =
      matrix.rows > 0 && matrix.columns > 0 && std::ssize(matrix.fields) == matrix.rows * matrix.columns &&
      std::ssize(matrix.scales) == (has_scales(matrix.format) ? matrix.rows * group_count(matrix.columns) : 0);
  if (!spans_fit) throw internal_error("a matrix's spans do not have the sizes of its shape");
  for (const std::uint16_t field : matrix.fields) {
    if (field >> code_bits(matrix.format) != 0) throw internal_error("a stored weight has more bits than its format");
  }
}

}  // namespace

std::int64_t tile_bytes(WeightFormat format, std::int64_t rows, std::int64_t columns) {
  return unit_row_blocks(rows) * units_a_row_block(columns) * unit_bytes(format);
}

std::vector<std::byte> pack_tiles(const FieldMatrix& matrix) {
  check(matrix);
  const WeightFormat format = matrix.format;
  const std::int64_t groups = group_count(matrix.columns);
  const std::int64_t units = units_a_row_block(matrix.columns);
  std::vector<std::byte> packed(static_cast<std::size_t>(tile_bytes(format, matrix.rows, matrix.columns)));
  std::byte* unit = packed.data();
  for (std::int64_t first_row = 0; first_row < matrix.rows; first_row += kUnitRows) {
    for (std::int64_t group = 0; group < units; ++group, unit += unit_bytes(format)) {
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
      if (!has_scales(format) || group >= groups) continue;  // beyond the last group scales stay 0
      for (int place = 0; place < kUnitRows; ++place) {
        const std::int64_t source_row = first_row + scale_row(place);
        if (source_row >= matrix.rows) continue;
        const std::uint16_t scale = matrix.scales[static_cast<std::size_t>(source_row * groups + group)];
        std::memcpy(unit + unit_code_bytes(format) + place * 2, &scale, sizeof scale);
      }
    }
  }
  return packed;
}

}  // namespace tare::engine
