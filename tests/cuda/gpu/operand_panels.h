// Operands in panels, made on the host from BF16 numbers by the place functions of operand.h.
#pragma once

#include <vector>

#include "engine/cuda/product/operand.h"
#include "engine/formats/float_formats.h"
#include "tests/cuda/gpu/gpu_test.h"

namespace tare::engine::test {

struct PanelOperand {
  DeviceBuffer memory;
  Operand operand;
};

// x: [tokens][columns], numbers that BF16 holds; tokens up to the width and columns past the last are zero.
inline PanelOperand make_panels(OperandLayout layout, const std::vector<float>& x, int tokens, std::int64_t columns,
                                int width, int exponent) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(operand_bytes(layout, columns, width)));
  for (std::int64_t block = 0; block < operand_blocks(columns); ++block) {
    std::byte* panel = bytes.data() + block * operand_block_bytes(width);
    for (int token = 0; token < tokens; ++token) {
      float sum = 0;
      for (int column = 0; column < kOperandGroup && block * kOperandGroup + column < columns; ++column) {
        const float value =
            std::ldexp(x[static_cast<std::size_t>(token * columns + block * kOperandGroup + column)], exponent);
        const bool bfloat16 = layout == OperandLayout::kBF16Panels;
        const std::uint16_t bits = bfloat16 ? float_to_bfloat16(value) : float_to_float16(value);
        sum += bfloat16 ? bfloat16_to_float(bits) : float16_to_float(bits);
        std::memcpy(panel + 2 * operand_panel_place(width, token, column), &bits, sizeof bits);
      }
      std::memcpy(panel + operand_panel_bytes(width) + 4 * operand_sum_place(width, token), &sum, sizeof sum);
    }
  }
  PanelOperand made{.memory = on_device(bytes), .operand = {}};
  made.operand = {
      .layout = layout, .width = width, .columns = columns, .exponent = exponent, .data = made.memory.data()};
  return made;
}

// Normal numbers as BF16 keeps them.
inline std::vector<float> bfloat16_numbers(std::size_t count, std::uint64_t seed) {
  Philox random(seed);
  std::vector<float> numbers(count);
  for (float& number : numbers) {
    number = bfloat16_to_float(float_to_bfloat16(static_cast<float>(random.normal())));
  }
  return numbers;
}

}  // namespace tare::engine::test
