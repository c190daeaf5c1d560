// Time of the small kernels of a round at the 27B shape: alone, back to back in one graph, and behind the products
// whose planes they read. JSON lines on standard output.
//
//   small_probe [BLOCKS [TRIGGER]]     thread blocks of a product, and ProductSettings::trigger_pairs
//
// "layer" is output projection to next input projection.
//
// "out, from L2" repeats one matrix that stays in L2: how fast a product consumes when DRAM does not hold it back.
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <span>
#include <vector>

#include "base/error.h"
#include "base/philox.h"
#include "engine/cuda/device/cuda_check.h"
#include "engine/cuda/device/device_buffer.h"
#include "engine/cuda/elementwise.h"
#include "profiles/micro/graph_time.h"

namespace {

using namespace tare;
using namespace tare::engine;

constexpr int kHidden = 5120;
constexpr int kInner = 17408;
constexpr int kMixed = 6144;
constexpr int kProjected = 16384;
constexpr int kGates = 96;
constexpr int kLaunches = 64;
constexpr int kMatrices = 8;  // of each shape: 760 MB of gate and up, far beyond L2
ProductSettings kSettings{};

DeviceBuffer random_bytes(std::size_t bytes, std::uint64_t stream, bool floats) {
  Philox random(7, stream);
  std::vector<std::uint32_t> block(1U << 20U);
  for (std::uint32_t& word : block) {
    if (floats) {
      const auto value = static_cast<float>(random.normal());
      std::memcpy(&word, &value, sizeof word);
    } else {
      // Nibbles and FP16 scales alike: any bits whose exponents stay small.
      word = static_cast<std::uint32_t>(random.below(1ULL << 32U)) & 0x33FF'33FFU;
    }
  }
  DeviceBuffer buffer(bytes, "a probe's input");
  for (std::size_t at = 0; at < bytes; at += block.size() * 4) {
    const std::size_t some = std::min(block.size() * 4, bytes - at);
    copy_to_device(buffer.data() + at, std::as_bytes(std::span(block)).first(some));
  }
  return buffer;
}

struct Probe {
  int tokens;
  int width = operand_width(tokens);
  cudaStream_t stream = nullptr;
  WeightMatrix down{.format = WeightFormat::kQ4, .rows = kHidden, .columns = kInner};
  WeightMatrix gate_up{.format = WeightFormat::kQ4, .rows = 2 * kInner, .columns = kHidden};
  WeightMatrix out{.format = WeightFormat::kQ4, .rows = kHidden, .columns = kMixed};
  WeightMatrix input{.format = WeightFormat::kQ4, .rows = kProjected, .columns = kHidden};
  std::vector<DeviceBuffer> down_tiles, gate_up_tiles, out_tiles, input_tiles;
  DeviceBuffer planes, x, gain, normed_operand, activated_operand, gate_weights, gates;

