// The weight product of a round: q4 against double precision, side rows, and what must not change a bit of it (number
// of tokens, width, settings, programmatic launch). The other formats' numbers: product_formats_test.cu.
#include "engine/cuda/product/product.h"

#include <cuda_runtime.h>

#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "engine/cuda/device/launch.cuh"
#include "engine/cuda/device/ptx.cuh"
#include "engine/cuda/product/operand.cuh"
#include "engine/cuda/product/product_result.cuh"
#include "tests/cuda/gpu/operand_panels.h"
#include "tests/cuda/gpu/sanitized.h"
#include "tests/cuda/gpu/weight_fixture.h"

namespace tare::engine {
namespace {

using test::bfloat16_numbers;
using test::make_panels;
using test::PanelOperand;
using test::PoisonedBuffer;
using test::TestSideRows;
using test::TestWeights;
using test::WorstError;

constexpr int kExponent = 3;
// Of the sum of magnitudes: FP32 sums of a group in the matrix unit, then of the groups and planes.
constexpr double kBound = 4e-7;
constexpr int kGatherThreads = 256;

// y [tokens][rows] from what a product left, every row and token.
__global__ void gather_kernel(ProductResult result, int tokens, float* y) {
  ptx::launch_dependents();
  ptx::wait_for_preceding_grid();
  for (auto index = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x); index < result.rows * tokens;
       index += static_cast<int>(gridDim.x * blockDim.x)) {
    y[index] = product_value(result, index % result.rows, index / result.rows);
  }
}
// Writes an operand from x [tokens][columns], a warp a group.
__global__ void operand_kernel(Operand operand, const float* x, int tokens) {
  ptx::launch_dependents();
  ptx::wait_for_preceding_grid();
  const auto blocks = static_cast<int>(operand_blocks(operand.columns));
  const int column = static_cast<int>(threadIdx.x % 32) * 2;
  for (auto work = static_cast<int>((blockIdx.x * blockDim.x + threadIdx.x) / 32); work < blocks * operand.width;
       work += static_cast<int>(gridDim.x * blockDim.x / 32)) {
    const int group = work / operand.width;
    const int token = work % operand.width;
    float2 pair{0.0F, 0.0F};
    const std::int64_t first = static_cast<std::int64_t>(group) * kOperandGroup + column;
    if (token < tokens && first < operand.columns) pair.x = x[token * operand.columns + first];
    if (token < tokens && first + 1 < operand.columns) pair.y = x[token * operand.columns + first + 1];
    store_group(operand, group, token, pair);
  }
}

void gather(const ProductResult& result, int tokens, float* y, const CudaLaunch& launch) {
  launch_kernel("gather", gather_kernel, {.blocks = 64, .threads = kGatherThreads}, launch, result, tokens, y);
}

struct Product {
  std::vector<float> y;     // [tokens][rows]
  std::vector<float> side;  // [width][side rows]
  bool canaries = false;
};

Product multiply(const TestWeights& weights, const Operand& operand, int tokens, const ProductSettings& settings = {},
                 const TestSideRows* side = nullptr, bool programmatic = false) {
  const WeightMatrix matrix = weights.matrix();
  const int side_count = side == nullptr ? 0 : side->rows;
  const auto plane_bytes =
      static_cast<std::size_t>(product_plane_floats(matrix, settings, operand.width, side_count)) * 4;
  PoisonedBuffer planes(plane_bytes);
  PoisonedBuffer y(static_cast<std::size_t>(tokens * weights.rows()) * 4);
  PoisonedBuffer side_out(side == nullptr ? 16 : static_cast<std::size_t>(side->rows * operand.width) * 4);
  const SideRows side_rows = side == nullptr ? SideRows{} : side->view(side_out.as<float>());
  const CudaLaunch launch{.programmatic = programmatic};
  const ProductResult result = launch_product(matrix, operand, side_rows, planes.as<float>(), settings, launch);
  gather(result, tokens, y.as<float>(), launch);
  test::synchronize();
  EXPECT_TRUE(result.planes);
  EXPECT_EQ(result.rows, weights.rows());
  EXPECT_EQ(result.width, operand.width);
  return {.y = y.read<float>(),
          .side = side == nullptr ? std::vector<float>{} : side_out.read<float>(),
          .canaries = planes.canaries_intact() && y.canaries_intact() && side_out.canaries_intact()};
}

WorstError compare(const TestWeights& weights, const std::vector<float>& x, const Product& product, int tokens,
                   std::int64_t row_step) {
  WorstError error;
  for (std::int64_t row = 0; row < weights.rows(); row += row_step) {
    for (int token = 0; token < tokens; ++token) {
      error.compare(product.y[static_cast<std::size_t>(token * weights.rows() + row)],
                    weights.dot(row, x.data() + token * weights.columns()), row, token);
    }
  }
  return error;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b, std::size_t count) {
  return a.size() >= count && b.size() >= count && std::memcmp(a.data(), b.data(), count * sizeof(float)) == 0;
}

std::string difference(const std::vector<float>& found, const std::vector<float>& wanted) {
  std::size_t count = 0;
  std::size_t first = 0;
  for (std::size_t i = wanted.size(); i-- > 0;) {
    if (std::memcmp(&found[i], &wanted[i], sizeof(float)) == 0) continue;
    ++count;
    first = i;
  }
  if (count == 0) return {};
  return ": " + std::to_string(count) + " differ, the first at " + std::to_string(first) + ": " +
         std::to_string(found[first]) + ", wanted " + std::to_string(wanted[first]);
}

struct Shape {
  std::int64_t rows;
  std::int64_t columns;
};
constexpr Shape kOddShapes[] = {{1, 64}, {70, 100}, {256, 128}, {300, 1000}, {520, 130}, {1000, 5120}};

class GpuProduct : public test::HopperTest {};

TEST_F(GpuProduct, IsTheProductOfTheRepresentedNumbersForAnyShapeAndNumberOfTokens) {
  for (const Shape& shape : kOddShapes) {
    const TestWeights weights(WeightFormat::kQ4, shape.rows, shape.columns, 5);
    for (const int tokens : test::some("token counts", {1, 8, 9, 32, 5, 16, 17}, 3)) {
      const std::vector<float> x = bfloat16_numbers(static_cast<std::size_t>(tokens * shape.columns), 7);
      const PanelOperand panels =
          make_panels(OperandLayout::kFP16Panels, x, tokens, shape.columns, operand_width(tokens), kExponent);
      const Product product = multiply(weights, panels.operand, tokens);
      const WorstError error = compare(weights, x, product, tokens, 1);
      EXPECT_LE(error.worst(), kBound) << shape.rows << "x" << shape.columns << " T " << tokens << ", "
                                       << error.where();
      EXPECT_TRUE(product.canaries) << shape.rows << "x" << shape.columns << " T " << tokens;
    }
  }
}

TEST_F(GpuProduct, IsTheProductOnTheModelsShapes) {
  for (const Shape& shape : test::some("shapes", {Shape{16384, 5120}, Shape{5120, 17408}, Shape{5120, 6144}}, 3, 1)) {
    const TestWeights weights(WeightFormat::kQ4, shape.rows, shape.columns, 5);
    const std::vector<float> x = bfloat16_numbers(static_cast<std::size_t>(16 * shape.columns), 7);
    const PanelOperand panels = make_panels(OperandLayout::kFP16Panels, x, 16, shape.columns, 16, kExponent);
    const Product product = multiply(weights, panels.operand, 16);
    const WorstError error = compare(weights, x, product, 16, 61);
    EXPECT_LE(error.worst(), kBound) << shape.rows << "x" << shape.columns << ", " << error.where();
    EXPECT_TRUE(product.canaries);
  }
}

TEST_F(GpuProduct, OneWrongCodeIsSeen) {
  constexpr std::int64_t kRows = 300;
  constexpr std::int64_t kColumns = 1000;
  TestWeights weights(WeightFormat::kQ4, kRows, kColumns, 5);
  weights.spoil(299, 999);
  const std::vector<float> x = bfloat16_numbers(8 * kColumns, 7);
  const PanelOperand panels = make_panels(OperandLayout::kFP16Panels, x, 8, kColumns, 8, kExponent);
  EXPECT_GT(compare(weights, x, multiply(weights, panels.operand, 8), 8, 1).worst(), kBound);
}

TEST_F(GpuProduct, ATokensBitsDependOnNothingButItsNumbers) {
  for (const Shape& shape : {Shape{300, 1000}, Shape{2048, 5120}}) {
    const TestWeights weights(WeightFormat::kQ4, shape.rows, shape.columns, 5);
    const std::vector<float> x = bfloat16_numbers(static_cast<std::size_t>(32 * shape.columns), 7);
    const PanelOperand all = make_panels(OperandLayout::kFP16Panels, x, 32, shape.columns, 32, kExponent);
    const Product whole = multiply(weights, all.operand, 32);
    for (const int tokens : test::some("token counts", {1, 3, 9, 8, 16, 25}, 3)) {
      for (const int width : {8, 16, 32}) {
        if (width < tokens) continue;
        const PanelOperand panels = make_panels(OperandLayout::kFP16Panels, x, tokens, shape.columns, width, kExponent);
        for (const bool programmatic : {false, true}) {
          const Product part = multiply(weights, panels.operand, tokens, {}, nullptr, programmatic);
          EXPECT_TRUE(same_bits(part.y, whole.y, static_cast<std::size_t>(tokens * shape.rows)))
              << shape.rows << "x" << shape.columns << " T " << tokens << " width " << width;
        }
      }
    }
  }
}

TEST_F(GpuProduct, CanBeCutAmongAnyNumberOfThreadBlocks) {
  constexpr std::int64_t kRows = 1500;
  constexpr std::int64_t kColumns = 1000;
  const TestWeights weights(WeightFormat::kQ4, kRows, kColumns, 5);
  const std::vector<float> x = bfloat16_numbers(16 * kColumns, 7);
  const PanelOperand panels = make_panels(OperandLayout::kFP16Panels, x, 16, kColumns, 16, kExponent);
  for (const int blocks : {1, 2, 7, 47, 132, 264}) {
    const Product product = multiply(weights, panels.operand, 16, {.blocks = blocks});
    const WorstError error = compare(weights, x, product, 16, 1);
    EXPECT_LE(error.worst(), kBound) << blocks << " blocks, " << error.where();
    EXPECT_TRUE(product.canaries);
    for (const int late_stages : {1, 3}) {
      const Product late = multiply(weights, panels.operand, 16, {.blocks = blocks, .late_stages = late_stages});
      EXPECT_TRUE(same_bits(late.y, product.y, product.y.size())) << blocks << " blocks, " << late_stages << " stages";
    }
  }
}

TEST_F(GpuProduct, SideRowsAreProductsOfTheSameTokens) {
  for (const Shape& shape : {Shape{300, 1000}, Shape{256, 70}, Shape{1024, 5120}}) {
    const TestWeights weights(WeightFormat::kQ4, shape.rows, shape.columns, 5);
    for (const int rows : {1, 16, 96}) {
      const TestSideRows side(rows, shape.columns, 9);
      std::vector<float> narrow;
      for (const int width : {8, 16, 32}) {
        const int tokens = width - 1;
        const std::vector<float> x = bfloat16_numbers(static_cast<std::size_t>(tokens * shape.columns), 7);
        const PanelOperand panels = make_panels(OperandLayout::kFP16Panels, x, tokens, shape.columns, width, kExponent);
        const Product product = multiply(weights, panels.operand, tokens, {}, &side);
        WorstError error;
        for (int row = 0; row < rows; ++row) {
          for (int token = 0; token < tokens; ++token) {
            error.compare(product.side[static_cast<std::size_t>(token * rows + row)],
                          side.dot(row, x.data() + token * shape.columns), row, token);
          }
          EXPECT_EQ(product.side[static_cast<std::size_t>(tokens * rows + row)], 0.0F) << "padded token, row " << row;
        }
        EXPECT_LE(error.worst(), kBound) << rows << " rows, width " << width << ", " << error.where();
        EXPECT_TRUE(product.canaries);
        EXPECT_LE(compare(weights, x, product, tokens, 7).worst(), kBound) << "the product beside";
        if (width == 8) narrow = product.side;
        EXPECT_TRUE(same_bits(product.side, narrow, static_cast<std::size_t>(7 * rows))) << "width " << width;
      }
    }
  }
}

// Operand, product and reader again and again under programmatic launch on shared buffers, two inputs in turn.
TEST_F(GpuProduct, KeepsItsBitsInAChainUnderProgrammaticLaunch) {
  const int turns = test::amount("turns of the chain", 100, 10, 3);
  constexpr int kTokens = 16;
  struct Case {
    Shape shape;
    ProductSettings settings;
  };
  for (const Case& test :
       {Case{{5120, 5120}, {}}, Case{{5120, 5120}, {.trigger_pairs = 0}}, Case{{5120, 5120}, {.trigger_pairs = 4}},
        Case{{300, 1000}, {.trigger_pairs = 2}}, Case{{5120, 5120}, {.late_stages = 3}},
        Case{{300, 1000}, {.late_stages = 1}}, Case{{5120, 5120}, {.late_stages = 100}}}) {
    const TestWeights weights(WeightFormat::kQ4, test.shape.rows, test.shape.columns, 5);
    const WeightMatrix matrix = weights.matrix();
    const TestSideRows side(32, test.shape.columns, 9);
    const DeviceBuffer side_out(32 * kTokens * 4, "side rows");
    const std::int64_t plane_count = product_plane_floats(matrix, test.settings, kTokens, side.rows);
    const DeviceBuffer planes(static_cast<std::size_t>(plane_count) * 4, "planes");
    const DeviceBuffer panels(
        static_cast<std::size_t>(operand_bytes(OperandLayout::kFP16Panels, test.shape.columns, kTokens)), "operand");
    const Operand operand{.layout = OperandLayout::kFP16Panels,
                          .width = kTokens,
                          .columns = test.shape.columns,
                          .exponent = kExponent,
                          .data = panels.data()};
    std::vector<float> truths[2];
    std::optional<PoisonedBuffer> results[2];
    DeviceBuffer inputs[2];
    for (int turn = 0; turn < 2; ++turn) {
      const auto count = static_cast<std::size_t>(kTokens * test.shape.columns);
      const std::vector<float> x = bfloat16_numbers(count, 20 + static_cast<std::uint64_t>(turn));
      inputs[turn] = test::on_device(x);
      results[turn].emplace(static_cast<std::size_t>(kTokens * test.shape.rows) * 4);
      launch_kernel("operand", operand_kernel, {.blocks = 64, .threads = kGatherThreads}, {}, operand,
                    inputs[turn].as<float>(), kTokens);
      // With the same side rows: their blocks are taken from the product's, so the cut is theirs too.
      truths[turn] = multiply(weights, operand, kTokens, test.settings, &side).y;
    }
    cudaStream_t stream = nullptr;
    check_cuda(cudaStreamCreate(&stream), "stream");
    const CudaLaunch launch{.stream = stream, .programmatic = true};
    for (int turn = 0; turn < turns; ++turn) {
      launch_kernel("operand", operand_kernel, {.blocks = 64, .threads = kGatherThreads}, launch, operand,
                    inputs[turn % 2].as<float>(), kTokens);
      const ProductResult result =
          launch_product(matrix, operand, side.view(side_out.as<float>()), planes.as<float>(), test.settings, launch);
      gather(result, kTokens, results[turn % 2]->as<float>(), launch);
    }
    test::synchronize();
    check_cuda(cudaStreamDestroy(stream), "stream");
    for (int turn = 0; turn < 2; ++turn) {
      EXPECT_TRUE(same_bits(results[turn]->read<float>(), truths[turn], truths[turn].size()))
          << test.shape.rows << "x" << test.shape.columns << " trigger " << test.settings.trigger_pairs
          << " late stages " << test.settings.late_stages << " input " << turn
          << difference(results[turn]->read<float>(), truths[turn]);
    }
  }
}

TEST_F(GpuProduct, RefusesOperandsOfAnotherShape) {
  const TestWeights weights(WeightFormat::kQ4, 256, 128, 5);
  const std::vector<float> x = bfloat16_numbers(8 * 192, 7);
  const PanelOperand other = make_panels(OperandLayout::kFP16Panels, x, 8, 192, 8, 0);
  const DeviceBuffer planes(1 << 20, "planes");
  EXPECT_THROW((void)launch_product(weights.matrix(), other.operand, {}, planes.as<float>(), {}, {}), Error);
  PanelOperand wide = make_panels(OperandLayout::kFP16Panels, x, 8, 128, 8, 0);
  wide.operand.layout = OperandLayout::kBF16Panels;
  EXPECT_THROW((void)launch_product(weights.matrix(), wide.operand, {}, planes.as<float>(), {}, {}), Error);
}

}  // namespace
}  // namespace tare::engine
