// A product of gate and up rows that applies the activation itself, against double precision on the represented
// numbers, and what must not change a bit of it. Cuts are made by hand so that small matrices have every kind of part.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "base/error.h"
#include "engine/cuda/product/gate_up_rows.h"
#include "engine/cuda/product/product.h"
#include "tests/cuda/gpu/operand_panels.h"
#include "tests/cuda/gpu/operand_reading.h"
#include "tests/cuda/gpu/sanitized.h"
#include "tests/cuda/gpu/weight_fixture.h"

namespace tare::engine {
namespace {

using test::bfloat16_numbers;
using test::kAllCodecs;
using test::make_panels;
using test::PanelOperand;
using test::PoisonedBuffer;
using test::TestWeights;

constexpr int kExponent = 3;
constexpr double kSumBound = 8e-7;        // of the sum of magnitudes, as gpu_product_formats_tests allow
constexpr double kQuickSilu = 2e-6;       // relative: quick_silu.cuh
constexpr double kBFloat16 = 0x1p-8;      // half a unit of the last place
constexpr double kLeastNumber = 0x1p-24;  // FP16's subnormals, under an exponent of 0

ActivatedPlan plan_of(std::int64_t rows, std::int64_t columns, int clusters) {
  ActivatedPlan plan{.clusters = clusters,
                     .shared = {.row_blocks = static_cast<int>(unit_row_blocks(rows)) - clusters,
                                .pairs_a_row_block = static_cast<int>(unit_pairs_a_row_block(columns))}};
  plan.shared.grid = std::min(plan.shared.pairs(), plan.blocks());
  return plan;
}

struct Activated {
  Operand operand;
  std::vector<std::byte> bytes;
  bool canaries = false;
  bool counters_are_zero = false;
};

Activated activate(const TestWeights& weights, const Operand& input, const ActivatedPlan& plan, OperandLayout layout,
                   bool programmatic = false, int turns = 1, const ProductSettings& settings = {}) {
  Activated made;
  made.operand = {.layout = layout, .width = input.width, .columns = weights.rows() / 2};
  PoisonedBuffer out(static_cast<std::size_t>(operand_bytes(layout, made.operand.columns, input.width)));
  // Floats and words to spare, so that a matrix without shared row blocks has buffers too.
  PoisonedBuffer planes(static_cast<std::size_t>(activated_plane_floats(plan, input.width) + 4) * sizeof(float));
  PoisonedBuffer counters(static_cast<std::size_t>(activated_counters(plan) + 4) * sizeof(unsigned));
  fill_device(counters.data(), static_cast<std::size_t>(activated_counters(plan) + 4) * sizeof(unsigned), 0);
  made.operand.data = out.data();
  for (int turn = 0; turn < turns; ++turn) {
    launch_activated_product(weights.matrix(), input, plan, made.operand, planes.as<float>(), counters.as<unsigned>(),
                             settings, {.programmatic = programmatic});
  }
  test::synchronize();
  made.bytes = out.read<std::byte>();
  made.canaries = out.canaries_intact() && planes.canaries_intact() && counters.canaries_intact();
  made.counters_are_zero = true;
  for (const unsigned counter : counters.read<unsigned>()) made.counters_are_zero &= counter == 0;
  return made;
}

// The first number that is too far off, or nothing.
std::string first_difference(const TestWeights& weights, const std::vector<float>& x, int tokens,
                             const Activated& activated, std::int64_t step) {
  const test::ReadOperand read = test::read_operand(activated.operand, activated.bytes);
  const std::int64_t size = weights.rows() / 2;
  const auto silu = [](double value) { return value / (1 + std::exp(-value)); };
  for (int token = 0; token < activated.operand.width; ++token) {
    const std::vector<double>& row = read.tokens[static_cast<std::size_t>(token)];
    for (std::int64_t column = 0; column < std::ssize(row); column += column < size ? step : 1) {
      double want = 0;
      double allowed = 0;
      if (token < tokens && column < size) {
        const float* numbers = x.data() + token * weights.columns();
        const auto gate = weights.dot(gate_place(column), numbers);
        const auto up = weights.dot(up_place(column, size), numbers);
        want = silu(gate.value) * up.value;
        allowed =
            kSumBound * (1.1 * gate.magnitude * std::fabs(up.value) + std::fabs(silu(gate.value)) * up.magnitude) +
            (kQuickSilu + kBFloat16) * std::fabs(want) + kLeastNumber;
      }
      const double found = row[static_cast<std::size_t>(column)];
      if (!(std::fabs(found - want) <= allowed))
        return fmt::format("token {} column {}: {} for {}, {} allowed", token, column, found, want, allowed);
    }
    if (activated.operand.layout != OperandLayout::kFP16Panels) continue;
    for (std::size_t block = 0; block * kOperandGroup < row.size(); ++block) {
      double sum = 0;
      double magnitude = 0;
      for (std::size_t i = 0; i < kOperandGroup; ++i) {
        sum += row[block * kOperandGroup + i];
        magnitude += std::fabs(row[block * kOperandGroup + i]);
      }
      const double found = read.sums[static_cast<std::size_t>(token)][block];
      if (!(std::fabs(found - sum) <= 1e-6 * magnitude))
        return fmt::format("token {} block {}: the group sum is {}, of the numbers {}", token, block, found, sum);
    }
  }
  return {};
}

struct Shape {
  std::int64_t size;  // gate's rows, and up's
  std::int64_t columns;
  int clusters;
};
// A row block alone; the last one short; shared row blocks of more and of fewer pairs than
// blocks; K of an odd number of pairs, and longer than a ring.
constexpr Shape kShapes[] = {{128, 256, 1},  {352, 300, 3},   {304, 640, 2},  {640, 1000, 4},
                             {640, 1408, 2}, {1032, 2560, 8}, {128, 5120, 1}, {88, 130, 1}};

class ActivatedProduct : public test::HopperTest {};

TEST_F(ActivatedProduct, IsTheActivationOfTheRepresentedNumbersSums) {
  for (const WeightCodec codec : kAllCodecs) {
    // Tensors' scales of these weights make numbers that only BF16 holds.
    const OperandLayout out = has_tensor_scale(codec) ? OperandLayout::kBF16Panels : OperandLayout::kFP16Panels;
    const bool bfloat16 = codec.format == WeightFormat::kBF16;
    std::size_t turn = 0;
    for (const Shape& shape : kShapes) {
      const TestWeights weights(codec, 2 * shape.size, shape.columns, 5);
      const ActivatedPlan plan = plan_of(weights.rows(), shape.columns, shape.clusters);
      for (const int tokens : test::in_turn("token counts", {1, 8, 9, 32, 5, 16, 17}, 3, turn++)) {
        std::vector<float> x = bfloat16_numbers(static_cast<std::size_t>(tokens * shape.columns), 7);
        for (float& number : x) number *= 0x1p-3F;
        const PanelOperand panels = make_panels(bfloat16 ? OperandLayout::kBF16Panels : OperandLayout::kFP16Panels, x,
                                                tokens, shape.columns, operand_width(tokens), bfloat16 ? 0 : kExponent);
        const Activated activated = activate(weights, panels.operand, plan, out);
        const std::string what = fmt::format("{} {}x{} {} clusters, {} tokens", test::to_text(codec), shape.size,
                                             shape.columns, shape.clusters, tokens);
        ASSERT_TRUE(activated.canaries) << what;
        ASSERT_TRUE(activated.counters_are_zero) << what;
        const std::int64_t step = shape.size > 600 ? 7 : 3;
        ASSERT_EQ(first_difference(weights, x, tokens, activated, step), "") << what;
      }
    }
  }
}

TEST_F(ActivatedProduct, IsThatOnTheModelsShape) {
  constexpr std::int64_t kSize = 17408;
  constexpr std::int64_t kColumns = 5120;
  const TestWeights weights(WeightFormat::kQ4, 2 * kSize, kColumns, 5);
  const auto plan = activated_plan(2 * kSize, kColumns, 132);
  ASSERT_TRUE(plan.has_value());
  EXPECT_EQ(plan->shared.row_blocks, 4);
  for (const int tokens : test::some("token counts", {1, 16}, 2, 1)) {
    const std::vector<float> x = bfloat16_numbers(static_cast<std::size_t>(tokens * kColumns), 7);
    const PanelOperand panels =
        make_panels(OperandLayout::kFP16Panels, x, tokens, kColumns, operand_width(tokens), kExponent);
    const Activated activated = activate(weights, panels.operand, *plan, OperandLayout::kBF16Panels);
    EXPECT_TRUE(activated.canaries && activated.counters_are_zero);
    EXPECT_EQ(first_difference(weights, x, tokens, activated, 61), "");
  }
}

TEST_F(ActivatedProduct, OneWrongCodeIsSeen) {
  for (const std::int64_t column : {std::int64_t{3}, std::int64_t{639}}) {  // of a cluster's row block and a shared one
    TestWeights weights(WeightFormat::kQ4, 1280, 640, 5);
    weights.spoil(up_place(column, 640), 639);
    const std::vector<float> x = bfloat16_numbers(8 * 640, 7);
    const PanelOperand panels = make_panels(OperandLayout::kFP16Panels, x, 8, 640, 8, kExponent);
    const Activated activated = activate(weights, panels.operand, plan_of(1280, 640, 4), OperandLayout::kFP16Panels);
    EXPECT_NE(first_difference(weights, x, 8, activated, 1), "") << column;
  }
}

TEST_F(ActivatedProduct, ATokensBitsDependOnNothingButItsNumbers) {
  for (const Shape& shape : {Shape{640, 1408, 2}, Shape{1032, 2560, 8}}) {
    const TestWeights weights(WeightFormat::kQ4, 2 * shape.size, shape.columns, 5);
    const ActivatedPlan plan = plan_of(weights.rows(), shape.columns, shape.clusters);
    const std::vector<float> x = bfloat16_numbers(static_cast<std::size_t>(32 * shape.columns), 7);
    const auto run = [&](int tokens, int width, bool programmatic, int turns, int late_stages) {
      const PanelOperand panels = make_panels(OperandLayout::kFP16Panels, x, tokens, shape.columns, width, kExponent);
      const Activated activated = activate(weights, panels.operand, plan, OperandLayout::kFP16Panels, programmatic,
                                           turns, {.late_stages = late_stages});
      EXPECT_TRUE(activated.counters_are_zero);
      return test::read_operand(activated.operand, activated.bytes);
    };
    const test::ReadOperand whole = run(32, 32, false, 1, 0);
    for (const int tokens : test::some("token counts", {1, 9, 8, 16, 25}, 2)) {
      for (const int width : {8, 16, 32}) {
        if (width < tokens) continue;
        for (const int late_stages : {-1, 0, 1, 3}) {  // -1: a plain launch
          const bool programmatic = late_stages >= 0;
          const int turns = programmatic ? test::amount("turns of the chain", 50, 10, 2) : 1;
          const test::ReadOperand part = run(tokens, width, programmatic, turns, std::max(late_stages, 0));
          for (std::size_t token = 0; token < static_cast<std::size_t>(tokens); ++token) {
            EXPECT_EQ(part.tokens[token], whole.tokens[token]) << width << " " << tokens << " token " << token;
            EXPECT_EQ(part.sums[token], whole.sums[token]) << width << " " << tokens << " token " << token;
          }
        }
      }
    }
  }
}

TEST_F(ActivatedProduct, RefusesWhatDoesNotFit) {
  const TestWeights weights(WeightFormat::kQ4, 512, 256, 5);
  const PanelOperand panels =
      make_panels(OperandLayout::kFP16Panels, bfloat16_numbers(8 * 256, 7), 8, 256, 8, kExponent);
  EXPECT_THROW((void)activate(weights, panels.operand, plan_of(768, 256, 2), OperandLayout::kFP16Panels), Error);
  EXPECT_THROW((void)activate(weights, panels.operand, plan_of(512, 384, 2), OperandLayout::kFP16Panels), Error);
  EXPECT_THROW((void)activate(weights, panels.operand, plan_of(512, 256, 2), OperandLayout::kBF16Rows), Error);
  const TestWeights short_run(WeightFormat::kQ4, 508, 256, 5);
  EXPECT_THROW((void)activate(short_run, panels.operand, plan_of(508, 256, 2), OperandLayout::kFP16Panels), Error);
}

}  // namespace
}  // namespace tare::engine
