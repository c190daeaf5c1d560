// The weight product on every matrix of a 27B model's layer and its head, in every format, for 1 to 32 tokens:
// product/FORMAT/ROWSxCOLUMNS/T:TOKENS.
#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "base/philox.h"
#include "engine/backend/options.h"
#include "engine/cuda/device/cuda_check.h"
#include "engine/cuda/device/device_buffer.h"
#include "engine/cuda/product/product.h"
#include "profiles/micro/gpu_bench.h"
#include "profiles/micro/random_tiles.h"

namespace tare::micro {
namespace {

using engine::DeviceBuffer;
using engine::OperandLayout;
using engine::WeightFormat;

struct Shape {
  std::int64_t rows;
  std::int64_t columns;
};
// GDN's q, k, v, z; attention's query, gate, k, v; both outputs; gate and up; down; the head.
constexpr Shape kShapes[] = {{16384, 5120}, {14336, 5120}, {5120, 6144}, {34816, 5120}, {5120, 17408}, {248320, 5120}};
constexpr WeightFormat kFormats[] = {WeightFormat::kQ3, WeightFormat::kQ4, WeightFormat::kQ8, WeightFormat::kFP8,
                                     WeightFormat::kBF16};
constexpr int kTokens[] = {1, 4, 8, 16, 32};
constexpr int kLaunches = 96;              // a graph's first and last launch then cost less than a percent
constexpr std::int64_t kRandomRows = 512;  // made on the host; the matrix repeats them

// `bytes` of tiles for rotating through: random ones, repeated.
DeviceBuffer rotating_tiles(WeightFormat format, const Shape& shape, std::size_t bytes) {
  const DeviceBuffer random = random_tiles(format, std::min(shape.rows, kRandomRows), shape.columns);
  DeviceBuffer tiles(bytes, "weights");
  for (std::size_t place = 0; place < bytes; place += random.bytes()) {
    engine::check_cuda(cudaMemcpy(tiles.data() + place, random.data(), std::min(random.bytes(), bytes - place),
                                  cudaMemcpyDeviceToDevice),
                       "repeat tiles");
  }
  return tiles;
}

// 16-bit numbers of magnitudes near 2^-3 as FP16, tiny as BF16; two of them are a finite group sum.
DeviceBuffer random_panels(OperandLayout layout, std::int64_t columns, int width) {
  std::vector<std::uint16_t> numbers(static_cast<std::size_t>(engine::operand_bytes(layout, columns, width)) / 2);
  const Philox random(2);
  for (std::size_t index = 0; index < numbers.size(); ++index) {
    numbers[index] = static_cast<std::uint16_t>(0x3000U | (random.bits_at(index) & 0x83FFU));
  }
  DeviceBuffer buffer(2 * numbers.size(), "operand");
  copy_to_device(buffer, std::span<const std::uint16_t>(numbers));
  return buffer;
}

void product(benchmark::State& state, WeightFormat format, const Shape& shape, int tokens) {
  const auto bytes = static_cast<std::size_t>(engine::tile_bytes(format, shape.rows, shape.columns));
  const std::size_t apart = kCachesApart * l2_bytes();
  const int copies = std::max(1, static_cast<int>((apart + bytes - 1) / bytes));
  const DeviceBuffer tiles = rotating_tiles(format, shape, bytes * static_cast<std::size_t>(copies));
  const bool bfloat16 = format == WeightFormat::kBF16;
  const int width = engine::operand_width(tokens);
  const OperandLayout layout = bfloat16 ? OperandLayout::kBF16Panels : OperandLayout::kFP16Panels;
  const DeviceBuffer panels = random_panels(layout, shape.columns, width);
  const engine::Operand operand{
      .layout = layout, .width = width, .columns = shape.columns, .exponent = 0, .data = panels.data()};
  engine::WeightMatrix matrix{.format = format, .rows = shape.rows, .columns = shape.columns, .tiles = nullptr};
  const engine::ProductSettings settings{.blocks = product_blocks()};
  const DeviceBuffer planes(static_cast<std::size_t>(product_plane_floats(matrix, settings, width)) * sizeof(float),
                            "planes");
  run_graph(
      state,
      [&](cudaStream_t stream) {
        engine::CudaLaunch launch;
        launch.stream = stream;
        launch.programmatic = true;
        for (int index = 0; index < kLaunches; ++index) {
          matrix.tiles = tiles.data() + static_cast<std::size_t>(index % copies) * bytes;
          (void)launch_product(matrix, operand, {}, planes.as<float>(), settings, launch);
        }
      },
      kLaunches, bytes);
}

}  // namespace

void register_product_benchmarks() {
  for (const WeightFormat format : kFormats) {
    for (const Shape& shape : kShapes) {
      for (const int tokens : kTokens) {
        const std::string name =
            fmt::format("product/{}/{}x{}/T:{}", to_text(format), shape.rows, shape.columns, tokens);
        benchmark::RegisterBenchmark(name.c_str(),
                                     [=](benchmark::State& state) { product(state, format, shape, tokens); })
            ->UseManualTime()
            ->Unit(benchmark::kMicrosecond);
      }
    }
  }
}

}  // namespace tare::micro
