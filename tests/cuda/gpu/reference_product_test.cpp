// The FP32 product of every format against double precision on the numbers it represents.
#include <vector>

#include "engine/backend/options.h"
#include "engine/cuda/product/product.h"
#include "tests/cuda/gpu/sanitized.h"
#include "tests/cuda/gpu/weight_fixture.h"

namespace tare::engine {
namespace {

using test::kAllCodecs;

// FP32 sums in 8 warps of 4 lanes: each adds K / 32 products, 2^-24 an addition at most and far less together. E4M3
// codes under E4M3 scales differ so much that a few are all of the sum; then the dozen last additions count.
constexpr double kLeastError = 0x1p-23;
double error_bound(std::int64_t columns) {
  return kLeastError * (1.5 + std::sqrt(static_cast<double>(columns) / 32) / 16);
}

struct Result {
  std::vector<float> y;
  std::vector<float> side;
  bool canaries = false;
};

Result multiply(const test::TestWeights& weights, const test::TestSideRows& side, const std::vector<float>& x,
                int tokens) {
  const DeviceBuffer x_memory = test::on_device(x);
  test::PoisonedBuffer y(static_cast<std::size_t>(weights.rows() * tokens) * sizeof(float));
  test::PoisonedBuffer side_out(static_cast<std::size_t>(side.rows * tokens) * sizeof(float));
  const Operand operand{.layout = OperandLayout::kFP32Rows,
                        .width = tokens,
                        .columns = weights.columns(),
                        .exponent = 0,
                        .data = x_memory.data()};
  const ProductResult result =
      launch_reference_product(weights.matrix(), operand, side.view(side_out.as<float>()), y.as<float>(), {});
  test::synchronize();
  EXPECT_FALSE(result.planes);
  EXPECT_EQ(result.rows, weights.rows());
  EXPECT_EQ(result.factor, 1.0F);
  EXPECT_EQ(result.data, y.as<float>());
  return {y.read<float>(), side_out.read<float>(), y.canaries_intact() && side_out.canaries_intact()};
}

test::WorstError worst_error(const test::TestWeights& weights, const std::vector<float>& x, const Result& result,
                             int tokens, std::int64_t row_step) {
  test::WorstError error;
  for (std::int64_t row = 0; row < weights.rows(); row += row_step) {
    for (int token = 0; token < tokens; ++token) {
      const auto place = static_cast<std::size_t>(token * weights.rows() + row);
      error.compare(result.y[place], weights.dot(row, x.data() + token * weights.columns()), row, token);
    }
  }
  return error;
}

struct Shape {
  std::int64_t rows;
  std::int64_t columns;
  int side_rows;
  std::int64_t row_step;  // compared rows
};
constexpr Shape kShapes[] = {
    {1, 64, 1, 1}, {70, 100, 3, 1}, {256, 128, 16, 1}, {300, 1000, 0, 1}, {1000, 5120, 96, 37}};

class ReferenceProduct : public test::GpuTest {};

TEST_F(ReferenceProduct, IsTheSumOverRepresentedNumbers) {
  for (const WeightCodec codec : kAllCodecs) {
    std::size_t turn = 0;
    for (const Shape& shape : kShapes) {
      const test::TestWeights weights(codec, shape.rows, shape.columns, 11);
      const test::TestSideRows side(shape.side_rows, shape.columns, 12);
      for (const int tokens : test::in_turn("token counts", {1, 5, 8, 9, 33}, 5, turn++)) {
        const auto x = test::random_numbers(static_cast<std::size_t>(shape.columns * tokens), 13);
        const Result result = multiply(weights, side, x, tokens);
        ASSERT_TRUE(result.canaries);
        const test::WorstError error = worst_error(weights, x, result, tokens, shape.row_step);
        ASSERT_LE(error.worst(), error_bound(shape.columns))
            << test::to_text(codec) << " " << shape.rows << "x" << shape.columns << " T=" << tokens << " "
            << error.where();
        test::WorstError side_error;
        for (int row = 0; row < shape.side_rows; ++row) {
          for (int token = 0; token < tokens; ++token) {
            const auto place = static_cast<std::size_t>(token * shape.side_rows + row);
            side_error.compare(result.side[place], side.dot(row, x.data() + token * shape.columns), row, token);
          }
        }
        ASSERT_LE(side_error.worst(), error_bound(shape.columns)) << "side rows " << side_error.where();
      }
    }
  }
}

TEST_F(ReferenceProduct, GivesATokenTheSameBitsAmongAnyNumberOfTokens) {
  constexpr int kMost = 40;
  for (const WeightCodec codec : kAllCodecs) {
    const test::TestWeights weights(codec, 300, 1000, 21);
    const test::TestSideRows side(7, 1000, 22);
    const auto x = test::random_numbers(std::size_t{1000} * kMost, 23);
    const Result all = multiply(weights, side, x, kMost);
    for (const int tokens : {1, 2, 8, 17}) {
      const Result some = multiply(weights, side, {x.begin(), x.begin() + tokens * 1000}, tokens);
      EXPECT_TRUE(std::equal(some.y.begin(), some.y.end(), all.y.begin())) << test::to_text(codec) << " T=" << tokens;
      EXPECT_TRUE(std::equal(some.side.begin(), some.side.end(), all.side.begin()));
    }
  }
}

TEST_F(ReferenceProduct, AChangedCodeIsSeen) {
  for (const WeightCodec codec : kAllCodecs) {
    test::TestWeights weights(codec, 300, 1000, 31);
    const test::TestSideRows side(0, 1000, 32);
    const auto x = test::random_numbers(1000, 33);
    weights.spoil(299, 999);
    const test::WorstError error = worst_error(weights, x, multiply(weights, side, x, 1), 1, 1);
    EXPECT_GT(error.worst(), 4 * error_bound(1000)) << test::to_text(codec);
    EXPECT_EQ(error.where().rfind("row 299", 0), 0U) << error.where();
  }
}

TEST_F(ReferenceProduct, ColumnsPastTheLastAreNotRead) {
  // The row after the last token is NaN: 100 columns leave 28 padded ones of its group, whose weights are zero.
  const test::TestWeights weights(WeightFormat::kQ4, 20, 100, 41);
  const test::TestSideRows side(0, 100, 42);
  auto x = test::random_numbers(100, 43);
  x.resize(200, NAN);
  const Result result = multiply(weights, side, x, 1);
  for (const float value : result.y) EXPECT_TRUE(std::isfinite(value));
}

}  // namespace
}  // namespace tare::engine
