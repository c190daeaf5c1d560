// The product of a round in every format and width, from real operands to values read through product_value, against
// double precision on the represented numbers.
#include <cstdio>
#include <vector>

#include "engine/backend/options.h"
#include "engine/cuda/product/operand.cuh"
#include "engine/cuda/product/product.h"
#include "engine/cuda/product/product_result.cuh"
#include "tests/cuda/gpu/sanitized.h"
#include "tests/cuda/gpu/weight_fixture.h"

namespace tare::engine {
namespace {

using test::kAllCodecs;

constexpr int kExponent = 5;  // of FP16 operands

// Sums of a group start at the bias and run through four matrix instructions, groups and planes are added in FP32: each
// addition is wrong by 2^-23 of what is there at most (tensor cores truncate), and the errors' signs differ.
constexpr double kLeastError = 0x1p-23;
double error_bound(std::int64_t columns) {
  return kLeastError * (2 + std::sqrt(static_cast<double>(columns) / kOperandGroup) / 8);
}

// A thread block a group, a warp a token.
__global__ void operand_kernel(const float* x, int tokens, const __grid_constant__ Operand operand) {
  const auto token = static_cast<int>(threadIdx.x / 32);
  const auto column = static_cast<int>(blockIdx.x * kOperandGroup + threadIdx.x % 32 * 2);
  const auto at = [&](int index) {
    return token < tokens && index < operand.columns ? x[static_cast<std::int64_t>(token) * operand.columns + index]
                                                     : 0.0F;
  };
  store_group(operand, static_cast<int>(blockIdx.x), token, {at(column), at(column + 1)});
}
// y: [width][rows]. A thread block a token.
__global__ void read_kernel(const __grid_constant__ ProductResult result, float* y) {
  for (auto row = static_cast<int>(threadIdx.x); row < result.rows; row += static_cast<int>(blockDim.x)) {
    y[static_cast<std::int64_t>(blockIdx.x) * result.rows + row] =
        product_value(result, row, static_cast<int>(blockIdx.x));
  }
}

struct Result {
  std::vector<float> y;     // [width][rows]
  std::vector<float> side;  // [width][side rows]
  bool canaries = false;
};

Result multiply(const test::TestWeights& weights, const test::TestSideRows& side, const std::vector<float>& x,
                int tokens, int blocks) {
  const bool bfloat16 = weights.matrix().format == WeightFormat::kBF16;
  const int width = operand_width(tokens);
  const OperandLayout layout = bfloat16 ? OperandLayout::kBF16Panels : OperandLayout::kFP16Panels;
  const DeviceBuffer x_memory = test::on_device(x);
  test::PoisonedBuffer operand_memory(static_cast<std::size_t>(operand_bytes(layout, weights.columns(), width)));
  const Operand operand{.layout = layout,
                        .width = width,
                        .columns = weights.columns(),
                        .exponent = bfloat16 ? 0 : kExponent,
                        .data = operand_memory.data()};
  operand_kernel<<<static_cast<unsigned>(operand_blocks(weights.columns())), static_cast<unsigned>(32 * width)>>>(
      x_memory.as<float>(), tokens, operand);
  const ProductSettings settings{.blocks = blocks};
  test::PoisonedBuffer planes(
      static_cast<std::size_t>(product_plane_floats(weights.matrix(), settings, width, side.rows)) * sizeof(float));
  test::PoisonedBuffer side_out(static_cast<std::size_t>(side.rows * width) * sizeof(float));
  const ProductResult result =
      launch_product(weights.matrix(), operand, side.view(side_out.as<float>()), planes.as<float>(), settings, {});
  test::PoisonedBuffer y(static_cast<std::size_t>(weights.rows() * width) * sizeof(float));
  read_kernel<<<static_cast<unsigned>(width), 256>>>(result, y.as<float>());
  test::synchronize();
  return {y.read<float>(), side_out.read<float>(),
          planes.canaries_intact() && side_out.canaries_intact() && operand_memory.canaries_intact()};
}

// Activations as they enter the matrix instruction: rounded to BF16.
std::vector<float> represented(const std::vector<float>& x) {
  std::vector<float> numbers;
  for (const float value : x) numbers.push_back(round_to_bfloat16(value));
  return numbers;
}

test::WorstError worst_error(const test::TestWeights& weights, const std::vector<float>& numbers, const Result& result,
                             int tokens, std::int64_t row_step) {
  test::WorstError error;
  for (std::int64_t row = 0; row < weights.rows(); row += row_step) {
    for (int token = 0; token < tokens; ++token) {
      error.compare(result.y[static_cast<std::size_t>(token * weights.rows() + row)],
                    weights.dot(row, numbers.data() + token * weights.columns()), row, token);
    }
  }
  return error;
}

struct Shape {
  std::int64_t rows;
  std::int64_t columns;
  int blocks;
  int side_rows;
  std::int64_t row_step;  // compared rows
};
// Few blocks make long runs, in which rings go round many times and row blocks end amid a run.
constexpr Shape kShapes[] = {{1, 64, 132, 1, 1},        {70, 100, 132, 3, 1},  {256, 128, 1, 16, 1},
                             {300, 1000, 132, 0, 1},    {300, 1000, 1, 96, 1}, {700, 1000, 5, 17, 3},
                             {1000, 5120, 132, 96, 23}, {1000, 5120, 7, 0, 23}};

class ProductFormats : public test::HopperTest {};

TEST_F(ProductFormats, AreTheSumsOverRepresentedNumbers) {
  for (const WeightCodec codec : kAllCodecs) {
    double worst = 0;
    std::size_t turn = 0;
    for (const Shape& shape : kShapes) {
      const test::TestWeights weights(codec, shape.rows, shape.columns, 71);
      const test::TestSideRows side(shape.side_rows, shape.columns, 72);
      for (const int tokens : test::in_turn("token counts", {1, 8, 9, 32, 5, 16, 17}, 3, turn++)) {
        const auto x = test::random_numbers(static_cast<std::size_t>(shape.columns * tokens), 73);
        const std::vector<float> numbers = represented(x);
        const Result result = multiply(weights, side, x, tokens, shape.blocks);
        const std::string what = test::to_text(codec) + " " + std::to_string(shape.rows) + "x" +
                                 std::to_string(shape.columns) + " T=" + std::to_string(tokens) + " blocks " +
                                 std::to_string(shape.blocks) + " ";
        ASSERT_TRUE(result.canaries) << what;
        const test::WorstError error = worst_error(weights, numbers, result, tokens, shape.row_step);
        ASSERT_LE(error.worst(), error_bound(shape.columns)) << what << error.where();
        worst = std::max(worst, error.worst());
        for (int token = tokens; token < operand_width(tokens); ++token) {
          for (std::int64_t row = 0; row < shape.rows; ++row) {
            ASSERT_EQ(result.y[static_cast<std::size_t>(token * shape.rows + row)], 0.0F) << what << "padded token";
          }
        }
        test::WorstError side_error;
        for (int row = 0; row < shape.side_rows; ++row) {
          for (int token = 0; token < operand_width(tokens); ++token) {
            const float value = result.side[static_cast<std::size_t>(token * shape.side_rows + row)];
            if (token >= tokens) {
              ASSERT_EQ(value, 0.0F) << what << "side rows, padded token";
              continue;
            }
            side_error.compare(value, side.dot(row, numbers.data() + token * shape.columns), row, token);
          }
        }
        ASSERT_LE(side_error.worst(), error_bound(shape.columns)) << what << "side rows " << side_error.where();
      }
    }
    std::printf("%s: worst error %.2e of the magnitudes' sum\n", test::to_text(codec).c_str(), worst);
  }
}

TEST_F(ProductFormats, GiveATokenTheSameBitsAmongAnyNumberOfTokensAndInEveryRun) {
  constexpr int kMost = 32;
  constexpr std::int64_t kRows = 300;
  constexpr std::int64_t kColumns = 3000;
  for (const WeightCodec codec : kAllCodecs) {
    for (const int blocks : {132, 5}) {
      const test::TestWeights weights(codec, kRows, kColumns, 81);
      const test::TestSideRows side(20, kColumns, 82);
      const auto x = test::random_numbers(static_cast<std::size_t>(kColumns * kMost), 83);
      const Result all = multiply(weights, side, x, kMost, blocks);
      for (const int tokens : test::some("token counts", {1, 8, 9, 32, 17, 5, 16}, 3, 2)) {
        const Result some = multiply(weights, side, {x.begin(), x.begin() + tokens * kColumns}, tokens, blocks);
        EXPECT_TRUE(std::equal(some.y.begin(), some.y.begin() + tokens * kRows, all.y.begin()))
            << test::to_text(codec) << " T=" << tokens << " blocks " << blocks;
        EXPECT_TRUE(std::equal(some.side.begin(), some.side.begin() + tokens * 20, all.side.begin()))
            << test::to_text(codec) << " T=" << tokens << " side rows";
      }
    }
  }
}

TEST_F(ProductFormats, AChangedCodeIsSeen) {
  for (const WeightCodec codec : kAllCodecs) {
    for (const std::int64_t column : {0, 999}) {
      test::TestWeights weights(codec, 300, 1000, 91);
      const test::TestSideRows side(0, 1000, 92);
      const auto x = test::random_numbers(1000, 93);
      weights.spoil(299, column);
      const test::WorstError error = worst_error(weights, represented(x), multiply(weights, side, x, 1, 132), 1, 1);
      EXPECT_GT(error.worst(), 4 * error_bound(1000)) << test::to_text(codec);
      EXPECT_EQ(error.where().rfind("row 299", 0), 0U) << error.where();
    }
  }
}

// Every byte that an E4M3 scale can be: NaN reaches the rows that have it, and no other row.
TEST_F(ProductFormats, TakeEveryScaleByte) {
  constexpr std::int64_t kRows = 300;
  constexpr std::int64_t kColumns = 128;
  for (const WeightCodec codec : kAllCodecs) {
    if (!has_tensor_scale(codec)) continue;
    const test::TestWeights weights(codec, kRows, kColumns, 101, test::ScaleBytes::kAll);
    const test::TestSideRows side(0, kColumns, 102);
    const auto x = test::random_numbers(static_cast<std::size_t>(kColumns * 9), 103);
    const std::vector<float> numbers = represented(x);
    const Result result = multiply(weights, side, x, 9, 132);
    int not_finite = 0;
    for (std::int64_t row = 0; row < kRows; ++row) {
      for (int token = 0; token < 9; ++token) {
        const float y = result.y[static_cast<std::size_t>(token * kRows + row)];
        const test::Dot dot = weights.dot(row, numbers.data() + token * kColumns);
        ASSERT_EQ(std::isnan(y), std::isnan(dot.value)) << test::to_text(codec) << " row " << row;
        not_finite += std::isnan(y) ? 1 : 0;
        if (std::isnan(y)) continue;
        ASSERT_LE(std::fabs(static_cast<double>(y) - dot.value), error_bound(kColumns) * dot.magnitude)
            << test::to_text(codec) << " row " << row << " token " << token;
      }
    }
    EXPECT_GT(not_finite, 0);
  }
}

TEST_F(ProductFormats, AChangedRowScaleIsSeen) {
  for (const WeightCodec codec : kAllCodecs) {
    if (!has_tensor_scale(codec)) continue;
    test::TestWeights weights(codec, 300, 1000, 104);
    const test::TestSideRows side(0, 1000, 105);
    const auto x = test::random_numbers(1000, 106);
    weights.spoil_row_scale(263);
    const test::WorstError error = worst_error(weights, represented(x), multiply(weights, side, x, 1, 132), 1, 1);
    EXPECT_GT(error.worst(), 4 * error_bound(1000)) << test::to_text(codec);
    EXPECT_EQ(error.where().rfind("row 263", 0), 0U) << error.where();
  }
}

// A fault in one token's activations must reach that token's result, and no other's.
TEST_F(ProductFormats, CarryWhatIsNotFiniteToItsTokenAlone) {
  for (const WeightCodec codec : kAllCodecs) {
    const test::TestWeights weights(codec, 300, 1000, 94);
    const test::TestSideRows side(3, 1000, 95);
    auto x = test::random_numbers(5000, 96);
    x[2 * 1000 + 500] = NAN;
    const Result result = multiply(weights, side, x, 5, 132);
    for (int token = 0; token < 5; ++token) {
      for (int row = 0; row < 300; ++row) {
        ASSERT_EQ(std::isnan(result.y[static_cast<std::size_t>(token * 300 + row)]), token == 2)
            << test::to_text(codec) << " row " << row << " token " << token;
      }
      for (int row = 0; row < 3; ++row) {
        ASSERT_EQ(std::isnan(result.side[static_cast<std::size_t>(token * 3 + row)]), token == 2);
      }
    }
  }
}

TEST_F(ProductFormats, AreTheSumsOfTheLargestLayer) {
  constexpr std::int64_t kRows = 5120;
  constexpr std::int64_t kColumns = 17408;
  const test::TestWeights weights(WeightFormat::kQ3, kRows, kColumns, 97);
  const test::TestSideRows side(0, kColumns, 98);
  for (const int tokens : test::some("token counts", {8, 16}, 2, 1)) {
    const auto x = test::random_numbers(static_cast<std::size_t>(kColumns * tokens), 99);
    const test::WorstError error =
        worst_error(weights, represented(x), multiply(weights, side, x, tokens, 132), tokens, 83);
    EXPECT_LE(error.worst(), error_bound(kColumns)) << error.where();
  }
}

}  // namespace
}  // namespace tare::engine
