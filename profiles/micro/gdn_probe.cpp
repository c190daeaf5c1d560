// Time of the GDN kernels at the 27B shape: 48 layers after each other as one graph, each with its own state (150 MB in
// all, so that it comes from memory), products as planes of a 264-block cut. JSON lines on standard output.
//
//   gdn_probe [--only-rounds | --between-products]
//
// --between-products: what a launch adds to a chain of the q4 products before and after it (q, k, v and z; output), as
// they follow each other in a round.
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/philox.h"
#include "engine/backend/options.h"
#include "engine/cuda/device/cuda_check.h"
#include "engine/cuda/gdn/gdn_pass.h"
#include "profiles/micro/graph_time.h"
#include "profiles/micro/random_tiles.h"

namespace {

using namespace tare;
using namespace tare::engine;

constexpr int kLayers = 48;
constexpr int kHidden = 5120;
constexpr CudaGdnShape kShape{.key_heads = 16, .value_heads = 48, .dk = 128, .dv = 128, .taps = 4, .eps = 1e-6F};
constexpr int kRows = kShape.channels() + kShape.value_heads * kShape.dv;
constexpr int kColumns = kShape.value_heads * kShape.dv;
constexpr int kBlocks = 264;
constexpr int kPrefillTokens = 2048;
constexpr int kWeightCopies = 6;  // 375 MB of weights: more than L2 holds

DeviceBuffer random_floats(std::size_t count, float size, std::uint64_t stream) {
  Philox random(5, stream);
  std::vector<float> block(std::min<std::size_t>(count, 1U << 18U));
  for (float& value : block) value = size * static_cast<float>(random.normal());
  DeviceBuffer buffer(count * sizeof(float), "a probe's input");
  for (std::size_t at = 0; at < count; at += block.size()) {
    const std::size_t some = std::min(block.size(), count - at);
    copy_to_device(buffer.data() + at * sizeof(float), std::as_bytes(std::span(block).first(some)));
  }
  return buffer;
}

// exp(A_log) of trained layers lies around 1, over a few powers of ten.
DeviceBuffer random_rates(int count) {
  Philox random(5, 2);
  std::vector<float> rates;
  for (int i = 0; i < count; ++i) rates.push_back(static_cast<float>(std::exp(2 * random.normal() - 2)));
  DeviceBuffer buffer(rates.size() * sizeof(float), "a probe's input");
  copy_to_device(buffer, std::span<const float>(rates));
  return buffer;
}

struct Probe {
  cudaStream_t stream = nullptr;
  DeviceBuffer convolution = random_floats(static_cast<std::size_t>(kShape.channels() * kShape.taps), 0.5F, 1);
  DeviceBuffer decay_rate = random_rates(kShape.value_heads);
  DeviceBuffer dt_bias = random_floats(kShape.value_heads, 1.0F, 3);
  DeviceBuffer norm = random_floats(static_cast<std::size_t>(kShape.dv), 1.0F, 4);
  DeviceBuffer control{sizeof(RoundControl), "a probe's control"};

