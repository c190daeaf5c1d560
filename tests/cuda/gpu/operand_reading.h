// What an operand in device memory says, as numbers; and results of products made up on the host.
#pragma once

#include <vector>

#include "engine/cuda/product/operand.h"
#include "engine/cuda/product/product.h"
#include "engine/formats/float_formats.h"
#include "tests/cuda/gpu/gpu_test.h"

namespace tare::engine::test {

struct ReadOperand {
  std::vector<std::vector<double>> tokens;  // [width][columns], of panels also the columns up to the last block's end
  std::vector<std::vector<double>> sums;    // FP16 panels: [width][blocks] group sums, in units of the numbers returned
};

inline ReadOperand read_operand(const Operand& operand, const std::vector<std::byte>& bytes) {
  ReadOperand result;
  const auto at16 = [&](std::size_t place) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, bytes.data() + 2 * place, sizeof bits);
    return bits;
  };
  const auto columns = static_cast<std::size_t>(operand.columns);
  const bool panels = operand.layout == OperandLayout::kFP16Panels || operand.layout == OperandLayout::kBF16Panels;
  const double factor = std::ldexp(1.0, -operand.exponent);
  for (int token = 0; token < operand.width; ++token) {
    std::vector<double>& row = result.tokens.emplace_back();
    if (!panels) {
      for (std::size_t column = 0; column < columns; ++column) {
        const std::size_t place = static_cast<std::size_t>(token) * columns + column;
        float value = 0;
        if (operand.layout == OperandLayout::kFP32Rows) {
          std::memcpy(&value, bytes.data() + 4 * place, sizeof value);
        } else {
          value = bfloat16_to_float(at16(place));
        }
        row.push_back(static_cast<double>(value));
      }
      continue;
    }
    std::vector<double>& sums = result.sums.emplace_back();
    for (std::int64_t block = 0; block < operand_blocks(operand.columns); ++block) {
      const auto first = static_cast<std::size_t>(block * operand_block_bytes(operand.width));
      for (int column = 0; column < kOperandGroup; ++column) {
        const std::uint16_t bits =
            at16(first / 2 + static_cast<std::size_t>(operand_panel_place(operand.width, token, column)));
        const float value =
            operand.layout == OperandLayout::kBF16Panels ? bfloat16_to_float(bits) : float16_to_float(bits);
        row.push_back(static_cast<double>(value) * factor);
      }
      float sum = 0;
      const std::size_t place = first + static_cast<std::size_t>(operand_panel_bytes(operand.width)) +
                                4 * static_cast<std::size_t>(operand_sum_place(operand.width, token));
      std::memcpy(&sum, bytes.data() + place, sizeof sum);
      sums.push_back(static_cast<double>(sum) * factor);
    }
  }
  return result;
}

// A result with random partial sums, and what they add up to: value(row, token).
struct MadeUpResult {
  DeviceBuffer memory;
  ProductResult result;
  std::vector<double> values;  // [rows][tokens]
  int tokens = 0;
  [[nodiscard]] double value(int row, int token) const {
    return values[static_cast<std::size_t>(row) * static_cast<std::size_t>(tokens) + static_cast<std::size_t>(token)];
  }
};

// In planes as a product over `columns` columns in `blocks` thread blocks would leave them (width > 0), or in plain
// rows (width 0). Memory that holds no result is NaN.
inline MadeUpResult made_up_result(int rows, int tokens, int width, int columns, int blocks, float factor,
                                   std::uint64_t seed) {
  MadeUpResult made;
  made.tokens = tokens;
  made.values.assign(static_cast<std::size_t>(rows) * static_cast<std::size_t>(tokens), 0.0);
  made.result = {.rows = rows, .width = width, .planes = width > 0, .factor = factor};
  Philox random(seed);
  const auto add = [&](std::vector<float>& memory, std::int64_t place, int row, int token) {
    const auto partial = static_cast<float>(random.normal());
    memory[static_cast<std::size_t>(place)] = partial;
    made.values[static_cast<std::size_t>(row) * static_cast<std::size_t>(tokens) + static_cast<std::size_t>(token)] +=
        static_cast<double>(partial) * static_cast<double>(factor);
  };
  std::vector<float> memory;
  if (width == 0) {
    memory.assign(static_cast<std::size_t>(rows) * static_cast<std::size_t>(tokens), NAN);
    for (int token = 0; token < tokens; ++token)
      for (int row = 0; row < rows; ++row) add(memory, static_cast<std::int64_t>(token) * rows + row, row, token);
  } else {
    const WeightMatrix shape{.format = WeightFormat::kQ4, .rows = rows, .columns = columns};
    made.result.plan = product_plan(shape, {.blocks = blocks});
    const std::int64_t stride = plane_floats(made.result.plan, width);
    memory.assign(static_cast<std::size_t>(stride * made.result.plan.most_planes()), NAN);
    for (int row = 0; row < made.result.plan.row_blocks * 256; ++row)
      for (int plane = 0; plane < made.result.plan.planes(row / 256); ++plane)
        for (int token = 0; token < width; ++token) {
          const std::int64_t place = plane * stride + plane_place(width, row, token);
          if (row < rows && token < tokens) {
            add(memory, place, row, token);
          } else {
            memory[static_cast<std::size_t>(place)] = 0.0F;  // padded weights, padded tokens
          }
        }
  }
  made.memory = on_device(memory);
  made.result.data = made.memory.as<float>();
  return made;
}

}  // namespace tare::engine::test
