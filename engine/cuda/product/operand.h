// Activations as a weight product reads them (its operand B), and who writes them how.
//
// A producer (norm, GDN, attention, MLP activation) writes whole groups of 64 columns of one token with store_group
// (operand.cuh), so that the layout has one home. Layouts:
//
//   kFP32Rows    [tokens][columns] FP32: reference products, exact
//   kBF16Rows    [tokens][columns] BF16: prefill, for cuBLAS
//   kFP16Panels  decode, for q8, q4, q3 and FP8 weights. A number is rounded to BF16, multiplied by 2^exponent and kept
//                as FP16: exact for |x 2^exponent| in [2^-17, 65504] (8 significant bits); beyond it becomes infinite,
//                which reaches the logits and is reported there.
//   kBF16Panels  decode, for BF16 weights. exponent is 0.
//
// Panels: one block for each 64 columns (`group`), each one copy of operand_block_bytes(width):
//   panel [column / 8 8][token / 8][token % 8][column % 8] of 16-bit numbers (operand B of mma and wgmma, K-major, no
//   swizzle: core matrices of 8 tokens x 16 bytes), then
//   group_sum [p 4][j][v 2] FP32 for tokens 8 j + 2 p + v: the sum of the panel's 64 numbers of that token (after
//   rounding and scaling; kBF16Panels: not written), then padding to a multiple of 128 bytes.
// The number of blocks is even (weights come in pairs of units); blocks past the last column are zero.
// `width` is 8, 16 or 32; tokens from the real count up to the width are zero. A producer writes these zeros too.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/cuda/device/round_control.h"

namespace tare::engine {

enum class OperandLayout { kFP32Rows, kBF16Rows, kFP16Panels, kBF16Panels };

constexpr int kOperandGroup = 64;

struct Operand {
  OperandLayout layout = OperandLayout::kFP32Rows;
  int width = 0;              // panels: 8, 16 or 32; rows: the number of tokens
  std::int64_t columns = 0;   // a multiple of 64 is not needed: store_group takes zeros past the last column
  int exponent = 0;           // kFP16Panels
  std::byte* data = nullptr;  // device memory, 128-byte aligned, operand_bytes long
};

[[nodiscard]] constexpr int operand_panel_bytes(int width) {
  return 64 * 2 * width;
}
[[nodiscard]] constexpr int operand_block_bytes(int width) {
  return (operand_panel_bytes(width) + 4 * width + 127) / 128 * 128;
}
// Blocks of 64 columns, an even number.
[[nodiscard]] constexpr std::int64_t operand_blocks(std::int64_t columns) {
  return 2 * ((columns + 2 * kOperandGroup - 1) / (2 * kOperandGroup));
}
[[nodiscard]] constexpr std::int64_t operand_bytes(OperandLayout layout, std::int64_t columns, int width) {
  if (layout == OperandLayout::kFP32Rows) return columns * width * 4;
  if (layout == OperandLayout::kBF16Rows) return columns * width * 2;
  return operand_blocks(columns) * operand_block_bytes(width);
}
// Where (token, column of 0..63) lies in a panel, counted in 16-bit numbers; an even column's successor follows it.
[[nodiscard]] constexpr int operand_panel_place(int width, int token, int column) {
  return (column / 8 * width + token) * 8 + column % 8;
}
// Where a token's group sum lies after the panel, counted in floats.
[[nodiscard]] constexpr int operand_sum_place(int width, int token) {
  return token % 8 / 2 * (width / 4) + token / 8 * 2 + token % 2;
}
// The width of a round of `tokens` tokens, 1..32.
[[nodiscard]] constexpr int operand_width(int tokens) {
  return tokens <= 8 ? 8 : tokens <= 16 ? 16 : 32;
}

}  // namespace tare::engine