  // Of a tree node n goes on from node (n - 1) / 2.
  void set_control(int pending, int half, bool tree = false) const {
    RoundControl values;
    if (tree) {
      for (int node = 1; node < kMostTreeNodes; ++node) {
        values.parents[node] = (node - 1) / 2;
        values.depths[node] = values.depths[values.parents[node]] + 1;
        values.ancestors[node] = values.ancestors[values.parents[node]] | 1U << node;
      }
    }
    values.pending = pending;
    values.half = half;
    copy_to_device(control, std::span<const RoundControl>(&values, 1));
  }
  [[nodiscard]] GdnPass pass(const CudaGdnCache& cache, const ProductResult& qkvz, const ProductResult& gates,
                             int tokens, const Operand& out, bool absorb) const {
    GdnPass result;
    result.shape = kShape;
    result.weights = {convolution.as<float>(), decay_rate.as<float>(), dt_bias.as<float>(), norm.as<float>()};
    result.memory = gdn_memory(cache);
    result.qkvz = qkvz;
    result.gates = gates;
    result.tokens = tokens;
    result.control = control.as<RoundControl>();
    result.out = out;
    result.absorb = absorb;
    return result;
  }
};

// Panels of random FP16 numbers between 1/4 and 1/2 in size; so read, group sums are finite too.
DeviceBuffer random_panels(std::int64_t columns, int width) {
  Philox random(5, 10);
  std::vector<std::uint16_t> halves(
      static_cast<std::size_t>(operand_bytes(OperandLayout::kFP16Panels, columns, width)) / sizeof(std::uint16_t));
  for (std::uint16_t& half : halves) half = static_cast<std::uint16_t>(0x3400U | (random.below(1U << 16U) & 0x83FFU));
  DeviceBuffer buffer(halves.size() * sizeof(std::uint16_t), "a probe's operand");
  copy_to_device(buffer, std::span<const std::uint16_t>(halves));
  return buffer;
}

ProductResult plain_rows(const DeviceBuffer& memory, int rows) {
  ProductResult result;
  result.data = memory.as<float>();
  result.rows = rows;
  return result;
}

void time_rounds(const Probe& probe, StateFormat format) {
  std::vector<std::unique_ptr<CudaGdnCache>> caches;
  for (int layer = 0; layer < kLayers; ++layer) {
    caches.push_back(std::make_unique<CudaGdnCache>(kShape, format, CacheFormat::kFP32));
    caches.back()->reset(probe.stream);
  }
  const DeviceBuffer gates_memory = random_floats(static_cast<std::size_t>(32 * 2 * kShape.value_heads), 1.0F, 6);
  for (const int tokens : {1, 4, 8, 16, 32}) {
    const int width = operand_width(tokens);
    ProductResult qkvz;
    qkvz.rows = kRows;
    qkvz.width = width;
    qkvz.planes = true;
    qkvz.plan = cut_tiles(kRows, kHidden, kBlocks);
    const DeviceBuffer planes =
        random_floats(static_cast<std::size_t>(plane_floats(qkvz.plan, width) * qkvz.plan.most_planes()), 0.5F, 7);
    qkvz.data = planes.as<float>();
    const DeviceBuffer out(static_cast<std::size_t>(operand_bytes(OperandLayout::kFP16Panels, kColumns, width)),
                           "a probe's output");
    const Operand operand{OperandLayout::kFP16Panels, width, kColumns, 0, out.data()};
    for (const GdnForm form : {GdnForm::kRecurrent, GdnForm::kChunked}) {
      for (const int slices : {2, 1}) {
        if (slices == 1 && tokens != 16) continue;
        for (const int pending : tokens == 1 ? std::vector{0, 1} : std::vector{0, 1, tokens}) {
          if (pending == 1 && tokens > 1 && tokens < 16) continue;
          for (const bool programmatic : {false, true}) {
            const auto enqueue = [&] {
              for (const auto& cache : caches) {
                launch_gdn_pass(
                    "gdn_round", form, slices,
                    probe.pass(*cache, qkvz, plain_rows(gates_memory, 2 * kShape.value_heads), tokens, operand, false),
                    {.stream = probe.stream, .programmatic = programmatic, .records = nullptr, .part = {}, .bytes = 0});
              }
            };
            probe.set_control(0, 1);
            enqueue();  // something to fold
            check_cuda(cudaStreamSynchronize(probe.stream), "the first pass");
            probe.set_control(pending, 0);
            const micro::GraphTime time = micro::time_graph(probe.stream, enqueue);
            fmt::print(
                R"({{"what": "gdn_round", "form": "{}", "state": "{}", "slices": {}, "tokens": {}, "pending": {}, )"
                R"("programmatic": {}, "us_a_layer": {:.3f}, "least": {:.3f}}})"
                "\n",
                to_text(form), to_text(format), slices, tokens, pending, programmatic, time.median_us / kLayers,
                time.least_us / kLayers);
          }
        }
      }
    }
  }
}

void time_prefill(const Probe& probe) {
  CudaGdnCache cache(kShape, StateFormat::kFP32, CacheFormat::kFP32);
  cache.reset(probe.stream);
  const DeviceBuffer qkvz = random_floats(static_cast<std::size_t>(kPrefillTokens) * kRows, 0.5F, 8);
  const DeviceBuffer gates = random_floats(static_cast<std::size_t>(kPrefillTokens * 2 * kShape.value_heads), 1.0F, 9);
  const DeviceBuffer out(static_cast<std::size_t>(operand_bytes(OperandLayout::kBF16Rows, kColumns, kPrefillTokens)),
                         "a probe's output");
  const Operand operand{OperandLayout::kBF16Rows, kPrefillTokens, kColumns, 0, out.data()};
  probe.set_control(0, 0);
  for (const GdnForm form : {GdnForm::kRecurrent, GdnForm::kChunked}) {
    const micro::GraphTime time = micro::time_graph(probe.stream, [&] {
      launch_gdn_pass("gdn_prefill", form, gdn_slices_of_device(),
                      probe.pass(cache, plain_rows(qkvz, kRows), plain_rows(gates, 2 * kShape.value_heads),
                                 kPrefillTokens, operand, true),
                      {.stream = probe.stream, .programmatic = false, .records = nullptr, .part = {}, .bytes = 0});
    });
    fmt::print(R"({{"what": "gdn_prefill", "form": "{}", "tokens": {}, "us": {:.1f}, "ns_a_token": {:.1f}}})"
               "\n",
               to_text(form), kPrefillTokens, time.median_us, 1e3 * time.median_us / kPrefillTokens);
  }
}

struct Projection {
  DeviceBuffer tiles;
  WeightMatrix matrix;
  ProductSettings settings;
  DeviceBuffer planes;

