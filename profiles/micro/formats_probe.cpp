// Time of a round's products in every weight codec, on the shapes of a 27B model's layer: launches of one shape back
// to back in a graph under programmatic launch, weights from DRAM. formats_probe [FILE]: JSON lines to standard output
// and to FILE.
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <vector>

#include "base/philox.h"
#include "engine/backend/options.h"
#include "engine/cuda/device/cuda_check.h"
#include "engine/cuda/device/device_buffer.h"
#include "engine/cuda/product/product.h"
#include "profiles/micro/graph_time.h"
#include "profiles/micro/random_tiles.h"

namespace tare::micro {
namespace {

using engine::DeviceBuffer;
using engine::OperandLayout;
using engine::ScaleFormat;
using engine::WeightCodec;
using engine::WeightFormat;

constexpr double kReadRate = 4534e9;                            // bytes a second, plain read kernel on an H200
constexpr std::size_t kDistinctBytes = std::size_t{256} << 20;  // four times L2
constexpr int kLaunches = 24;

struct Shape {
  std::int64_t rows;
  std::int64_t columns;
};
constexpr Shape kShapes[] = {{16384, 5120}, {5120, 6144}, {34816, 5120}, {5120, 17408}};
constexpr WeightCodec kCodecs[] = {{WeightFormat::kQ3},
                                   {WeightFormat::kQ4},
                                   {WeightFormat::kQ5},
                                   {WeightFormat::kQ8},
                                   {WeightFormat::kFP8},
                                   {WeightFormat::kBF16},
                                   {WeightFormat::kNVFP4, ScaleFormat::kE4M3},
                                   {WeightFormat::kQ3, ScaleFormat::kE4M3},
                                   {WeightFormat::kQ4, ScaleFormat::kE4M3},
                                   {WeightFormat::kQ5, ScaleFormat::kE4M3},
                                   {WeightFormat::kQ8, ScaleFormat::kE4M3},
                                   {WeightFormat::kFP8, ScaleFormat::kE4M3}};

// 16-bit numbers of magnitudes near 2^-3 as FP16 (tiny as BF16), which also are finite group sums.
DeviceBuffer random_operand(OperandLayout layout, std::int64_t columns, int width) {
  std::vector<std::uint16_t> numbers(static_cast<std::size_t>(engine::operand_bytes(layout, columns, width)) / 2);
  const Philox random(2);
  for (std::size_t index = 0; index < numbers.size(); ++index) {
    numbers[index] = static_cast<std::uint16_t>(0x3000U | (random.bits_at(index) & 0x83FFU));
  }
  DeviceBuffer buffer(2 * numbers.size(), "operand");
  copy_to_device(buffer, std::span<const std::uint16_t>(numbers));
  return buffer;
}

void probe(const std::string& path) {
  cudaStream_t stream = nullptr;
  engine::check_cuda(cudaStreamCreate(&stream), "create stream");
  engine::CudaLaunch launch;
  launch.stream = stream;
  launch.programmatic = true;
  const engine::ProductSettings settings;
  for (const WeightCodec codec : kCodecs) {
    const WeightFormat format = codec.format;
    for (const Shape& shape : kShapes) {
      const auto bytes = static_cast<std::size_t>(engine::tile_bytes(codec, shape.rows, shape.columns));
      const int copies = std::max(2, static_cast<int>((kDistinctBytes + bytes - 1) / bytes));
      const DeviceBuffer tiles = random_tiles(codec, shape.rows, shape.columns, copies);
      for (const int width : {8, 16, 32}) {
        const bool bfloat16 = format == WeightFormat::kBF16;
        engine::Operand operand;
        operand.layout = bfloat16 ? OperandLayout::kBF16Panels : OperandLayout::kFP16Panels;
        operand.width = width;
        operand.columns = shape.columns;
        const DeviceBuffer panels = random_operand(operand.layout, shape.columns, width);
        operand.data = panels.data();
        engine::WeightMatrix matrix{
            .format = format, .rows = shape.rows, .columns = shape.columns, .tiles = nullptr, .scales = codec.scales};
        const std::int64_t floats = product_plane_floats(matrix, settings, width);
        const DeviceBuffer planes(2 * static_cast<std::size_t>(floats) * sizeof(float), "planes");
        const GraphTime time = time_graph(stream, [&] {
          for (int index = 0; index < kLaunches; ++index) {
            matrix.tiles = tiles.data() + static_cast<std::size_t>(index % copies) * bytes;
            (void)launch_product(matrix, operand, {}, planes.as<float>() + index % 2 * floats, settings, launch);
          }
        });
        const double us = time.median_us / kLaunches;
        const double rate = 1e6 * static_cast<double>(bytes) / us;
        append_record(
            path, fmt::format(R"({{"probe":"formats","format":"{}","scales":"{}","rows":{},"columns":{},"width":{},)"
                              R"("us":{:.2f},"gbps":{:.0f},"share":{:.3f}}})",
                              to_text(format), to_text(codec.scales), shape.rows, shape.columns, width, us, 1e-9 * rate,
                              rate / kReadRate));
      }
    }
  }
  engine::check_cuda(cudaStreamDestroy(stream), "destroy stream");
}

}  // namespace
}  // namespace tare::micro

int main(int count, char** arguments) {
  try {
    tare::micro::probe(count > 1 ? arguments[1] : "/dev/null");
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 1;
  }
  return 0;
}
