// Checks and times one variant of the q4 product on this machine's GPU (Hopper).
//   q4_gemm_probe VARIANT RESULTS.jsonl [check|odd|time]
// Check: all rows of odd and of the 27B's shapes against a double-precision product of the represented numbers, planes
// poisoned with NaN, canaries around the result, T = 1, 7, 8, 9, 16, bits equal over T, and over 200 chained
// programmatic launches on alternating inputs. Time: launches back to back in a graph, weights rotating through 13 GB,
// each shape alone and 64 layers of the four; share of the plain read rate given as kReadRate.
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "base/error.h"
#include "profiles/micro/graph_time.h"
#include "profiles/micro/q4_reference.h"
#include "profiles/micro/q4_variants.cuh"

namespace {

using namespace tare::engine;  // NOLINT(google-build-using-namespace): a program, not a header
using namespace tare::micro;   // NOLINT(google-build-using-namespace)

constexpr double kReadRate = 4534e9;  // bytes a second, plain read kernel over 16 GiB on this card
constexpr int kLayers = 64;
constexpr int kChainLaunches = 48;
constexpr int kWideFinish = 1056;
constexpr double kTolerance = 1e-5;  // relative L2 error of a token's result

struct Shape {
  int rows;
  int columns;
};
constexpr Shape kModelShapes[] = {{16384, 5120}, {5120, 6144}, {34816, 5120}, {5120, 17408}};
constexpr Shape kHotShape{8192, 5120};
constexpr Shape kLongShape{139264, 5120};
constexpr Shape kOddShapes[] = {{300, 200}, {256, 64}, {1000, 1000}};

template <class T>
class DeviceArray {
 public:
  explicit DeviceArray(std::size_t count) : count_(count) {
    check_cuda(cudaMalloc(reinterpret_cast<void**>(&data_), count * sizeof(T)), "cudaMalloc");
  }
  ~DeviceArray() { cudaFree(data_); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;
  [[nodiscard]] T* data() const { return data_; }
  [[nodiscard]] std::size_t count() const { return count_; }
  void put(const T* values, std::size_t count) {
    check_cuda(cudaMemcpy(data_, values, count * sizeof(T), cudaMemcpyHostToDevice), "copy to device");
  }
  [[nodiscard]] std::vector<T> get() const {
    std::vector<T> values(count_);
    check_cuda(cudaMemcpy(values.data(), data_, count_ * sizeof(T), cudaMemcpyDeviceToHost), "copy from device");
    return values;
  }
  void poison() { check_cuda(cudaMemset(data_, 0xFF, count_ * sizeof(T)), "poison"); }  // NaN as FP32

 private:
  T* data_ = nullptr;
  std::size_t count_ = 0;
};

__global__ void fill_units(uint4* units, std::size_t words) {
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t index = blockIdx.x * static_cast<std::size_t>(blockDim.x) + threadIdx.x; index < words;
       index += step) {
    std::uint32_t parts[4];
    for (std::uint32_t part = 0; part < 4; ++part) {
      std::uint64_t z = (index * 4 + part + 1) * 0x9E37'79B9'7F4A'7C15ULL;
      z = (z ^ (z >> 30)) * 0xBF58'476D'1CE4'E5B9ULL;
      z = (z ^ (z >> 27)) * 0x94D0'49BB'1331'11EBULL;
      parts[part] = static_cast<std::uint32_t>(z >> 32);
      const bool scale = index % (kQ4UnitBytes / 16) >= kQ4CodeBytes / 16;
      if (scale) parts[part] = (parts[part] & 0x03FF'03FFU) | 0x2000'2000U;  // 2^-7 .. 2^-6
    }
    units[index] = make_uint4(parts[0], parts[1], parts[2], parts[3]);
  }
}

struct Bench {
  const Variant& variant;
  std::string results;
  int blocks = 132;
  cudaStream_t stream = nullptr;
};

constexpr std::size_t kGuard = 4096;

// One product on the device: y [tokens][rows] and whether canaries and poison tell of stray or missing writes.
struct DeviceProduct {
  std::vector<float> y;
  bool clean = true;
};
DeviceProduct multiply_on_device(const Bench& bench, Shape shape, int tokens, int width, const std::byte* weights,
                                 const std::uint16_t* x) {
  const TilePlan plan = q4_plan(shape.rows, shape.columns, bench.blocks);
  const auto result_floats = static_cast<std::size_t>(tokens) * static_cast<std::size_t>(shape.rows);
  const std::size_t plane_floats =
      static_cast<std::size_t>(plan.most_planes()) * static_cast<std::size_t>(plan.row_blocks * kQ4BlockRows * width);
  DeviceArray<float> planes(plane_floats + kGuard);
  DeviceArray<float> y(result_floats + 2 * kGuard);
  DeviceArray<std::byte> activations(static_cast<std::size_t>(q4_activation_bytes(shape.columns, width)));
  planes.poison();
  y.poison();
  check_cuda(cudaMemset(activations.data(), 0xFF, activations.count()), "poison");
  const CudaLaunch launch{.stream = bench.stream, .programmatic = false};
  prepare_q4_activations(width, tokens, shape.columns, x, activations.data(), launch);
  bench.variant.launch(
      width, {.weights = weights, .activations = activations.data(), .planes = planes.data(), .plan = plan}, launch);
  finish_q4_gemm(width, tokens, shape.rows, shape.columns, plan, planes.data(), activations.data(), y.data() + kGuard,
                 kWideFinish, launch);
  check_cuda(cudaStreamSynchronize(bench.stream), "product");
  const std::vector<float> all = y.get();
  const std::vector<float> all_planes = planes.get();
  DeviceProduct product{.y = {all.begin() + kGuard, all.end() - kGuard}};
  for (std::size_t index = 0; index < kGuard; ++index) {
    product.clean = product.clean && std::isnan(all[index]) && std::isnan(all[all.size() - 1 - index]) &&
                    std::isnan(all_planes[all_planes.size() - 1 - index]);
  }
  for (const float value : product.y) product.clean = product.clean && std::isfinite(value);
  return product;
}

double worst_token_error(const std::vector<float>& y, const std::vector<double>& reference, int tokens, int rows) {
  double worst = 0.0;
  for (int token = 0; token < tokens; ++token) {
    double error = 0.0;
    double size = 0.0;
    for (int row = 0; row < rows; ++row) {
      const auto at = static_cast<std::size_t>(token * rows + row);
      error += std::pow(static_cast<double>(y[at]) - reference[at], 2);
      size += std::pow(reference[at], 2);
    }
    const double relative = std::sqrt(error / size);
    if (!(relative <= worst)) worst = relative;
  }
  return worst;
}

// Chains prepare, product and finish 200 times under programmatic launch on two inputs in turn; all buffers shared.
// Says whether both results are the bits of the plain launches.
bool chained_bits_equal(const Bench& bench, Shape shape, const std::byte* weights, const std::uint16_t* x0,
                        const std::uint16_t* x1, const std::vector<float>& y0, const std::vector<float>& y1) {
  constexpr int kWidth = 16;
  const TilePlan plan = q4_plan(shape.rows, shape.columns, bench.blocks);
  DeviceArray<float> planes(static_cast<std::size_t>(plan.most_planes() * plan.row_blocks * kQ4BlockRows * kWidth));
  DeviceArray<float> first(y0.size());
  DeviceArray<float> second(y1.size());
  DeviceArray<std::byte> activations(static_cast<std::size_t>(q4_activation_bytes(shape.columns, kWidth)));
  const CudaLaunch launch{.stream = bench.stream, .programmatic = true};
  for (int turn = 0; turn < 200; ++turn) {
    const bool even = turn % 2 == 0;
    prepare_q4_activations(kWidth, 16, shape.columns, even ? x0 : x1, activations.data(), launch);
    bench.variant.launch(
        kWidth, {.weights = weights, .activations = activations.data(), .planes = planes.data(), .plan = plan}, launch);
    finish_q4_gemm(kWidth, 16, shape.rows, shape.columns, plan, planes.data(), activations.data(),
                   even ? first.data() : second.data(), bench.blocks, launch);
  }
  check_cuda(cudaStreamSynchronize(bench.stream), "chain");
  return std::memcmp(first.get().data(), y0.data(), y0.size() * 4) == 0 &&
         std::memcmp(second.get().data(), y1.data(), y1.size() * 4) == 0;
}

void check_shape(const Bench& bench, Shape shape, bool all_widths) {
  const std::vector<std::uint16_t> x = random_activations(16, shape.columns, 11);
  const Q4TestProduct truth = random_product(shape.rows, shape.columns, 5, 16, x);
  DeviceArray<std::byte> weights(truth.packed.size());
  weights.put(truth.packed.data(), truth.packed.size());
  DeviceArray<std::uint16_t> device_x(x.size());
  device_x.put(x.data(), x.size());
  const DeviceProduct whole = multiply_on_device(bench, shape, 16, 16, weights.data(), device_x.data());
  const double whole_error = worst_token_error(whole.y, truth.y, 16, shape.rows);
  bool clean = whole.clean;
  double worst = whole_error;
  bool bits_equal = true;
  bool narrow_bits_equal = true;
  for (const int tokens : {1, 7, 8, 9}) {
    for (const int width : {8, 16}) {
      if (width < tokens || (!all_widths && tokens == 7)) continue;
      const DeviceProduct part = multiply_on_device(bench, shape, tokens, width, weights.data(), device_x.data());
      clean = clean && part.clean;
      const double error = worst_token_error(part.y, truth.y, tokens, shape.rows);
      if (!(error <= worst)) worst = error;
      const bool equal = std::memcmp(part.y.data(), whole.y.data(), part.y.size() * 4) == 0;
      (width == 16 ? bits_equal : narrow_bits_equal) &= equal;
    }
  }
  const std::vector<std::uint16_t> other = random_activations(16, shape.columns, 12);
  DeviceArray<std::uint16_t> device_other(other.size());
  device_other.put(other.data(), other.size());
  const DeviceProduct second = multiply_on_device(bench, shape, 16, 16, weights.data(), device_other.data());
  const bool chained =
      chained_bits_equal(bench, shape, weights.data(), device_x.data(), device_other.data(), whole.y, second.y);
  char line[512];
  std::snprintf(line, sizeof line,
                R"({"probe":"check","variant":"%s","rows":%d,"columns":%d,"relative_l2_error":%.3g,"clean":%s,)"
                R"("bits_equal_over_t":%s,"bits_equal_n8_n16":%s,"bits_equal_chained":%s,"pass":%s})",
                bench.variant.name, shape.rows, shape.columns, worst, clean ? "true" : "false",
                bits_equal ? "true" : "false", narrow_bits_equal ? "true" : "false", chained ? "true" : "false",
                worst <= kTolerance && clean && bits_equal && chained ? "true" : "false");
  append_record(bench.results, line);
}

// 13 GB of random units, and the buffers the timed launches share.
struct TimedBuffers {
  DeviceArray<std::byte> weights;
  DeviceArray<std::byte> activations;
  DeviceArray<float> planes;
  DeviceArray<float> y;
};

struct Settings {
  int width = 16;
  int blocks = 132;
  bool programmatic = true;
  int finish_blocks = 0;  // 0: planes are left as they are
};

struct Step {
  Shape shape;
  const std::byte* weights;
};

void enqueue_steps(const Bench& bench, const TimedBuffers& buffers, const Settings& settings,
                   const std::vector<Step>& steps) {
  const CudaLaunch launch{.stream = bench.stream, .programmatic = settings.programmatic};
  for (std::size_t index = 0; index < steps.size(); ++index) {
    const Step& step = steps[index];
    const TilePlan plan = q4_plan(step.shape.rows, step.shape.columns, settings.blocks);
    const Q4GemmArguments arguments{.weights = step.weights,
                                    .activations = buffers.activations.data(),
                                    .planes = buffers.planes.data(),
                                    .plan = plan};
    bench.variant.launch(settings.width, arguments, launch);
    if (settings.finish_blocks > 0) {
      finish_q4_gemm(settings.width, settings.width, step.shape.rows, step.shape.columns, plan, buffers.planes.data(),
                     buffers.activations.data(), buffers.y.data(), settings.finish_blocks, launch);
    }
  }
}

void time_steps(const Bench& bench, const TimedBuffers& buffers, const Settings& settings,
                const std::vector<Step>& steps, const std::string& name) {
  double bytes = 0.0;
  for (const Step& step : steps) bytes += static_cast<double>(q4_matrix_bytes(step.shape.rows, step.shape.columns));
  const GraphTime time = time_graph(bench.stream, [&] { enqueue_steps(bench, buffers, settings, steps); });
  const double launches = static_cast<double>(steps.size());
  char line[640];
  std::snprintf(line, sizeof line,
                R"({"probe":"time","variant":"%s","what":"%s","n":%d,"blocks":%d,"programmatic":%s,)"
                R"("finish_blocks":%d,"launches":%.0f,"bytes":%.0f,"median_us":%.2f,"least_us":%.2f,"most_us":%.2f,)"
                R"("us_a_launch":%.3f,"gb_per_s":%.1f,"share":%.4f})",
                bench.variant.name, name.c_str(), settings.width, settings.blocks,
                settings.programmatic ? "true" : "false", settings.finish_blocks, launches, bytes, time.median_us,
                time.least_us, time.most_us, time.median_us / launches, bytes / time.median_us / 1e3,
                bytes / (time.median_us * 1e-6) / kReadRate);
  append_record(bench.results, line);
}

// Against the 125.4 clocks a tile that DRAM allows an SM at 1,980 MHz (q4-gemm-hopper.md).
void time_resident(const Bench& bench, const TimedBuffers& buffers, int width) {
  const char* names[] = {"nothing", "polls", "copies"};
  for (const Beside beside : {Beside::kNothing, Beside::kPolls, Beside::kCopies}) {
    DeviceArray<long long> clocks(132 * 4);
    DeviceArray<int> copies(132);
    check_cuda(cudaMemset(clocks.data(), 0, 132 * 4 * sizeof(long long)), "clear");
    check_cuda(cudaMemset(copies.data(), 0, 132 * sizeof(int)), "clear");
    for (int run = 0; run < 3; ++run) {
      bench.variant.resident(beside, width, buffers.weights.data(), buffers.activations.data(), buffers.planes.data(),
                             clocks.data(), copies.data());
      check_cuda(cudaDeviceSynchronize(), "resident kernel");
    }
    const std::vector<long long> all = clocks.get();
    std::vector<long long> blocks;
    for (int block = 0; block < 132; ++block) {
      blocks.push_back(*std::max_element(all.begin() + block * 4, all.begin() + block * 4 + 4));
    }
    std::sort(blocks.begin(), blocks.end());
    const auto median = static_cast<double>(blocks[66]);
    const double clocks_a_tile = median / (8.0 * kResidentPairs);
    char line[320];
    std::snprintf(line, sizeof line,
                  R"({"probe":"resident","variant":"%s","n":%d,"beside":"%s","clocks_a_tile_and_sm":%.1f,)"
                  R"("headroom":%.2f,"copied_bytes_a_clock":%.1f})",
                  bench.variant.name, width, names[static_cast<int>(beside)], clocks_a_tile, 125.4 / clocks_a_tile,
                  static_cast<double>(copies.get()[0]) * kQ4PairBytes / median);
    append_record(bench.results, line);
  }
}

void time_all(const Bench& bench) {
  std::size_t layer_bytes = 0;
  for (const Shape& shape : kModelShapes)
    layer_bytes += static_cast<std::size_t>(q4_matrix_bytes(shape.rows, shape.columns));
  TimedBuffers buffers{.weights = DeviceArray<std::byte>(kLayers * layer_bytes),
                       .activations = DeviceArray<std::byte>(static_cast<std::size_t>(q4_activation_bytes(17408, 16))),
                       .planes = DeviceArray<float>(std::size_t{16} << 20),
                       .y = DeviceArray<float>(std::size_t{16} * 34816)};
  fill_units<<<1056, 512, 0, bench.stream>>>(reinterpret_cast<uint4*>(buffers.weights.data()),
                                             buffers.weights.count() / 16);
  check_cuda(cudaGetLastError(), "fill");
  const std::vector<std::uint16_t> x = random_activations(16, 17408, 11);
  DeviceArray<std::uint16_t> device_x(x.size());
  device_x.put(x.data(), x.size());
  std::vector<Step> layers;
  const std::byte* weights = buffers.weights.data();
  for (int layer = 0; layer < kLayers; ++layer) {
    for (const Shape& shape : kModelShapes) {
      layers.push_back({shape, weights});
      weights += q4_matrix_bytes(shape.rows, shape.columns);
    }
  }
  for (const int width : {16, 8}) {
    prepare_q4_activations(width, width, 17408, device_x.data(), buffers.activations.data(), {.stream = bench.stream});
    check_cuda(cudaStreamSynchronize(bench.stream), "prepare");
    if (bench.variant.resident != nullptr) time_resident(bench, buffers, width);
    for (const bool programmatic : {true, false}) {
      for (const int finish : {0, 132, kWideFinish}) {
        time_steps(bench, buffers, {.width = width, .programmatic = programmatic, .finish_blocks = finish}, layers,
                   "64 layers");
      }
    }
    // Not of the model: weights that stay in L2, so that the consumers set the pace, and a launch long enough to hide
    // its ends.
    const std::vector<Step> hot(kChainLaunches, {kHotShape, buffers.weights.data()});
    time_steps(bench, buffers, {.width = width}, hot, "hot 8192x5120");
    time_steps(bench, buffers, {.width = width}, {{kLongShape, buffers.weights.data()}}, "one launch of 139264x5120");
    for (const Shape& shape : kModelShapes) {
      std::vector<Step> steps;
      const std::size_t bytes = static_cast<std::size_t>(q4_matrix_bytes(shape.rows, shape.columns));
      for (int launch = 0; launch < kChainLaunches; ++launch) {
        steps.push_back({shape, buffers.weights.data() + static_cast<std::size_t>(launch) * bytes});
      }
      const std::string name = std::to_string(shape.rows) + "x" + std::to_string(shape.columns);
      time_steps(bench, buffers, {.width = width}, steps, name);
      time_steps(bench, buffers, {.width = width, .programmatic = false}, steps, name);
    }
  }
}

void run(const Variant& variant, const std::string& results, const std::string& what) {
  cudaDeviceProp device{};
  check_cuda(cudaGetDeviceProperties(&device, 0), "device");
  if (device.major != 9) throw tare::Error(tare::ErrorKind::kEnvironment, "this probe needs a Hopper GPU", device.name);
  Bench bench{.variant = variant, .results = results, .blocks = device.multiProcessorCount};
  check_cuda(cudaStreamCreate(&bench.stream), "stream");
  if (what != "time" && variant.computes) {
    for (const Shape& shape : kOddShapes) check_shape(bench, shape, true);
    for (const Shape& shape : kModelShapes) {
      if (what != "odd") check_shape(bench, shape, false);
    }
  }
  if (what.empty() || what == "time") time_all(bench);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: q4_gemm_probe VARIANT RESULTS.jsonl [check|odd|time]\n");
    return 2;
  }
  for (const Variant& variant : kVariants) {
    if (std::string(argv[1]) != variant.name) continue;
    try {
      run(variant, argv[2], argc > 3 ? argv[3] : "");
      return 0;
    } catch (const tare::Error& error) {
      char line[512];
      std::snprintf(line, sizeof line, R"({"probe":"failure","variant":"%s","error":"%s"})", variant.name,
                    error.what());
      append_record(argv[2], line);
      return tare::exit_code(error.kind());
    }
  }
  std::fprintf(stderr, "no variant %s\n", argv[1]);
  return 2;
}