  explicit Probe(int tokens_) : tokens(tokens_) {
    check_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
    for (int i = 0; i < kMatrices; ++i) {
      down_tiles.push_back(
          random_bytes(static_cast<std::size_t>(tile_bytes(down.format, down.rows, down.columns)), 1, false));
      gate_up_tiles.push_back(
          random_bytes(static_cast<std::size_t>(tile_bytes(gate_up.format, gate_up.rows, gate_up.columns)), 2, false));
    }
    for (int i = 0; i < kMatrices; ++i) {
      input_tiles.push_back(
          random_bytes(static_cast<std::size_t>(tile_bytes(input.format, input.rows, input.columns)), 8, false));
    }
    gate_weights = random_bytes(static_cast<std::size_t>(kGates) * kHidden * 2, 9, false);
    gates = DeviceBuffer(static_cast<std::size_t>(kGates) * width * 4, "gates");
    for (int i = 0; i < 4 * kMatrices; ++i) {
      out_tiles.push_back(
          random_bytes(static_cast<std::size_t>(tile_bytes(out.format, out.rows, out.columns)), 6, false));
    }
    const std::int64_t floats =
        std::max({product_plane_floats(down, kSettings, width), product_plane_floats(gate_up, kSettings, width),
                  product_plane_floats(input, kSettings, width, kGates)});
    planes = random_bytes(static_cast<std::size_t>(floats) * 4, 3, true);
    x = random_bytes(static_cast<std::size_t>(tokens) * kHidden * 4, 4, true);
    gain = random_bytes(kHidden * 4, 5, true);
    normed_operand =
        DeviceBuffer(static_cast<std::size_t>(operand_bytes(OperandLayout::kFP16Panels, kHidden, width)), "operand");
    activated_operand =
        DeviceBuffer(static_cast<std::size_t>(operand_bytes(OperandLayout::kFP16Panels, kInner, width)), "operand");
    fill_device(normed_operand.data(), normed_operand.bytes(), 0);
    fill_device(activated_operand.data(), activated_operand.bytes(), 0);
  }
  [[nodiscard]] Operand normed() const {
    return {.layout = OperandLayout::kFP16Panels,
            .width = width,
            .columns = kHidden,
            .exponent = 0,
            .data = normed_operand.data()};
  }
  [[nodiscard]] Operand activated() const {
    return {.layout = OperandLayout::kFP16Panels,
            .width = width,
            .columns = kInner,
            .exponent = 0,
            .data = activated_operand.data()};
  }
  // Its first columns serve as the operand of the output projection.
  [[nodiscard]] Operand mixed() const {
    Operand operand = activated();
    operand.columns = kMixed;
    return operand;
  }
  [[nodiscard]] ProductResult result(const WeightMatrix& matrix) const {
    return {.data = planes.as<float>(),
            .rows = static_cast<int>(matrix.rows),
            .width = width,
            .planes = true,
            .factor = 1e-3F,
            .plan = product_plan(matrix, kSettings)};
  }
  [[nodiscard]] NormArguments norm_arguments(const WeightMatrix& before) const {
    return {.increment = result(before),
            .tokens = tokens,
            .hidden = kHidden,
            .eps = 1e-6F,
            .x = x.as<float>(),
            .gain = gain.as<float>(),
            .out = normed()};
  }
  void norm(const CudaLaunch& launch) const { launch_residual_norm(norm_arguments(down), launch); }
  void layer(int i, const CudaLaunch& launch) const {
    product(out, out_tiles, i, mixed(), launch);
    launch_residual_norm(norm_arguments(out), launch);
    product(gate_up, gate_up_tiles, i, normed(), launch);
    activation(launch);
    product(down, down_tiles, i, activated(), launch);
    norm(launch);
    WeightMatrix matrix = input;
    matrix.tiles = tile_of(input_tiles, i);
    launch_product(matrix, normed(), side(), planes.as<float>(), kSettings, launch);
  }
  [[nodiscard]] SideRows side() const {
    return {.weights = gate_weights.as<std::uint16_t>(), .rows = kGates, .out = gates.as<float>()};
  }
  [[nodiscard]] static const std::byte* tile_of(const std::vector<DeviceBuffer>& tiles, int index) {
    return tiles[static_cast<std::size_t>(index) % tiles.size()].data();
  }
  void activation(const CudaLaunch& launch) const {
    launch_mlp_activation(result(gate_up), tokens, kInner, activated(), launch);
  }
  void product(const WeightMatrix& shape, const std::vector<DeviceBuffer>& tiles, int index, const Operand& operand,
               const CudaLaunch& launch) const {
    WeightMatrix matrix = shape;
    matrix.tiles = tile_of(tiles, index);
    launch_product(matrix, operand, {}, planes.as<float>(), kSettings, launch);
  }
};

void measure(const Probe& probe, const char* what, bool programmatic,
             const std::function<void(int, const CudaLaunch&)>& one) {
  const CudaLaunch launch{.stream = probe.stream, .programmatic = programmatic};
  const micro::GraphTime time = micro::time_graph(probe.stream, [&] {
    for (int i = 0; i < kLaunches; ++i) one(i, launch);
  });
  fmt::print("{{\"probe\": \"small\", \"what\": \"{}\", \"tokens\": {}, \"programmatic\": {}, \"us\": {:.2f}}}\n", what,
             probe.tokens, programmatic, time.median_us / kLaunches);
}

void run(int tokens) {
  const Probe probe(tokens);
  for (const bool programmatic : {false, true}) {
    measure(probe, "norm", programmatic, [&](int, const CudaLaunch& launch) { probe.norm(launch); });
    measure(probe, "activation", programmatic, [&](int, const CudaLaunch& launch) { probe.activation(launch); });
    measure(probe, "gate_up", programmatic, [&](int i, const CudaLaunch& launch) {
      probe.product(probe.gate_up, probe.gate_up_tiles, i, probe.normed(), launch);
    });
    measure(probe, "down", programmatic, [&](int i, const CudaLaunch& launch) {
      probe.product(probe.down, probe.down_tiles, i, probe.activated(), launch);
    });
    measure(probe, "out", programmatic, [&](int i, const CudaLaunch& launch) {
      probe.product(probe.out, probe.out_tiles, i, probe.mixed(), launch);
    });
    measure(probe, "out, from L2", programmatic, [&](int, const CudaLaunch& launch) {
      probe.product(probe.out, probe.out_tiles, 0, probe.mixed(), launch);
    });
    measure(probe, "down, norm", programmatic, [&](int i, const CudaLaunch& launch) {
      probe.product(probe.down, probe.down_tiles, i, probe.activated(), launch);
      probe.norm(launch);
    });
    measure(probe, "gate_up, activation", programmatic, [&](int i, const CudaLaunch& launch) {
      probe.product(probe.gate_up, probe.gate_up_tiles, i, probe.normed(), launch);
      probe.activation(launch);
    });
    measure(probe, "layer", programmatic, [&](int i, const CudaLaunch& launch) { probe.layer(i, launch); });
    measure(probe, "norm, gate_up, activation, down", programmatic, [&](int i, const CudaLaunch& launch) {
      probe.norm(launch);
      probe.product(probe.gate_up, probe.gate_up_tiles, i, probe.normed(), launch);
      probe.activation(launch);
      probe.product(probe.down, probe.down_tiles, i, probe.activated(), launch);
    });
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1) kSettings.blocks = std::stoi(argv[1]);
  if (argc > 2) kSettings.trigger_pairs = std::stoi(argv[2]);
  try {
    for (const int tokens : {1, 16}) run(tokens);
  } catch (const Error& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return exit_code(error.kind());
  }
  return 0;
}