  Projection(std::int64_t rows, std::int64_t columns, const ProductSettings& settings_in)
      : tiles(micro::random_tiles(WeightFormat::kQ4, rows, columns, kWeightCopies)),
        matrix{WeightFormat::kQ4, rows, columns, tiles.data()},
        settings(settings_in),
        planes(static_cast<std::size_t>(product_plane_floats(matrix, settings, kMostRoundTokens)) * sizeof(float),
               "a probe's planes") {}
  ProductResult launch(int layer, const Operand& operand, const CudaLaunch& launch) const {
    WeightMatrix copy = matrix;
    copy.tiles += tile_bytes(matrix.format, matrix.rows, matrix.columns) * (layer % kWeightCopies);
    return launch_product(copy, operand, {}, planes.as<float>(), settings, launch);
  }
};

void time_between_products(const Probe& probe) {
  std::vector<std::unique_ptr<CudaGdnCache>> caches;
  for (int layer = 0; layer < kLayers; ++layer) {
    caches.push_back(std::make_unique<CudaGdnCache>(kShape, StateFormat::kFP32, CacheFormat::kFP32));
    caches.back()->reset(probe.stream);
  }
  const Projection qkvz(kRows, kHidden, {.blocks = kBlocks});
  const Projection output_by_twos(kHidden, kColumns, {.blocks = kBlocks});
  const Projection output_alone(kHidden, kColumns, {.blocks = kBlocks / 2, .alone = true});  // as the engine has it
  const DeviceBuffer gates = random_floats(static_cast<std::size_t>(kMostRoundTokens * 2 * kShape.value_heads), 1, 6);
  const CudaLaunch launch{.stream = probe.stream, .programmatic = true, .records = nullptr, .part = {}, .bytes = 0};
  struct Verify {
    int tokens;
    int pending;
    bool tree;
    bool alone = false;  // the output projection's blocks
  };
  for (const Verify& verify :
       {Verify{1, 1, false}, Verify{8, 4, false}, Verify{16, 4, false}, Verify{16, 16, false}, Verify{16, 4, true},
        Verify{1, 1, false, true}, Verify{16, 4, false, true}, Verify{16, 4, true, true}}) {
    const Projection& output = verify.alone ? output_alone : output_by_twos;
    const int tokens = verify.tokens;
    const int width = operand_width(tokens);
    const DeviceBuffer normed = random_panels(kHidden, width);
    const DeviceBuffer mixed = random_panels(kColumns, width);
    const Operand input{OperandLayout::kFP16Panels, width, kHidden, 0, normed.data()};
    const Operand between{OperandLayout::kFP16Panels, width, kColumns, 0, mixed.data()};
    for (const GdnForm form : {GdnForm::kRecurrent, GdnForm::kChunked}) {
      if (tokens == 1 && form == GdnForm::kChunked) continue;  // no form of its own
      const auto enqueue = [&](bool with_gdn) {
        for (int layer = 0; layer < kLayers; ++layer) {
          const ProductResult planes = qkvz.launch(layer, input, launch);
          if (with_gdn) {
            GdnPass pass = probe.pass(*caches[static_cast<std::size_t>(layer)], planes,
                                      plain_rows(gates, 2 * kShape.value_heads), tokens, between, false);
            pass.tree = verify.tree;
            launch_gdn_pass("gdn_round", form, gdn_slices_of_device(), pass, launch);
          }
          output.launch(layer, between, launch);
        }
      };
      probe.set_control(0, 1, verify.tree);
      enqueue(true);  // something to fold
      check_cuda(cudaStreamSynchronize(probe.stream), "the first pass");
      probe.set_control(verify.pending, 0, verify.tree);
      const micro::GraphTime with = micro::time_graph(probe.stream, [&] { enqueue(true); });
      const micro::GraphTime without = micro::time_graph(probe.stream, [&] { enqueue(false); });
      fmt::print(R"({{"what": "gdn_between_products", "form": "{}", "tokens": {}, "tree": {}, "pending": {}, )"
                 R"("out_alone": {}, "us_a_layer": {:.3f}, "without_gdn": {:.3f}, "added": {:.3f}}})"
                 "\n",
                 to_text(form), tokens, verify.tree, verify.pending, verify.alone, with.median_us / kLayers,
                 without.median_us / kLayers, (with.median_us - without.median_us) / kLayers);
    }
  }
}

}  // namespace

int main(int count, char** arguments) {
  try {
    Probe probe;
    check_cuda(cudaStreamCreate(&probe.stream), "cudaStreamCreate");
    const std::string_view choice = count > 1 ? arguments[1] : "";
    if (choice == "--between-products") {
      time_between_products(probe);
      return 0;
    }
    time_rounds(probe, StateFormat::kFP32);
    if (choice != "--only-rounds") {
      time_rounds(probe, StateFormat::kFP16);
      time_prefill(probe);
    }
  } catch (const Error& error) {
    fmt::print(stderr, "error: {}: {}\n", error.parts().where, error.parts().what);
    return exit_code(error.kind());
  }
  return 0;
}
