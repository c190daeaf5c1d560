// Time of prefill products: weights widened to BF16 and multiplied by cuBLAS, on the shapes of a 27B model's layer.
// prefill_probe [FILE]: JSON lines to standard output and to FILE.
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <exception>
#include <vector>

#include "base/philox.h"
#include "engine/backend/options.h"
#include "engine/cuda/device/cuda_check.h"
#include "engine/cuda/device/device_buffer.h"
#include "engine/cuda/product/prefill_product.h"
#include "engine/cuda/product/widen.h"
#include "engine/formats/float_formats.h"
#include "profiles/micro/graph_time.h"
#include "profiles/micro/random_tiles.h"

namespace tare::micro {
namespace {

using engine::DeviceBuffer;
using engine::WeightFormat;

constexpr double kPeakTflops = 758;  // BF16 products measured on an H200
constexpr int kWarmUp = 3;
constexpr int kRepeats = 10;
constexpr std::size_t kScratchBytes = std::size_t{400} << 20;  // every matrix in one part

struct Shape {
  std::int64_t rows;
  std::int64_t columns;
};
constexpr Shape kShapes[] = {{16384, 5120}, {5120, 6144}, {34816, 5120}, {5120, 17408}};
constexpr int kTokens[] = {512, 2048, 4096, 8192};
constexpr int kOtherFormatsTokens = 2048;  // formats differ in the widening alone

// Zeros would draw less power and run faster.
DeviceBuffer random_rows(std::int64_t columns, int tokens) {
  constexpr std::size_t kDistinct = std::size_t{1} << 20;
  Philox random(2);
  std::vector<std::uint16_t> some(kDistinct);
  for (std::uint16_t& number : some) number = engine::float_to_bfloat16(static_cast<float>(random.normal()));
  std::vector<std::uint16_t> rows(static_cast<std::size_t>(columns * tokens));
  for (std::size_t index = 0; index < rows.size(); ++index) rows[index] = some[index % (kDistinct - 3)];
  DeviceBuffer buffer(rows.size() * sizeof(std::uint16_t), "activations");
  copy_to_device(buffer, std::span<const std::uint16_t>(rows));
  return buffer;
}

template <class Enqueue>
double time_us(cudaStream_t stream, const Enqueue& enqueue) {
  cudaEvent_t begin = nullptr;
  cudaEvent_t end = nullptr;
  engine::check_cuda(cudaEventCreate(&begin), "create event");
  engine::check_cuda(cudaEventCreate(&end), "create event");
  for (int index = 0; index < kWarmUp; ++index) enqueue();
  engine::check_cuda(cudaEventRecord(begin, stream), "record event");
  for (int index = 0; index < kRepeats; ++index) enqueue();
  engine::check_cuda(cudaEventRecord(end, stream), "record event");
  engine::check_cuda(cudaEventSynchronize(end), "wait");
  float milliseconds = 0;
  engine::check_cuda(cudaEventElapsedTime(&milliseconds, begin, end), "read events");
  engine::check_cuda(cudaEventDestroy(begin), "destroy event");
  engine::check_cuda(cudaEventDestroy(end), "destroy event");
  return 1e3 * static_cast<double>(milliseconds) / kRepeats;
}

void probe(const std::string& path) {
  cudaStream_t stream = nullptr;
  engine::check_cuda(cudaStreamCreate(&stream), "create stream");
  engine::PrefillProducts products(kScratchBytes);
  engine::CudaLaunch launch;
  launch.stream = stream;
  for (const WeightFormat format :
       {WeightFormat::kQ4, WeightFormat::kBF16, WeightFormat::kQ8, WeightFormat::kQ3, WeightFormat::kFP8}) {
    for (const Shape& shape : kShapes) {
      const DeviceBuffer tiles = random_tiles(format, shape.rows, shape.columns);
      const engine::WeightMatrix matrix{
          .format = format, .rows = shape.rows, .columns = shape.columns, .tiles = tiles.data()};
      const DeviceBuffer widened(static_cast<std::size_t>(2 * shape.rows * shape.columns), "widened weights");
      const double widen_us =
          time_us(stream, [&] { launch_widen(matrix, 0, shape.rows, widened.as<std::uint16_t>(), launch); });
      const double widen_bytes =
          static_cast<double>(tiles.bytes()) + 2.0 * static_cast<double>(shape.rows * shape.columns);
      for (const int tokens : kTokens) {
        if (format != WeightFormat::kQ4 && tokens != kOtherFormatsTokens) continue;
        const DeviceBuffer x = random_rows(shape.columns, tokens);
        const engine::Operand operand{.layout = engine::OperandLayout::kBF16Rows,
                                      .width = tokens,
                                      .columns = shape.columns,
                                      .exponent = 0,
                                      .data = x.data()};
        const DeviceBuffer y(static_cast<std::size_t>(shape.rows * tokens) * sizeof(float), "results");
        const double all_us =
            time_us(stream, [&] { (void)products.multiply(matrix, operand, tokens, y.as<float>(), launch); });
        const double gemm_us = time_us(stream, [&] {
          (void)products.multiply(widened.as<std::uint16_t>(), static_cast<int>(shape.rows), shape.columns, operand,
                                  tokens, y.as<float>(), launch);
        });
        const double tflop = 2e-12 * static_cast<double>(shape.rows * shape.columns) * tokens;
        append_record(
            path, fmt::format(R"({{"probe":"prefill","format":"{}","rows":{},"columns":{},"tokens":{},"us":{:.1f},)"
                              R"("tflops":{:.1f},"share":{:.4f},"gemm_us":{:.1f},"gemm_tflops":{:.1f},)"
                              R"("widen_us":{:.1f},"widen_gbps":{:.0f}}})",
                              engine::to_text(format), shape.rows, shape.columns, tokens, all_us, 1e6 * tflop / all_us,
                              1e6 * tflop / all_us / kPeakTflops, gemm_us, 1e6 * tflop / gemm_us, widen_us,
                              1e-3 * widen_bytes / widen_us));
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
