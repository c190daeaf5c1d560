// Times a round's chain of q4 products in the variants of the stream kernel and of its settings (Hopper).
//   product_probe RESULTS.jsonl [LIST]     LIST: chains, shapes, limits (all of them by default), single
// chains: 64 layers of the 27B's four products as one graph, alone and with the kernels between them (residual and
// norm,
//         MLP activation, and a stand-in for GDN and attention), by trigger and L2 fill.
// shapes: launches of one shape back to back. single: a few plain launches for a profiler. limits: weights that stay in
// L2, and one long launch. Weights rotate through 13 GB of random tiles. Shares are of the plain read rate kReadRate.
// That the products are right is gpu_product_tests' business; variants are those of one kernel with other constants,
// and must leave the same bits.
#include <cuda_runtime.h>

#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "engine/cuda/device/device_buffer.h"
#include "engine/cuda/elementwise.h"
#include "engine/cuda/product/operand.cuh"
#include "engine/cuda/product/product_result.cuh"
#include "engine/cuda/product/product_stream.cuh"
#include "engine/cuda/product/q4_format.cuh"
#include "profiles/micro/graph_time.h"

namespace {

using namespace tare::engine;  // NOLINT(google-build-using-namespace): a program, not a header
using namespace tare::micro;   // NOLINT(google-build-using-namespace)

constexpr double kReadRate = 4534e9;  // bytes a second, plain read kernel over 16 GiB on this card
constexpr int kLayers = 64;
constexpr int kChainLaunches = 48;
constexpr int kHidden = 5120;
constexpr int kMlpSize = 17408;
constexpr int kMixed = 6144;  // columns that GDN or attention hands on
constexpr int kGateRows = 96;
constexpr int kMostColumns = kMlpSize;
constexpr std::size_t kPlaneBytes = std::size_t{64} << 20;

struct Shape {
  int rows;
  int columns;
};
constexpr Shape kModelShapes[] = {{16384, 5120}, {5120, 6144}, {34816, 5120}, {5120, 17408}};
constexpr Shape kHotShape{8192, 5120};
constexpr Shape kLongShape{139264, 5120};

struct Variant {
  const char* name;
  void (*launch)(const StreamProduct& product, const CudaLaunch& launch);
  int blocks;
};

// The engine's kernel with other constants.
template <int kStages>
void launch_stages(const StreamProduct& product, const CudaLaunch& launch) {
  if (product.width == 8) return launch_stream<Q4Format, 8, kStages, false>(product, launch, "variant n8");
  launch_stream<Q4Format, 16, kStages, false>(product, launch, "variant n16");
}
constexpr Variant kEngine{"engine", launch_q4_product, 132};
constexpr Variant kTwoRunning{"two running blocks an SM", launch_q4_product, 264};
constexpr Variant kVariants[] = {
    {"four stages", launch_stages<4>, 132},
    {"nine stages, one block an SM", launch_stages<9>, 132},
    kTwoRunning,
};

__global__ void fill_tiles(uint4* units, std::size_t words) {
  constexpr std::size_t kUnitWords = unit_bytes(WeightFormat::kQ4) / 16;
  constexpr std::size_t kCodeWords = unit_code_bytes(WeightFormat::kQ4) / 16;
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t index = blockIdx.x * static_cast<std::size_t>(blockDim.x) + threadIdx.x; index < words;
       index += step) {
    std::uint32_t parts[4];
    for (std::uint32_t part = 0; part < 4; ++part) {
      std::uint64_t z = (index * 4 + part + 1) * 0x9E37'79B9'7F4A'7C15ULL;
      z = (z ^ (z >> 30)) * 0xBF58'476D'1CE4'E5B9ULL;
      z = (z ^ (z >> 27)) * 0x94D0'49BB'1331'11EBULL;
      parts[part] = static_cast<std::uint32_t>(z >> 32);
      const bool scale = index % kUnitWords >= kCodeWords;
      if (scale) parts[part] = (parts[part] & 0x03FF'03FFU) | 0x1400'1400U;  // 2^-10 .. 2^-9
    }
    units[index] = make_uint4(parts[0], parts[1], parts[2], parts[3]);
  }
}
__global__ void fill_normal(float* values, int count) {
  const auto index = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (index >= count) return;
  const auto z = static_cast<std::uint32_t>(index) * 2654435761U;
  values[index] = static_cast<float>(static_cast<int>(z >> 16 & 0xFFFFU) - 32768) / 16384.0F;
}
__global__ void fill_operand(Operand operand, const float* x) {
  const int groups = static_cast<int>(operand_blocks(operand.columns));
  const int group = static_cast<int>(blockIdx.x) % groups;
  const int token = static_cast<int>(blockIdx.x) / groups;
  const auto* pair = reinterpret_cast<const float2*>(x + (group * 64 + token * 778) % 8192);
  store_group(operand, group, token, pair[threadIdx.x]);
}

// Instead of GDN or attention: reads all planes of its product and writes the next operand.
constexpr int kMixThreads = 320;
constexpr int kMixBlocks = 128;
__global__ void __maxnreg__(40) mix_kernel(ProductResult qkvz, Operand out) {
  ptx::launch_dependents();
  ptx::wait_for_preceding_grid();
  const int groups = static_cast<int>(operand_blocks(out.columns));
  const int pairs = out.width / 2;
  const int lane = static_cast<int>(threadIdx.x % 32);
  for (int work = static_cast<int>(blockIdx.x * kMixThreads + threadIdx.x) / 32; work < groups * pairs;
       work += kMixBlocks * kMixThreads / 32) {
    const int group = work / pairs;
    const int pair = work % pairs;
    const int column = group * kOperandGroup + 2 * lane;
    float4 sum{0.0F, 0.0F, 0.0F, 0.0F};
    for (int row = column; row < qkvz.rows; row += static_cast<int>(out.columns)) {
      const float4 quad = product_quad<2>(qkvz, qkvz.plan.planes(row / kUnitRows), row, pair);
      sum.x += quad.x, sum.y += quad.y, sum.z += quad.z, sum.w += quad.w;
    }
    store_group(out, group, 2 * pair, {sum.x, sum.z});
    store_group(out, group, 2 * pair + 1, {sum.y, sum.w});
  }
}

// 13 GB of tiles, and what all launches share.
struct Buffers {
  DeviceBuffer weights{kLayers * layer_bytes(), "weights"};
  DeviceBuffer planes{kPlaneBytes, "planes"};
  DeviceBuffer x{std::size_t{kMostRoundTokens} * kHidden * 4, "x"};
  DeviceBuffer gain{kHidden * 4, "gain"};
  DeviceBuffer side_weights{std::size_t{kGateRows} * kHidden * 2, "side weights"};
  DeviceBuffer side_out{std::size_t{kGateRows} * kMostRoundTokens * 4, "side rows"};
  DeviceBuffer operands[4] = {operand_buffer(), operand_buffer(), operand_buffer(), operand_buffer()};

