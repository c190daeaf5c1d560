// Gated DeltaNet of a round, all tokens of the round before it committed: gdn/FORM/STATE/T:TOKENS. Bytes are the state,
// read and written once.
#include <fmt/format.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/backend/options.h"
#include "profiles/micro/gpu_bench.h"
#include "profiles/micro/model_shapes.h"
#include "profiles/micro/random_numbers.h"

namespace tare::micro {
namespace {

using engine::CudaGdnCache;
using engine::DeviceBuffer;
using engine::GdnForm;
using engine::StateFormat;

constexpr GdnForm kForms[] = {GdnForm::kRecurrent, GdnForm::kChunked};
constexpr StateFormat kStates[] = {StateFormat::kFP32, StateFormat::kFP16, StateFormat::kInt8};
constexpr int kTokens[] = {1, 4, 8, 16, 32};

void gdn(benchmark::State& state, GdnForm form, StateFormat format, int tokens) {
  const std::size_t bytes_a_layer = gdn_cache_bytes(kGdn27B, format, engine::CacheFormat::kFP32).state;
  const std::size_t layers = kCachesApart * l2_bytes() / bytes_a_layer + 1;
  std::vector<std::unique_ptr<CudaGdnCache>> caches;
  for (std::size_t layer = 0; layer < layers; ++layer) {
    caches.push_back(std::make_unique<CudaGdnCache>(kGdn27B, format, engine::CacheFormat::kFP32));
    caches.back()->reset(nullptr);
  }
  const DeviceBuffer convolution = random_floats(std::int64_t{kGdn27B.channels()} * kGdn27B.taps);
  const DeviceBuffer decay_rate = random_floats(kGdn27B.value_heads, kRandomPositiveFP32);
  const DeviceBuffer dt_bias = random_floats(kGdn27B.value_heads);
  const DeviceBuffer norm = random_floats(kGdn27B.dv);
  const DeviceBuffer gate_rows = random_floats(std::int64_t{engine::kMostRoundTokens} * 2 * kGdn27B.value_heads);
  const engine::ProductResult gates{.data = gate_rows.as<float>(), .rows = 2 * kGdn27B.value_heads};
  const int width = engine::operand_width(tokens);
  engine::ProductResult qkvz{.rows = kGdnRows27B,
                             .width = width,
                             .planes = true,
                             .plan = engine::cut_tiles(kGdnRows27B, kHidden27B, product_blocks())};
  const DeviceBuffer planes = random_floats(plane_floats(qkvz.plan, width) * qkvz.plan.most_planes());
  qkvz.data = planes.as<float>();
  engine::Operand out{.layout = engine::OperandLayout::kFP16Panels, .width = width, .columns = kMixed27B};
  const DeviceBuffer operand(static_cast<std::size_t>(operand_bytes(out.layout, out.columns, width)), "operand");
  out.data = operand.data();
  const engine::CudaGdnWeights weights{.convolution = convolution.as<float>(),
                                       .decay_rate = decay_rate.as<float>(),
                                       .dt_bias = dt_bias.as<float>(),
                                       .norm = norm.as<float>()};
  const DeviceBuffer control_memory(sizeof(engine::RoundControl), "control");
  const auto set_control = [&](int pending, int half) {
    engine::RoundControl control;
    control.frontier = tokens;
    control.pending = pending;
    control.half = half;
    copy_to_device(control_memory, std::span<const engine::RoundControl>(&control, 1));
  };
  const auto enqueue = [&](cudaStream_t stream) {
    for (const auto& cache : caches) {
      launch_gdn_round(form, weights, *cache, qkvz, gates, tokens, false, control_memory.as<engine::RoundControl>(),
                       out, {}, {.stream = stream, .programmatic = true});
    }
  };
  set_control(0, 1);
  enqueue(nullptr);  // leaves the records that the timed passes fold
  set_control(tokens, 0);
  run_graph(state, enqueue, static_cast<int>(layers), 2 * bytes_a_layer);
}

}  // namespace

void register_gdn_benchmarks() {
  for (const GdnForm form : kForms) {
    for (const StateFormat format : kStates) {
      for (const int tokens : kTokens) {
        const std::string name = fmt::format("gdn/{}/{}/T:{}", to_text(form), to_text(format), tokens);
        benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& state) { gdn(state, form, format, tokens); })
            ->UseManualTime()
            ->Unit(benchmark::kMicrosecond);
      }
    }
  }
}

}  // namespace tare::micro
