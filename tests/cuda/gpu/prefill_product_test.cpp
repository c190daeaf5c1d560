// Weights widened to BF16 against the scalar definitions, bit by bit, and prefill products against double precision on
// the widened numbers.
#include "engine/cuda/product/prefill_product.h"

#include <optional>
#include <vector>

#include "base/error.h"
#include "engine/backend/options.h"
#include "engine/cuda/product/widen.h"
#include "tests/cuda/gpu/sanitized.h"
#include "tests/cuda/gpu/weight_fixture.h"

namespace tare::engine {
namespace {

using test::kAllCodecs;

// FP32 sums of exact products, in cuBLAS's order.
constexpr double kErrorBound = 0x1p-20;

std::vector<std::uint16_t> random_bfloat16(std::size_t count, std::uint64_t seed) {
  std::vector<std::uint16_t> bits;
  for (const float value : test::random_numbers(count, seed)) bits.push_back(float_to_bfloat16(value));
  return bits;
}
std::vector<float> as_floats(const std::vector<std::uint16_t>& bits) {
  std::vector<float> values;
  for (const std::uint16_t number : bits) values.push_back(bfloat16_to_float(number));
  return values;
}
Operand rows_operand(const DeviceBuffer& memory, std::int64_t columns, int tokens) {
  return {
      .layout = OperandLayout::kBF16Rows, .width = tokens, .columns = columns, .exponent = 0, .data = memory.data()};
}

struct Shape {
  std::int64_t rows;
  std::int64_t columns;
  int tokens;
};
constexpr Shape kShapes[] = {{1, 64, 1}, {70, 100, 5}, {256, 128, 16}, {300, 1000, 33}, {1000, 1029, 130}};

class PrefillProduct : public test::GpuTest {
 protected:
  static constexpr std::size_t kScratchBytes = std::size_t{2} << 20;  // several parts for the larger shapes
  void SetUp() override {
    test::GpuTest::SetUp();
    if (IsSkipped()) return;
    try {
      products_.emplace(kScratchBytes);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kEnvironment) throw;
      GTEST_SKIP() << error.what();
    }
  }
  std::vector<float> multiply(const test::TestWeights& weights, const DeviceBuffer& x, int tokens) {
    test::PoisonedBuffer y(static_cast<std::size_t>(weights.rows() * tokens) * sizeof(float));
    const ProductResult result =
        products_->multiply(weights.matrix(), rows_operand(x, weights.columns(), tokens), tokens, y.as<float>(), {});
    test::synchronize();
    EXPECT_TRUE(y.canaries_intact());
    EXPECT_FALSE(result.planes);
    EXPECT_EQ(result.rows, weights.rows());
    EXPECT_EQ(result.factor, 1.0F);
    return y.read<float>();
  }

