// The order in which q4 weights lie in device memory: as the tensor-core kernels of this folder consume them.
//
//   matrix = row blocks of 256 rows (rows padded with zero weights), each an even number of units in order of K
//   unit   = 256 rows x 64 columns (one group a row; columns padded with zero weights), 8,704 contiguous bytes:
//            codes  [warpgroup 2][tile 2][thread 128] 16 bytes, then
//            scales [warpgroup 2][warp 4][g 8][tile 2][u 2] FP16
//   tile   = 64 rows x 64 columns. Its thread (warp w, lane 4 g + p) holds, in the four words s = 0..3 of its 16 bytes,
//            the codes of the matrix instruction's operand A of K step s (16 columns). Nibble r + 4 h of word s is
//            row 16 w + g + 8 (r & 1), column 16 s + 2 p + h + 8 (r >> 1)
//            (register fragments of wgmma m64nNk16 and mma.sync m16n8k16 for 16-bit types: PTX ISA).
// Codes are biased by 8 to unsigned nibbles, as in formats/weight_groups.h; a padded weight has code 0, stored as 8,
// and scale 0. A unit is one copy; any run of units is contiguous.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace tare::engine {

constexpr int kQ4BlockRows = 256;
constexpr int kQ4UnitColumns = 64;
constexpr int kQ4TileRows = 64;
constexpr int kQ4CodeBytes = kQ4BlockRows * kQ4UnitColumns / 2;
constexpr int kQ4ScaleBytes = kQ4BlockRows * 2;
constexpr int kQ4UnitBytes = kQ4CodeBytes + kQ4ScaleBytes;

// A matrix in the terms of formats/weight_groups.h: codes [rows][columns] in -8..7, scales [rows][group_count(columns)]
// as FP16 bits.
struct Q4Matrix {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::span<const std::int8_t> codes;
  std::span<const std::uint16_t> scales;
};

[[nodiscard]] constexpr std::int64_t q4_row_blocks(std::int64_t rows) {
  return (rows + kQ4BlockRows - 1) / kQ4BlockRows;
}
// Kernels take units two at a time.
[[nodiscard]] constexpr std::int64_t q4_unit_pairs_a_row_block(std::int64_t columns) {
  return (columns + 2 * kQ4UnitColumns - 1) / (2 * kQ4UnitColumns);
}
[[nodiscard]] constexpr std::int64_t q4_units_a_row_block(std::int64_t columns) {
  return 2 * q4_unit_pairs_a_row_block(columns);
}
[[nodiscard]] constexpr std::int64_t q4_matrix_bytes(std::int64_t rows, std::int64_t columns) {
  return q4_row_blocks(rows) * q4_units_a_row_block(columns) * kQ4UnitBytes;
}

// Where the weight at (row, column) of a unit lies; `nibble` counts the 4-bit fields of the unit's codes, low half of a
// byte first, `scale` the FP16 numbers of its scales.
struct Q4Place {
  int nibble = 0;
  int scale = 0;
};
[[nodiscard]] constexpr Q4Place q4_place(int row, int column) {
  const int warpgroup = row / 128;
  const int tile = row / kQ4TileRows % 2;
  const int warp = row / 16 % 4;
  const int g = row % 8;
  const int u = row / 8 % 2;
  const int step = column / 16;
  const int h = column % 2;
  const int p = column % 8 / 2;
  const int r = u + 2 * (column / 8 % 2);
  const int thread = warp * 32 + g * 4 + p;
  const int word = ((warpgroup * 2 + tile) * 128 + thread) * 4 + step;
  return {.nibble = word * 8 + r + 4 * h, .scale = ((warpgroup * 4 + warp) * 8 + g) * 4 + tile * 2 + u};
}

// Packs one row block (index row_block) into `packed`, q4_units_a_row_block(columns) * kQ4UnitBytes long.
// Throws Error (internal) when a span has another size than the shape says, or a code lies outside -8..7.
void pack_q4_row_block(const Q4Matrix& matrix, std::int64_t row_block, std::span<std::byte> packed);

}  // namespace tare::engine
