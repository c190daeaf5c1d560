// Activations as the q4 kernels read them: blocks of 64 columns, each one copy.
//
//   block = panel [column / 8 8][token / 8][token % 8][column % 8] of 16-bit numbers (operand B of wgmma, K-major
//   without
//           swizzle: core matrices of 8 tokens x 16 bytes), then `group_offset` [p 4][j][v 2] FP32 for tokens
//           8 j + 2 p + v, then padding to a multiple of 128 bytes.
//   after the last block (their number is even, as that of the weight's units): token_scale [tokens] FP32.
// tokens is 8 or 16; those beyond the real ones are zero.
//
// The numbers are FP16: x times a power of two a token that brings its largest magnitude into [2^14, 2^15). A BF16
// number down to 2^-17 of that is exact then; smaller ones lose at most 2^-40 of it. A weight's code q (0..15) enters
// the matrix instruction as the FP16 subnormal q 2^-24, in odd registers (rows g + 8) as 16 q 2^-24, both exact.
// group_offset = -8 2^-24 times the sum of the group's numbers, so that the group's product is its scale times (sum +
// group_offset), in FP32.
#pragma once

#include <cstdint>

#include "engine/cuda/q4_tiles.h"

namespace tare::engine {

[[nodiscard]] constexpr int q4_activation_panel_bytes(int tokens) {
  return 64 * 2 * tokens;
}
[[nodiscard]] constexpr int q4_activation_block_bytes(int tokens) {
  return (q4_activation_panel_bytes(tokens) + 4 * tokens + 127) / 128 * 128;
}
// Bytes of all blocks and the token scales.
[[nodiscard]] constexpr std::int64_t q4_activation_bytes(std::int64_t columns, int tokens) {
  return q4_units_a_row_block(columns) * q4_activation_block_bytes(tokens) + 4 * tokens;
}

// Where the number of (token, column of 0..63) lies in the panel, counted in 16-bit numbers.
[[nodiscard]] constexpr int q4_panel_place(int tokens, int token, int column) {
  return (column / 8 * tokens + token) * 8 + column % 8;
}
// Where the offset of a token lies in group_offset, counted in floats.
[[nodiscard]] constexpr int q4_offset_place(int tokens, int token) {
  return token % 8 / 2 * (tokens / 4) + token / 8 * 2 + token % 2;
}

}  // namespace tare::engine