  std::optional<PrefillProducts> products_;
};

test::WorstError worst_error(const test::TestWeights& weights, const std::vector<float>& x, const std::vector<float>& y,
                             int tokens) {
  test::WorstError error;
  const std::int64_t step = weights.rows() > 300 ? 7 : 1;
  for (std::int64_t row = 0; row < weights.rows(); row += step) {
    for (int token = 0; token < tokens; ++token) {
      error.compare(y[static_cast<std::size_t>(token * weights.rows() + row)],
                    weights.dot_of_widened(row, x.data() + token * weights.columns()), row, token);
    }
  }
  return error;
}

TEST_F(PrefillProduct, IsTheSumOverWeightsRoundedToBFloat16) {
  // The last shape has the most tokens, and the library's kernels know nothing of codecs.
  const std::size_t shapes = test::amount("shapes", std::size(kShapes), std::size(kShapes), std::size(kShapes) - 1);
  for (const WeightCodec codec : kAllCodecs) {
    for (const Shape& shape :
         std::span(kShapes).first(codec.format == WeightFormat::kQ4 ? std::size(kShapes) : shapes)) {
      const test::TestWeights weights(codec, shape.rows, shape.columns, 51);
      const auto bits = random_bfloat16(static_cast<std::size_t>(shape.columns * shape.tokens), 52);
      const DeviceBuffer x = test::on_device(bits);
      const test::WorstError error =
          worst_error(weights, as_floats(bits), multiply(weights, x, shape.tokens), shape.tokens);
      ASSERT_LE(error.worst(), kErrorBound)
          << test::to_text(codec) << " " << shape.rows << "x" << shape.columns << " " << error.where();
    }
  }
}

TEST_F(PrefillProduct, AChangedCodeIsSeen) {
  for (const WeightCodec codec : kAllCodecs) {
    test::TestWeights weights(codec, 300, 1000, 53);
    const auto bits = random_bfloat16(1000, 54);
    const DeviceBuffer x = test::on_device(bits);
    weights.spoil(299, 999);
    const test::WorstError error = worst_error(weights, as_floats(bits), multiply(weights, x, 1), 1);
    EXPECT_GT(error.worst(), 4 * kErrorBound) << test::to_text(codec);
    EXPECT_EQ(error.where().rfind("row 299", 0), 0U) << error.where();
  }
}

TEST_F(PrefillProduct, TakesPlainRows) {
  constexpr int kRows = 48;
  constexpr int kTokens = 20;
  for (const std::int64_t columns : {1000, 77}) {
    const test::TestSideRows side(kRows, columns, 55);
    const auto bits = random_bfloat16(static_cast<std::size_t>(columns * kTokens), 56);
    const DeviceBuffer x = test::on_device(bits);
    test::PoisonedBuffer y(std::size_t{kRows} * kTokens * sizeof(float));
    (void)products_->multiply(side.memory.as<std::uint16_t>(), kRows, columns, rows_operand(x, columns, kTokens),
                              kTokens, y.as<float>(), {});
    test::synchronize();
    EXPECT_TRUE(y.canaries_intact());
    const std::vector<float> values = y.read<float>();
    const std::vector<float> numbers = as_floats(bits);
    test::WorstError error;
    for (int token = 0; token < kTokens; ++token) {
      for (int row = 0; row < kRows; ++row) {
        error.compare(values[static_cast<std::size_t>(token * kRows + row)],
                      side.dot(row, numbers.data() + token * columns), row, token);
      }
    }
    EXPECT_LE(error.worst(), kErrorBound) << error.where();
  }
}

TEST_F(PrefillProduct, SaysWhatItLaunchedInEqualParts) {
  const test::TestWeights weights(WeightFormat::kQ4, 1000, 1029, 57);  // 4 row blocks, of which the scratch holds 3
  const DeviceBuffer x = test::on_device(random_bfloat16(1029, 58));
  const DeviceBuffer y(1000 * sizeof(float), "a test's result");
  std::vector<LaunchRecord> records;
  (void)products_->multiply(weights.matrix(), rows_operand(x, 1029, 1), 1, y.as<float>(),
                            {.records = &records, .part = "some.weight"});
  test::synchronize();
  ASSERT_EQ(records.size(), 4U);
  EXPECT_EQ(records[0].name, "widen");
  EXPECT_EQ(records[0].part, "some.weight");
  EXPECT_EQ(records[0].bytes, tile_bytes(WeightFormat::kQ4, 512, 1029) + 512U * 1032 * 2);
  EXPECT_EQ(records[1].name, "cublas_gemm");
  EXPECT_EQ(records[1].bytes, (512U + 1) * 1029 * 2 + 512U * 4);
  EXPECT_EQ(records[3].bytes, (488U + 1) * 1029 * 2 + 488U * 4);
}

TEST_F(PrefillProduct, RefusesAMatrixItsScratchCannotTakeOneRowBlockOf) {
  PrefillProducts small(1000);
  const test::TestWeights weights(WeightFormat::kQ4, 20, 64, 59);
  const DeviceBuffer x = test::on_device(random_bfloat16(64, 60));
  const DeviceBuffer y(20 * sizeof(float), "a test's result");
  EXPECT_THROW((void)small.multiply(weights.matrix(), rows_operand(x, 64, 1), 1, y.as<float>(), {}), Error);
}

class Widen : public test::GpuTest {};

TEST_F(Widen, GivesTheNearestBFloat16OfEveryWeight) {
  for (const WeightCodec codec : kAllCodecs) {
    for (const Shape& shape : kShapes) {
      const test::TestWeights weights(codec, shape.rows, shape.columns, 61);
      const int stride = widened_stride(shape.columns);
      const std::int64_t first_row = shape.rows > 256 ? 256 : 0;  // the second row block on its own
      const std::int64_t rows = shape.rows - first_row;
      test::PoisonedBuffer out(static_cast<std::size_t>(rows * stride) * sizeof(std::uint16_t));
      launch_widen(weights.matrix(), first_row, rows, out.as<std::uint16_t>(), {});
      test::synchronize();
      ASSERT_TRUE(out.canaries_intact());
      const std::vector<std::uint16_t> numbers = out.read<std::uint16_t>();
      for (std::int64_t row = 0; row < rows; ++row) {
        for (std::int64_t column = 0; column < stride; ++column) {
          const std::uint16_t got = numbers[static_cast<std::size_t>(row * stride + column)];
          if (column >= shape.columns) {
            ASSERT_EQ(got & 0x7FFFU, 0U) << "padding";
            continue;
          }
          ASSERT_EQ(got, weights.widened(first_row + row, column))
              << test::to_text(codec) << " " << shape.rows << "x" << shape.columns << " row " << row << " column "
              << column;
        }
      }
    }
  }
}

}  // namespace
}  // namespace tare::engine
