#include "engine/cuda/q4_tiles.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "engine/formats/weight_groups.h"

namespace tare::engine {
namespace {

constexpr std::byte kTwoZeroCodes{0x88};

void check(const Q4Matrix& matrix, std::int64_t row_block, std::span<std::byte> packed) {
  const std::int64_t groups = group_count(matrix.columns);
  const bool spans_fit = std::ssize(matrix.codes) == matrix.rows * matrix.columns &&
                         std::ssize(matrix.scales) == matrix.rows * groups &&
                         std::ssize(packed) == q4_units_a_row_block(matrix.columns) * kQ4UnitBytes;
  if (!spans_fit) throw internal_error("a q4 matrix's spans do not have the sizes of its shape");
  if (row_block < 0 || row_block >= q4_row_blocks(matrix.rows)) throw internal_error("no such q4 row block");
}

void put_code(std::span<std::byte> unit, int nibble, int code) {
  const int shift = nibble % 2 * 4;
  std::byte& byte = unit[static_cast<std::size_t>(nibble / 2)];
  byte = (byte & ~(std::byte{0xF} << shift)) | (static_cast<std::byte>(code + kQ4Bias) << shift);
}

}  // namespace

void pack_q4_row_block(const Q4Matrix& matrix, std::int64_t row_block, std::span<std::byte> packed) {
  check(matrix, row_block, packed);
  const std::int64_t first_row = row_block * kQ4BlockRows;
  const auto rows = static_cast<int>(std::min<std::int64_t>(kQ4BlockRows, matrix.rows - first_row));
  const std::int64_t groups = group_count(matrix.columns);
  for (std::int64_t group = 0; group < q4_units_a_row_block(matrix.columns); ++group) {
    const std::span<std::byte> unit = packed.subspan(static_cast<std::size_t>(group * kQ4UnitBytes), kQ4UnitBytes);
    std::fill(unit.begin(), unit.begin() + kQ4CodeBytes, kTwoZeroCodes);
    std::fill(unit.begin() + kQ4CodeBytes, unit.end(), std::byte{0});
    if (group >= groups) break;  // the padding of an odd number of groups
    const auto columns =
        static_cast<int>(std::min<std::int64_t>(kQ4UnitColumns, matrix.columns - group * kQ4UnitColumns));
    for (int row = 0; row < rows; ++row) {
      const std::int64_t source_row = first_row + row;
      const auto* codes = matrix.codes.data() + source_row * matrix.columns + group * kQ4UnitColumns;
      for (int column = 0; column < columns; ++column) {
        if (codes[column] < -8 || codes[column] > 7) throw internal_error("a q4 code outside -8..7");
        put_code(unit, q4_place(row, column).nibble, codes[column]);
      }
      const std::uint16_t scale = matrix.scales[static_cast<std::size_t>(source_row * groups + group)];
      std::memcpy(unit.data() + kQ4CodeBytes + q4_place(row, 0).scale * 2, &scale, sizeof scale);
    }
  }
}

}  // namespace tare::engine
