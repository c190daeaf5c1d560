// The screened head of the 27B: product of the screen, chunks and choice, in one graph and programmatic, beside the
// time in which the screen's bytes can be read. Random numbers; the whole head and its choice for comparison.
//   head_probe [BLOCKS [TOKENS ...]]: JSON lines to standard output; thread blocks of a product, 264, and tokens a
//   round, 1 4 8 16
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "base/error.h"
#include "engine/checkpoint/synthetic.h"
#include "engine/cuda/device/cuda_check.h"
#include "engine/cuda/elementwise.h"
#include "engine/cuda/head/screen_kernels.h"
#include "engine/cuda/weights/load_projection.h"
#include "profiles/gpu_read_rate.h"
#include "profiles/micro/graph_time.h"
#include "profiles/micro/model_shapes.h"
#include "profiles/micro/random_numbers.h"

namespace {

using namespace tare;
using namespace tare::engine;

constexpr int kVocab = 248320;
constexpr int kReadPasses = 5;
constexpr int kMostTokens = 16;
constexpr int kLaunches = 8;  // in a graph: what the first waits for counts little
// All that is timed comes in turn: at 16 tokens the board is at its power limit, and what comes later in a process is
// slower by up to a tenth (docs/method/heads.md).
constexpr int kTurns = 7;
constexpr int kBlocks = 264;  // two on each SM of an H200

// Of a random 27B: tiles are made on the device.
CudaProjection head_of(WeightFormat format) {
  const SyntheticCheckpoint checkpoint("synthetic:27b?seed=1");
  StackedMatrix matrix = WeightPlan(checkpoint.config(), EngineOptions{}).head();
  matrix.codec = format;
  WeightStage stage(checkpoint, staging_bytes(std::vector{matrix}));
  return load_projection(stage, matrix);
}

class Heads {
 public:
  Heads(int tokens, const ProductSettings& settings)
      : tokens_(tokens),
        settings_(settings),
        width_(operand_width(tokens)),
        x_(micro::random_floats(std::int64_t{tokens} * micro::kHidden27B)),
        normed_(micro::random_floats(std::int64_t{tokens} * micro::kHidden27B)),
        gain_(micro::random_floats(micro::kHidden27B)),
        operand_(static_cast<std::size_t>(operand_bytes(OperandLayout::kFP16Panels, micro::kHidden27B, width_)),
                 "operand"),
        bf16_operand_(static_cast<std::size_t>(operand_bytes(OperandLayout::kBF16Panels, micro::kHidden27B, width_)),
                      "operand"),
        logits_(sizeof(float) * static_cast<std::size_t>(tokens) * kVocab, "logits"),
        largest_(sizeof(std::uint32_t) * static_cast<std::size_t>(tokens) * kMostLogitChunks, "largest"),
        keys_(sizeof(RoundKeys), "keys") {
    check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    for (const DeviceBuffer* buffer : {&operand_, &bf16_operand_}) fill_device(buffer->data(), buffer->bytes(), 0);
  }
  Heads(const Heads&) = delete;
  Heads& operator=(const Heads&) = delete;
  ~Heads() { (void)cudaStreamDestroy(stream_); }