  static std::size_t layer_bytes() {
    std::size_t bytes = 0;
    for (const Shape& shape : kModelShapes) {
      bytes += static_cast<std::size_t>(tile_bytes(WeightFormat::kQ4, shape.rows, shape.columns));
    }
    return bytes;
  }
  static DeviceBuffer operand_buffer() {
    return {static_cast<std::size_t>(operand_bytes(OperandLayout::kFP16Panels, kMostColumns, kMostRoundTokens)),
            "operand"};
  }
  [[nodiscard]] Operand operand(int index, int columns, int width) const {
    return {.layout = OperandLayout::kFP16Panels,
            .width = width,
            .columns = columns,
            .exponent = 0,
            .data = operands[index].data()};
  }
};

struct Bench {
  const char* results;
  cudaStream_t stream = nullptr;
  Buffers buffers;
};

struct Settings {
  const Variant* variant = &kEngine;
  int width = 16;
  int trigger = -1;
  bool programmatic = true;
  bool round = false;  // with the kernels between the products, and side rows
};

CudaLaunch launch_of(const Bench& bench, const Settings& settings) {
  return {.stream = bench.stream, .programmatic = settings.programmatic, .records = nullptr, .part = {}, .bytes = 0};
}

ProductResult product(const Bench& bench, const Settings& settings, const Shape& shape, const std::byte* tiles,
                      const Operand& operand, bool side) {
  const TilePlan plan = cut_tiles(shape.rows, shape.columns, settings.variant->blocks);
  auto* planes = bench.buffers.planes.as<float>();
  settings.variant->launch({.arguments = {.weights = tiles,
                                          .operand = operand.data,
                                          .planes = planes,
                                          .plan = plan,
                                          .trigger_pairs = settings.trigger,
                                          .side_weights = bench.buffers.side_weights.as<std::uint16_t>(),
                                          .side_out = bench.buffers.side_out.as<float>(),
                                          .side_rows = side ? kGateRows : 0,
                                          .columns = shape.columns,
                                          .side_factor = 1},
                            .width = settings.width},
                           launch_of(bench, settings));
  return {.data = planes,
          .rows = shape.rows,
          .width = settings.width,
          .planes = true,
          .factor = Q4Format::kSumFactor,
          .plan = plan};
}

void residual_norm(const Bench& bench, const Settings& settings, const ProductResult& increment, const Operand& out) {
  launch_residual_norm({.increment = increment,
                        .tokens = settings.width,
                        .hidden = kHidden,
                        .eps = 1e-6F,
                        .x = bench.buffers.x.as<float>(),
                        .gain = bench.buffers.gain.as<float>(),
                        .out = out,
                        .normed = nullptr},
                       launch_of(bench, settings));
}

void enqueue_layers(const Bench& bench, const Settings& settings) {
  const std::byte* tiles = bench.buffers.weights.data();
  const auto next = [&](const Shape& shape, const Operand& operand, bool side) {
    const std::byte* these = tiles;
    tiles += tile_bytes(WeightFormat::kQ4, shape.rows, shape.columns);
    return product(bench, settings, shape, these, operand, side);
  };
  const Operand input = bench.buffers.operand(0, kHidden, settings.width);
  const Operand mixed = bench.buffers.operand(1, kMixed, settings.width);
  const Operand mlp_input = bench.buffers.operand(2, kHidden, settings.width);
  const Operand activated = bench.buffers.operand(3, kMlpSize, settings.width);
  for (int layer = 0; layer < kLayers; ++layer) {
    const ProductResult qkvz = next(kModelShapes[0], input, settings.round);
    if (settings.round) {
      launch_kernel("mix", mix_kernel, {.blocks = kMixBlocks, .threads = kMixThreads}, launch_of(bench, settings), qkvz,
                    mixed);
    }
    const ProductResult out = next(kModelShapes[1], mixed, false);
    if (settings.round) residual_norm(bench, settings, out, mlp_input);
    const ProductResult gate_up = next(kModelShapes[2], mlp_input, false);
    if (settings.round) {
      launch_mlp_activation(gate_up, settings.width, kMlpSize, activated, launch_of(bench, settings));
    }
    const ProductResult down = next(kModelShapes[3], activated, false);
    if (settings.round) residual_norm(bench, settings, down, input);
  }
}

// The kernels between the products alone, on what the last products left.
void enqueue_between(const Bench& bench, const Settings& settings) {
  const auto left = [&](const Shape& shape) {
    return ProductResult{.data = bench.buffers.planes.as<float>(),
                         .rows = shape.rows,
                         .width = settings.width,
                         .planes = true,
                         .factor = Q4Format::kSumFactor,
                         .plan = cut_tiles(shape.rows, shape.columns, settings.variant->blocks)};
  };
  for (int layer = 0; layer < kLayers; ++layer) {
    launch_kernel("mix", mix_kernel, {.blocks = kMixBlocks, .threads = kMixThreads}, launch_of(bench, settings),
                  left(kModelShapes[0]), bench.buffers.operand(1, kMixed, settings.width));
    residual_norm(bench, settings, left(kModelShapes[1]), bench.buffers.operand(2, kHidden, settings.width));
    launch_mlp_activation(left(kModelShapes[2]), settings.width, kMlpSize,
                          bench.buffers.operand(3, kMlpSize, settings.width), launch_of(bench, settings));
    residual_norm(bench, settings, left(kModelShapes[3]), bench.buffers.operand(0, kHidden, settings.width));
  }
}

void report(const Bench& bench, const Settings& settings, const std::string& what, double bytes, int launches,
            const GraphTime& time) {
  char line[640];
  std::snprintf(line, sizeof line,
                R"({"probe":"product","what":"%s","variant":"%s","n":%d,"round":%s,"programmatic":%s,"trigger":%d,)"
                R"("launches":%d,"bytes":%.0f,"median_us":%.2f,"least_us":%.2f,"most_us":%.2f,)"
                R"("us_a_launch":%.3f,"share":%.4f})",
                what.c_str(), settings.variant->name, settings.width, settings.round ? "true" : "false",
                settings.programmatic ? "true" : "false", settings.trigger, launches, bytes, time.median_us,
                time.least_us, time.most_us, time.median_us / launches, bytes / (time.median_us * 1e-6) / kReadRate);
  append_record(bench.results, line);
}

void time_layers(const Bench& bench, const Settings& settings) {
  const GraphTime time = time_graph(
      bench.stream, [&] { enqueue_layers(bench, settings); }, 2, 9);
  report(bench, settings, "64 layers", static_cast<double>(bench.buffers.weights.bytes()), 4 * kLayers, time);
}

void time_between(const Bench& bench, const Settings& settings) {
  const GraphTime time = time_graph(
      bench.stream, [&] { enqueue_between(bench, settings); }, 2, 9);
  report(bench, settings, "kernels between alone", 0, 4 * kLayers, time);
}

void time_shape(const Bench& bench, const Settings& settings, const Shape& shape, int launches, bool rotating,
                const char* name) {
  const auto bytes = static_cast<std::size_t>(tile_bytes(WeightFormat::kQ4, shape.rows, shape.columns));
  const Operand operand = bench.buffers.operand(shape.columns == kHidden  ? 0
                                                : shape.columns == kMixed ? 1
                                                                          : 3,
                                                shape.columns, settings.width);
  const GraphTime time = time_graph(
      bench.stream,
      [&] {
        for (int launch = 0; launch < launches; ++launch) {
          const std::size_t offset = rotating ? static_cast<std::size_t>(launch) * bytes : 0;
          (void)product(bench, settings, shape, bench.buffers.weights.data() + offset, operand, false);
        }
      },
      2, 9);
  report(bench, settings, name, static_cast<double>(bytes) * launches, launches, time);
}

void prepare(const Bench& bench, int width) {
  const Buffers& buffers = bench.buffers;
  const int columns[] = {kHidden, kMixed, kHidden, kMlpSize};
  for (int index = 0; index < 4; ++index) {
    const Operand operand = buffers.operand(index, columns[index], width);
    fill_operand<<<static_cast<unsigned>(operand_blocks(operand.columns) * width), 32, 0, bench.stream>>>(
        operand, buffers.x.as<float>());
    check_cuda(cudaGetLastError(), "fill operand");
  }
}

void chains(const Bench& bench) {
  for (const int width : {16, 8}) {
    prepare(bench, width);
    for (const bool round : {true, false}) {
      for (const int trigger : {-1, 0, 2, 4, 8, 16}) {
        time_layers(bench, {.width = width, .trigger = trigger, .round = round});
      }
      for (const Variant& variant : kVariants) {
        for (const int trigger : {-1, 4}) {
          time_layers(bench, {.variant = &variant, .width = width, .trigger = trigger, .round = round});
        }
      }
      for (const Variant& variant : {kEngine, kTwoRunning}) {
        time_layers(bench, {.variant = &variant, .width = width, .programmatic = false, .round = round});
      }
      if (round) {
        time_between(bench, {.width = width, .round = true});
        time_between(bench, {.width = width, .programmatic = false, .round = true});
      }
    }
  }
}

void shapes(const Bench& bench) {
  for (const int width : {8, 16, 32}) {
    prepare(bench, width);
    for (const Shape& shape : kModelShapes) {
      const std::string name = std::to_string(shape.rows) + "x" + std::to_string(shape.columns);
      for (const Variant& variant : {kEngine, kTwoRunning}) {
        time_shape(bench, {.variant = &variant, .width = width}, shape, kChainLaunches, true, name.c_str());
        time_shape(bench, {.variant = &variant, .width = width, .programmatic = false}, shape, kChainLaunches, true,
                   name.c_str());
      }
    }
  }
}

void limits(const Bench& bench) {
  for (const int width : {16, 8, 32}) {
    prepare(bench, width);
    time_shape(bench, {.width = width}, kHotShape, kChainLaunches, false, "hot 8192x5120");
    time_shape(bench, {.width = width}, kLongShape, 1, true, "one launch of 139264x5120");
    if (width == 32) continue;
    for (const Variant& variant : kVariants) {
      time_shape(bench, {.variant = &variant, .width = width}, kHotShape, kChainLaunches, false, "hot 8192x5120");
      time_shape(bench, {.variant = &variant, .width = width}, kLongShape, 1, true, "one launch of 139264x5120");
    }
  }
}

// Plain launches for a profiler: of each width one long product, one of a model's shape.
void single(const Bench& bench) {
  for (const int width : {16, 8}) {
    prepare(bench, width);
    for (const Shape& shape : {kLongShape, kModelShapes[0]}) {
      (void)product(bench, {.width = width, .programmatic = false}, shape, bench.buffers.weights.data(),
                    bench.buffers.operand(0, kHidden, width), false);
    }
  }
  check_cuda(cudaStreamSynchronize(bench.stream), "products");
}

void run(const char* results, const std::string& list) {
  cudaDeviceProp device{};
  check_cuda(cudaGetDeviceProperties(&device, 0), "device");
  if (device.major != 9) throw tare::Error(tare::ErrorKind::kEnvironment, "this probe needs a Hopper GPU", device.name);
  Bench bench{.results = results, .buffers = {}};
  check_cuda(cudaStreamCreate(&bench.stream), "stream");
  const Buffers& buffers = bench.buffers;
  fill_tiles<<<1056, 512, 0, bench.stream>>>(buffers.weights.as<uint4>(), buffers.weights.bytes() / 16);
  const int count = kMostRoundTokens * kHidden;
  fill_normal<<<(count + 255) / 256, 256, 0, bench.stream>>>(buffers.x.as<float>(), count);
  fill_normal<<<(kHidden + 255) / 256, 256, 0, bench.stream>>>(buffers.gain.as<float>(), kHidden);
  fill_normal<<<kGateRows * kHidden / 512, 256, 0, bench.stream>>>(buffers.side_weights.as<float>(),
                                                                   kGateRows * kHidden / 2);
  check_cuda(cudaGetLastError(), "fill");
  if (list.find("single") != std::string::npos) single(bench);
  if (list.find("limits") != std::string::npos) limits(bench);
  if (list.find("chains") != std::string::npos) chains(bench);
  if (list.find("shapes") != std::string::npos) shapes(bench);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: product_probe RESULTS.jsonl [chains,shapes,limits]\n");
    return 2;
  }
  try {
    run(argv[1], argc > 2 ? argv[2] : "limits,chains,shapes");
    return 0;
  } catch (const tare::Error& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return tare::exit_code(error.kind());
  }
}
