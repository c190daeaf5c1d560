// The small kernels of a round against double precision: residual and norm, MLP activation, logits and greedy token.
#include "engine/cuda/elementwise.h"

#include <numeric>

#include "engine/cuda/product/gate_up_rows.h"
#include "tests/cuda/gpu/operand_reading.h"

namespace tare::engine::test {
namespace {

struct Shape {
  int hidden;
  int tokens;
  OperandLayout layout;
};

std::vector<float> random_floats(std::size_t count, double scale, std::uint64_t seed) {
  Philox random(seed);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(random.normal() * scale);
  return values;
}

int width_of(OperandLayout layout, int tokens) {
  const bool rows = layout == OperandLayout::kFP32Rows || layout == OperandLayout::kBF16Rows;
  return rows ? tokens : operand_width(tokens);
}

double tolerance_of(OperandLayout layout) {
  return layout == OperandLayout::kFP32Rows ? 1e-6 : 0x1p-8;  // BF16 rounds at 2^-9 of a number
}

// All tokens of the width against `expected` (zeros past the real ones), sums against the numbers themselves.
void expect_operand(const Operand& operand, const PoisonedBuffer& memory,
                    const std::vector<std::vector<double>>& expected) {
  const ReadOperand read = read_operand(operand, memory.read<std::byte>());
  EXPECT_TRUE(memory.canaries_intact());
  const double tolerance = tolerance_of(operand.layout);
  for (std::size_t token = 0; token < read.tokens.size(); ++token) {
    for (std::size_t column = 0; column < read.tokens[token].size(); ++column) {
      const bool real = token < expected.size() && column < expected[token].size();
      const double want = real ? expected[token][column] : 0.0;
      const double error = std::abs(read.tokens[token][column] - want);
      ASSERT_TRUE(error <= tolerance * std::abs(want) + 1e-6)
          << "token " << token << " column " << column << ": " << read.tokens[token][column] << " not " << want;
    }
    if (operand.layout != OperandLayout::kFP16Panels) continue;
    for (std::size_t block = 0; block < read.sums[token].size(); ++block) {
      const auto first = read.tokens[token].begin() + static_cast<std::ptrdiff_t>(block * 64);
      ASSERT_NEAR(read.sums[token][block], std::accumulate(first, first + 64, 0.0), 1e-4)
          << "token " << token << " block " << block;
    }
  }
}

std::vector<std::vector<double>> norm_oracle(const std::vector<float>& x, const MadeUpResult* increment,
                                             const std::vector<float>& gain, int hidden, int tokens, double eps) {
  std::vector<std::vector<double>> result;
  for (int token = 0; token < tokens; ++token) {
    std::vector<double> row;
    double squares = 0;
    for (int column = 0; column < hidden; ++column) {
      double value = static_cast<double>(x[static_cast<std::size_t>(token * hidden + column)]);
      if (increment != nullptr) value += increment->value(column, token);
      squares += value * value;
      row.push_back(value);
    }
    const double factor = 1 / std::sqrt(squares / hidden + eps);
    for (int column = 0; column < hidden; ++column)
      row[static_cast<std::size_t>(column)] *= factor * static_cast<double>(gain[static_cast<std::size_t>(column)]);
    result.push_back(std::move(row));
  }
  return result;
}

// Rows of three taps of which the second is the residual stream after the increment; without one nothing is written.
void expect_taps(const PoisonedBuffer& taps, bool narrow, const std::vector<float>& residual, int hidden,
                 bool written) {
  std::vector<float> got;
  if (narrow) {
    for (const std::uint16_t bits : taps.read<std::uint16_t>()) got.push_back(bfloat16_to_float(bits));
  } else {
    got = taps.read<float>();
  }
  const auto size = static_cast<std::size_t>(hidden);
  for (std::size_t i = 0; i < got.size(); ++i) {
    const std::size_t token = i / (3 * size);
    const std::size_t column = i % (3 * size);
    if (!written || column < size || column >= 2 * size) {
      ASSERT_TRUE(std::isnan(got[i])) << "token " << token << ", column " << column;
      continue;
    }
    const float value = residual[token * size + column - size];
    ASSERT_EQ(got[i], narrow ? bfloat16_to_float(float_to_bfloat16(value)) : value) << "token " << token;
  }
  EXPECT_TRUE(taps.canaries_intact());
}

class NormTest : public GpuTest, public ::testing::WithParamInterface<Shape> {};

TEST_P(NormTest, EqualsDoublePrecision) {
  const auto [hidden, tokens, layout] = GetParam();
  const int width = width_of(layout, tokens);
  const bool panels = layout == OperandLayout::kFP16Panels || layout == OperandLayout::kBF16Panels;
  for (const bool with_increment : {false, true}) {
    const std::vector<float> x = random_floats(static_cast<std::size_t>(hidden * tokens), 3.0, 1);
    const std::vector<float> gain = random_floats(static_cast<std::size_t>(hidden), 1.0, 2);
    const MadeUpResult increment = made_up_result(hidden, tokens, panels ? width : 0, 3000, 132, 0.25F, 3);
    PoisonedBuffer x_device(x.size() * sizeof(float));
    copy_to_device(x_device.data(), std::as_bytes(std::span(x)));
    PoisonedBuffer normed(x.size() * sizeof(float));
    PoisonedBuffer out(static_cast<std::size_t>(operand_bytes(layout, hidden, width)));
    const DeviceBuffer gain_device = on_device(gain);
    const Operand operand{
        .layout = layout, .width = width, .columns = hidden, .exponent = panels ? 4 : 0, .data = out.data()};
    Operand scaled = operand;
    if (layout == OperandLayout::kBF16Panels) scaled.exponent = 0;
    // The second of three taps.
    const bool narrow_taps = layout == OperandLayout::kBF16Rows;
    PoisonedBuffer taps(3 * x.size() * (narrow_taps ? 2 : 4));
    const TapRows tap{taps.data() + hidden * (narrow_taps ? 2 : 4), narrow_taps, 3 * hidden};
    launch_residual_norm({.increment = with_increment ? increment.result : ProductResult{},
                          .tokens = tokens,
                          .hidden = hidden,
                          .eps = 1e-6F,
                          .x = x_device.as<float>(),
                          .gain = gain_device.as<float>(),
                          .out = scaled,
                          .normed = normed.as<float>(),
                          .tap = tap},
                         {});
    synchronize();
    const auto expected = norm_oracle(x, with_increment ? &increment : nullptr, gain, hidden, tokens, 1e-6);
    expect_operand(scaled, out, expected);
    const std::vector<float> got = normed.read<float>();
    for (int token = 0; token < tokens; ++token)
      for (int column = 0; column < hidden; ++column)
        ASSERT_NEAR(got[static_cast<std::size_t>(token * hidden + column)],
                    expected[static_cast<std::size_t>(token)][static_cast<std::size_t>(column)], 2e-5);
    const std::vector<float> residual = x_device.read<float>();
    for (int token = 0; token < tokens; ++token)
      for (int column = 0; column < hidden; ++column) {
        const auto place = static_cast<std::size_t>(token * hidden + column);
        const double want = static_cast<double>(x[place]) + (with_increment ? increment.value(column, token) : 0.0);
        ASSERT_NEAR(residual[place], want, 1e-5);
      }
    expect_taps(taps, narrow_taps, residual, hidden, with_increment);
    EXPECT_TRUE(normed.canaries_intact());
    EXPECT_TRUE(x_device.canaries_intact());
  }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, NormTest,
    ::testing::Values(Shape{5120, 1, OperandLayout::kFP16Panels}, Shape{5120, 16, OperandLayout::kFP16Panels},
                      Shape{5120, 32, OperandLayout::kFP16Panels}, Shape{5120, 17, OperandLayout::kBF16Panels},
                      Shape{1024, 7, OperandLayout::kFP16Panels}, Shape{66, 3, OperandLayout::kFP16Panels},
                      Shape{64, 9, OperandLayout::kBF16Panels}, Shape{9000, 5, OperandLayout::kFP16Panels},
                      Shape{5120, 3, OperandLayout::kFP32Rows}, Shape{70, 33, OperandLayout::kBF16Rows}));

TEST_F(GpuTest, NormOfATokenDoesNotDependOnItsNeighbours) {
  constexpr int kHidden = 5120;
  const std::vector<float> x = random_floats(kHidden * 16, 1.0, 5);
  const std::vector<float> gain = random_floats(kHidden, 1.0, 6);
  const DeviceBuffer gain_device = on_device(gain);
  const auto run = [&](int first, int tokens) {
    const std::vector<float> part(x.begin() + first * kHidden, x.begin() + (first + tokens) * kHidden);
    const DeviceBuffer x_device = on_device(part);
    PoisonedBuffer normed(part.size() * sizeof(float));
    const int width = operand_width(tokens);
    PoisonedBuffer out(static_cast<std::size_t>(operand_bytes(OperandLayout::kFP16Panels, kHidden, width)));
    launch_residual_norm({.tokens = tokens,
                          .hidden = kHidden,
                          .eps = 1e-6F,
                          .x = x_device.as<float>(),
                          .gain = gain_device.as<float>(),
                          .out = {.layout = OperandLayout::kFP16Panels,
                                  .width = width,
                                  .columns = kHidden,
                                  .exponent = 4,
                                  .data = out.data()},
                          .normed = normed.as<float>()},
                         {});
    synchronize();
    return normed.read<float>();
  };
  const std::vector<float> together = run(0, 16);
  for (int token = 0; token < 16; ++token) {
    const std::vector<float> alone = run(token, 1);
    ASSERT_EQ(0, std::memcmp(alone.data(), together.data() + token * kHidden, kHidden * sizeof(float))) << token;
  }
}

class ActivationTest : public GpuTest, public ::testing::WithParamInterface<Shape> {};

TEST_P(ActivationTest, EqualsDoublePrecision) {
  const auto [size, tokens, layout] = GetParam();
  const int width = width_of(layout, tokens);
  const bool panels = layout == OperandLayout::kFP16Panels || layout == OperandLayout::kBF16Panels;
  const MadeUpResult gate_up = made_up_result(2 * size, tokens, panels ? width : 0, 1000, 132, 0.5F, 7);
  PoisonedBuffer out(static_cast<std::size_t>(operand_bytes(layout, size, width)));
  const Operand operand{.layout = layout, .width = width, .columns = size, .data = out.data()};
  launch_mlp_activation(gate_up.result, tokens, size, operand, {});
  synchronize();
  std::vector<std::vector<double>> expected;
  for (int token = 0; token < tokens; ++token) {
    std::vector<double>& row = expected.emplace_back();
    for (int column = 0; column < size; ++column) {
      const double gate = gate_up.value(static_cast<int>(gate_place(column)), token);
      row.push_back(gate / (1 + std::exp(-gate)) * gate_up.value(static_cast<int>(up_place(column, size)), token));
    }
  }
  expect_operand(operand, out, expected);
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, ActivationTest,
    ::testing::Values(Shape{17408, 1, OperandLayout::kFP16Panels}, Shape{17408, 16, OperandLayout::kFP16Panels},
                      Shape{3584, 32, OperandLayout::kBF16Panels}, Shape{100, 5, OperandLayout::kFP16Panels},
                      Shape{62, 12, OperandLayout::kFP16Panels}, Shape{100, 5, OperandLayout::kFP32Rows},
                      Shape{640, 70, OperandLayout::kBF16Rows}));

class LogitsTest : public GpuTest, public ::testing::WithParamInterface<int> {};

TEST_P(LogitsTest, FindTheLowestOfTheLargest) {
  const int tokens = GetParam();
  constexpr int kVocab = 5001;
  const int width = operand_width(tokens);
  MadeUpResult head = made_up_result(kVocab, tokens, width, 64, 132, 1.0F, 8);
  PoisonedBuffer logits(static_cast<std::size_t>(kVocab * tokens) * sizeof(float));
  PoisonedBuffer keys(sizeof(RoundKeys));
  RoundOutcome* outcome = nullptr;
  check_cuda(cudaHostAlloc(reinterpret_cast<void**>(&outcome), sizeof(RoundOutcome), cudaHostAllocMapped), "host");
  // A tie of the largest in token 0: its columns 4000 and 123 get the same value, 123 must win.
  std::vector<float> memory(head.memory.bytes() / sizeof(float));
  copy_to_host(std::as_writable_bytes(std::span(memory)), head.memory.data());
  memory[static_cast<std::size_t>(plane_place(width, 4000, 0))] = 50.0F;
  memory[static_cast<std::size_t>(plane_place(width, 123, 0))] = 50.0F;
  copy_to_device(head.memory, std::span<const float>(memory));
  launch_empty_keys(keys.as<RoundKeys>(), {});
  launch_logits(head.result, tokens, logits.as<float>(), keys.as<RoundKeys>(), {});
  launch_end_round(keys.as<RoundKeys>(), tokens, outcome, {});
  synchronize();
  const std::vector<float> got = logits.read<float>();
  EXPECT_EQ(outcome->best[0], 123);
  for (int token = 0; token < tokens; ++token) {
    const auto row = got.begin() + static_cast<std::ptrdiff_t>(token) * kVocab;
    EXPECT_EQ(outcome->best[token], std::max_element(row, row + kVocab) - row) << "token " << token;
    EXPECT_EQ(outcome->fault[token], 0);
    for (int id = 0; id < kVocab; ++id)
      if (token != 0 || (id != 4000 && id != 123)) {
        ASSERT_NEAR(row[id], head.value(id, token), 1e-5);
      }
  }
  EXPECT_TRUE(logits.canaries_intact());
  EXPECT_TRUE(keys.canaries_intact());

  // One logit that is not finite is reported, of its own token.
  memory[static_cast<std::size_t>(plane_place(width, 77, tokens - 1))] = NAN;
  copy_to_device(head.memory, std::span<const float>(memory));
  launch_empty_keys(keys.as<RoundKeys>(), {});
  launch_logits(head.result, tokens, logits.as<float>(), keys.as<RoundKeys>(), {});
  launch_end_round(keys.as<RoundKeys>(), tokens, outcome, {});
  synchronize();
  for (int token = 0; token < tokens; ++token) EXPECT_EQ(outcome->fault[token], token == tokens - 1 ? 1 : 0);
  check_cuda(cudaFreeHost(outcome), "cudaFreeHost");
}

INSTANTIATE_TEST_SUITE_P(Tokens, LogitsTest, ::testing::Values(1, 2, 9, 16, 31));

TEST_F(GpuTest, ARoundBeginsWithItsTokens) {
  constexpr int kHidden = 200;
  constexpr int kTokens = 5;
  Philox random(9);
  std::vector<std::uint16_t> embedding(50 * kHidden);
  for (std::uint16_t& bits : embedding) bits = float_to_bfloat16(static_cast<float>(random.normal()));
  const DeviceBuffer table = on_device(embedding);
  RoundControl* host = nullptr;
  check_cuda(cudaHostAlloc(reinterpret_cast<void**>(&host), sizeof(RoundControl), cudaHostAllocMapped), "host");
  *host = RoundControl{};
  for (int token = 0; token < kTokens; ++token) host->tokens[token] = 7 * token + 3;
  host->frontier = 12345;
  host->pending = 4;
  host->half = 1;
  PoisonedBuffer control(sizeof(RoundControl));
  PoisonedBuffer keys(sizeof(RoundKeys));
  PoisonedBuffer x(kTokens * kHidden * sizeof(float));
  launch_begin_round(host, control.as<RoundControl>(), keys.as<RoundKeys>(), table.as<std::uint16_t>(), kHidden,
                     kTokens, x.as<float>(), {});
  synchronize();
  const RoundControl copied = control.read<RoundControl>().front();
  EXPECT_EQ(std::memcmp(&copied, host, sizeof copied), 0);
  EXPECT_EQ(keys.read<RoundKeys>().front().best[31], 0U);
  const std::vector<float> rows = x.read<float>();
  for (int token = 0; token < kTokens; ++token)
    for (int column = 0; column < kHidden; ++column)
      ASSERT_EQ(rows[static_cast<std::size_t>(token * kHidden + column)],
                bfloat16_to_float(embedding[static_cast<std::size_t>((7 * token + 3) * kHidden + column)]));
  EXPECT_TRUE(x.canaries_intact());
  check_cuda(cudaFreeHost(host), "cudaFreeHost");
}

}  // namespace
}  // namespace tare::engine::test