  // Norm, product and what follows, as at the end of a round; median, least and most of the turns.
  void run(WeightFormat screen_format, WeightFormat head_format, double rate) {
    const CudaProjection screen_weights = head_of(screen_format);
    const CudaProjection head_weights = head_of(head_format);
    const WeightMatrix& screen = screen_weights.matrix;
    const WeightMatrix& head = head_weights.matrix;
    const auto floats =
        std::max(product_plane_floats(screen, settings_, width_), product_plane_floats(head, settings_, width_));
    const DeviceBuffer planes(static_cast<std::size_t>(floats) * sizeof(float), "planes");
    const auto product = [&](const WeightMatrix& matrix, const CudaLaunch& launch) {
      norm(matrix, launch);
      return launch_product(matrix, operand_of(matrix), {}, planes.as<float>(), settings_, launch);
    };
    const auto choose = [&](const ProductResult& result, const CudaLaunch& launch) {
      launch_screen_choice({.screen = result,
                            .tokens = tokens_,
                            .largest = largest_.as<std::uint32_t>(),
                            .head = head,
                            .hidden = normed_.as<float>(),
                            .rounded = true,
                            .keys = keys_.as<RoundKeys>()},
                           launch);
    };
    const double floor_us = 1e6 * static_cast<double>(screen_weights.bytes()) / rate;
    std::vector<Chain> chains;
    const auto measure = [&](const char* what, std::function<void(const CudaLaunch&)> one) {
      chains.push_back({.what = what, .one = std::move(one), .us = {}});
    };
    measure("norm", [&](const CudaLaunch& launch) { norm(screen, launch); });
    measure("norm, screen", [&](const CudaLaunch& launch) { product(screen, launch); });
    measure("norm, screen, chunks", [&](const CudaLaunch& launch) {
      launch_screen_chunks(product(screen, launch), tokens_, largest_.as<std::uint32_t>(), keys_.as<RoundKeys>(),
                           launch);
    });
    measure("norm, screen, chunks, choice", [&](const CudaLaunch& launch) {
      const ProductResult result = product(screen, launch);
      launch_screen_chunks(result, tokens_, largest_.as<std::uint32_t>(), keys_.as<RoundKeys>(), launch);
      choose(result, launch);
    });
    measure("norm, whole head, logits", [&](const CudaLaunch& launch) {
      launch_logits(product(head, launch), tokens_, logits_.as<float>(), keys_.as<RoundKeys>(), launch);
    });
    for (int turn = 0; turn < kTurns; ++turn)
      for (Chain& chain : chains) chain.us.push_back(time(chain));
    for (Chain& chain : chains) {
      std::sort(chain.us.begin(), chain.us.end());
      const double us = chain.us[kTurns / 2];
      fmt::print(
          R"({{"probe": "head", "what": "{}", "tokens": {}, "blocks": {}, "screen": "{}", "head": "{}", "us": {:.2f}, )"
          R"("least_us": {:.2f}, "most_us": {:.2f}, "screen_floor_us": {:.2f}, "over_floor": {:.3f}, )"
          R"("read_rate_gbps": {:.0f}}})"
          "\n",
          chain.what, tokens_, settings_.blocks, to_text(screen_format), to_text(head_format), us, chain.us.front(),
          chain.us.back(), floor_us, us / floor_us, 1e-9 * rate);
    }
  }

 private:
  struct Chain {
    const char* what;
    std::function<void(const CudaLaunch&)> one;
    std::vector<double> us;  // of a head, by turn
  };

  int tokens_;
  ProductSettings settings_;
  int width_;
  cudaStream_t stream_ = nullptr;
  DeviceBuffer x_, normed_, gain_, operand_, bf16_operand_, logits_, largest_, keys_;

  [[nodiscard]] double time(const Chain& chain) const {
    const CudaLaunch launch{.stream = stream_, .programmatic = true};
    launch_empty_keys(keys_.as<RoundKeys>(), {.stream = stream_});
    const auto heads = [&] {
      for (int i = 0; i < kLaunches; ++i) chain.one(launch);
    };
    return micro::time_graph(stream_, heads).median_us / kLaunches;
  }
  [[nodiscard]] Operand operand_of(const WeightMatrix& matrix) const {
    const bool bf16 = matrix.format == WeightFormat::kBF16;
    return {.layout = bf16 ? OperandLayout::kBF16Panels : OperandLayout::kFP16Panels,
            .width = width_,
            .columns = micro::kHidden27B,
            .data = bf16 ? bf16_operand_.data() : operand_.data()};
  }
  void norm(const WeightMatrix& reader, const CudaLaunch& launch) const {
    launch_residual_norm({.increment = {},
                          .tokens = tokens_,
                          .hidden = micro::kHidden27B,
                          .eps = 1e-6F,
                          .x = x_.as<float>(),
                          .gain = gain_.as<float>(),
                          .out = operand_of(reader),
                          .normed = normed_.as<float>()},
                         launch);
  }
};

}  // namespace

int main(int count, char** arguments) {
  try {
    std::vector<int> numbers;
    for (const char* argument : std::span(arguments + 1, arguments + count)) numbers.push_back(std::atoi(argument));
    const ProductSettings settings{.blocks = numbers.empty() ? kBlocks : numbers[0]};
    std::vector<int> rounds = {1, 4, 8, 16};
    if (numbers.size() > 1) rounds.assign(numbers.begin() + 1, numbers.end());
    const profiles::ReadRateSource source = profiles::gpu_read_rate(0);
    const double rate = source.make(source.beyond_caches)->measure(kReadPasses);
    for (const int tokens : rounds) {
      Heads heads(tokens, settings);
      heads.run(WeightFormat::kQ4, WeightFormat::kBF16, rate);
      if (tokens != 1 && tokens != kMostTokens) continue;
      heads.run(WeightFormat::kQ4, WeightFormat::kQ8, rate);
      if (tokens == kMostTokens) heads.run(WeightFormat::kQ3, WeightFormat::kBF16, rate);
    }
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 1;
  }
  return 0;
}
