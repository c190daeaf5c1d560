// Activations as the q4 kernels read them: blocks of 64 columns, each one copy.
//
//   block = panel [column / 8 8][token / 8][token % 8][column % 8] of 16-bit numbers (operand B of wgmma, K-major
//   without
//           swizzle: core matrices of 8 tokens x 16 bytes), then `group_offset` [p 4][j][v 2] FP32 for tokens
//           8 j + 2 p + v, then padding to a multiple of 128 bytes.
//   after the last block: token_scale [tokens] FP32.
// tokens is 8 or 16; those beyond the real ones are zero.
//
// FP16 form: x is scaled by a power of two a token, so that its largest magnitude lies in [2^14, 2^15). A BF16 number
// down
//   to 2^-17 of that is then exact in FP16. A weight's code q (0..15) enters the matrix instruction as the subnormal
//   q 2^-24, in odd registers (rows g + 8) as 16 q 2^-24: exact. group_offset = -8 2^-24 sum of the group's x.
// BF16 form: x as it is; a weight enters as 128 + q, exact; group_offset = -136 sum of the group's x.
// In both, the true product of the group is its scale times (sum + group_offset), in FP32.
#pragma once

#include <cstdint>

namespace tare::engine {

enum class Q4Form { kFloat16, kBFloat16 };

[[nodiscard]] constexpr int q4_activation_panel_bytes(int tokens) {
  return 64 * 2 * tokens;
}
[[nodiscard]] constexpr int q4_activation_block_bytes(int tokens) {
  return (q4_activation_panel_bytes(tokens) + 4 * tokens + 127) / 128 * 128;
}
// Bytes of all blocks and the token scales.
[[nodiscard]] constexpr std::int64_t q4_activation_bytes(std::int64_t columns, int tokens) {
  return (columns + 63) / 64 * q4_activation_block_bytes(tokens) + 4 * tokens;
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
