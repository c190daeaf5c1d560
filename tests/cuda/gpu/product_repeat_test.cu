// A weight product gives the same bits every time, under the load that once broke it: side rows beside the product, two
// thread blocks an SM, thousands of launches. Their loads fill the queue to shared memory, so that a stage of the ring
// that is handed back too early is overwritten before it is read (ptx::warp_barrier_arrive_after). Before that was held
// back, q4 at 16 tokens differed in 7 of 20,000 launches here.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/philox.h"
#include "engine/backend/options.h"
#include "engine/cuda/product/product.h"
#include "tests/cuda/gpu/gpu_test.h"
#include "tests/cuda/gpu/sanitized.h"

namespace tare::engine {
namespace {

constexpr std::int64_t kRows = 16'384;  // the GDN input projection of the 27B, 10 unit pairs a thread block
constexpr std::int64_t kColumns = 5'120;
constexpr int kSideRows = 96;
constexpr int kBlocksPerSm = 2;
constexpr int kThreads = 512;
constexpr int kCompareBlocks = 264;

// Random bits of which no number, in any format of weights, scales or activations, is infinite or NaN: the bit cleared
// is the highest of the exponent.
__global__ void fill_kernel(std::uint32_t* words, std::size_t count, std::uint32_t seed, std::uint32_t kept) {
  for (std::size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
    auto x = static_cast<std::uint32_t>(i) * 2654435761U ^ seed;
    x ^= x >> 16;
    x *= 0x7FEB352DU;
    x ^= x >> 15;
    x *= 0x846CA68BU;
    x ^= x >> 16;
    words[i] = x & kept;
  }
}
constexpr std::uint32_t kBytes = 0xBFBF'BFBFU;
constexpr std::uint32_t kHalves = 0xBFFF'BFFFU;

__global__ void count_differences(const std::uint32_t* a, const std::uint32_t* b, std::size_t count,
                                  unsigned long long* differences) {
  for (std::size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
    if (a[i] != b[i]) atomicAdd(differences, 1ULL);
  }
}

DeviceBuffer random_bits(std::size_t bytes, std::uint32_t seed, std::uint32_t kept) {
  DeviceBuffer buffer(bytes, "random bits");
  fill_kernel<<<kCompareBlocks, kThreads>>>(buffer.as<std::uint32_t>(), bytes / 4, seed, kept);
  check_cuda(cudaGetLastError(), "fill_kernel");
  return buffer;
}

struct Case {
  WeightFormat format = WeightFormat::kQ4;
  int width = 16;
  int launches = 0;
};

class GpuProductRepeats : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (const std::string why = test::no_gpu(9); !why.empty()) GTEST_SKIP() << why;
  }
};

TEST_P(GpuProductRepeats, BesideSideRowsWithTwoBlocksAnSm) {
  const auto [format, width, many] = GetParam();
  const int launches = test::amount("launches", many, 20, 1);
  int multiprocessors = 0;
  check_cuda(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0), "cudaDeviceGetAttribute");
  const OperandLayout layout = format == WeightFormat::kBF16 ? OperandLayout::kBF16Panels : OperandLayout::kFP16Panels;
  const auto operand_size = static_cast<std::size_t>(operand_bytes(layout, kColumns, width));
  const DeviceBuffer tiles = random_bits(static_cast<std::size_t>(tile_bytes(format, kRows, kColumns)), 1, kBytes);
  const DeviceBuffer panels = random_bits(operand_size, 2, kHalves);
  const DeviceBuffer side_weights = random_bits(kSideRows * kColumns * 2, 3, kHalves);
  const DeviceBuffer side_out(static_cast<std::size_t>(kSideRows * width) * 4, "side rows");
  const WeightMatrix matrix{.format = format, .rows = kRows, .columns = kColumns, .tiles = tiles.data()};
  const Operand operand{.layout = layout, .width = width, .columns = kColumns, .exponent = 0, .data = panels.data()};
  const SideRows side{.weights = side_weights.as<std::uint16_t>(), .rows = kSideRows, .out = side_out.as<float>()};
  const ProductSettings settings{.blocks = kBlocksPerSm * multiprocessors};
  const auto floats = static_cast<std::size_t>(product_plane_floats(matrix, settings, width, kSideRows));
  const DeviceBuffer planes(floats * 4, "planes");
  const DeviceBuffer first(floats * 4, "planes of the first launch");
  const DeviceBuffer differences(8, "differences");
  fill_device(planes.data(), planes.bytes(), 0);
  fill_device(differences.data(), differences.bytes(), 0);

  const auto launch_and_compare = [&] {
    (void)launch_product(matrix, operand, side, planes.as<float>(), settings, {});
    count_differences<<<kCompareBlocks, kThreads>>>(planes.as<std::uint32_t>(), first.as<std::uint32_t>(), floats,
                                                    differences.as<unsigned long long>());
  };
  const auto counted = [&] {
    unsigned long long count = 0;
    copy_to_host(std::as_writable_bytes(std::span(&count, 1)), differences.data());
    return count;
  };
  (void)launch_product(matrix, operand, side, planes.as<float>(), settings, {});
  check_cuda(cudaMemcpy(first.data(), planes.data(), planes.bytes(), cudaMemcpyDeviceToDevice), "cudaMemcpy");
  for (int i = 0; i < launches; ++i) launch_and_compare();
  check_cuda(cudaGetLastError(), "launch");
  EXPECT_EQ(counted(), 0U) << "numbers that differ from the first launch's, in " << launches << " launches";

  // The comparison sees one stage's operand of one block.
  fill_device(panels.data(), 16, 0x3C);
  launch_and_compare();
  EXPECT_GT(counted(), 0U);
}

constexpr int kMany = 20'000;
constexpr int kSome = 4'000;
INSTANTIATE_TEST_SUITE_P(Formats, GpuProductRepeats,
                         ::testing::Values(Case{WeightFormat::kQ4, 16, kMany}, Case{WeightFormat::kQ4, 8, kSome},
                                           Case{WeightFormat::kQ4, 32, kSome}, Case{WeightFormat::kQ3, 16, kSome},
                                           Case{WeightFormat::kQ8, 16, kSome}, Case{WeightFormat::kFP8, 16, kSome},
                                           Case{WeightFormat::kBF16, 16, kSome}),
                         [](const auto& info) {
                           return to_text(info.param.format) + "_" + std::to_string(info.param.width);
                         });

}  // namespace
}  // namespace tare::engine
