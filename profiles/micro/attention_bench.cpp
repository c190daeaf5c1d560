// Attention of a round, all its launches (norms, rotation and append; parts of the positions; merge and gate), at
// several depths of the cache: attention/KV/context:POSITIONS/T:TOKENS, KV the format of both or KEY-VALUE. Bytes are
// the keys and values of the context.
#include <fmt/format.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/backend/options.h"
#include "engine/backend/rope.h"
#include "profiles/micro/gpu_bench.h"
#include "profiles/micro/model_shapes.h"
#include "profiles/micro/random_numbers.h"

namespace tare::micro {
namespace {

using engine::CacheFormat;
using engine::CudaKeyValueCache;
using engine::DeviceBuffer;

struct Caches {
  CacheFormat key, value;
};
// Formats alike; a pair of unlike ones on tensor cores, and one that runs in FP32.
constexpr Caches kCaches[] = {{CacheFormat::kBF16, CacheFormat::kBF16},  {CacheFormat::kFP8, CacheFormat::kFP8},
                              {CacheFormat::kInt8, CacheFormat::kInt8},  {CacheFormat::kNVFP4, CacheFormat::kNVFP4},
                              {CacheFormat::kInt8, CacheFormat::kNVFP4}, {CacheFormat::kNVFP4, CacheFormat::kInt8}};
constexpr int kContexts[] = {1024, 8192, 32768, 131072};
constexpr int kTokens[] = {1, 4, 8, 16, 32};
constexpr int kLeastLaunches = 16;
constexpr double kRopeTheta = 1e7;

void attention(benchmark::State& state, const Caches& formats, int context, int tokens) {
  const std::int64_t capacity = context;
  const std::size_t bytes_a_layer = key_value_cache_bytes(kAttention27B, formats.key, formats.value, capacity);
  const auto layers = std::max<std::size_t>(kLeastLaunches, kCachesApart * l2_bytes() / bytes_a_layer + 1);
  std::vector<std::unique_ptr<CudaKeyValueCache>> caches;
  for (std::size_t layer = 0; layer < layers; ++layer) {
    caches.push_back(std::make_unique<CudaKeyValueCache>(kAttention27B, formats.key, formats.value, capacity));
    const auto bytes = [&](CacheFormat of) { return key_value_cache_bytes(kAttention27B, of, of, capacity) / 2; };
    fill_random(caches.back()->keys(), bytes(formats.key), random_bits_of(formats.key));
    fill_random(caches.back()->values(), bytes(formats.value), random_bits_of(formats.value));
  }
  const engine::RopeTable table(capacity, kAttention27B.rotary_dim, kRopeTheta);
  const DeviceBuffer cosines(table.cosines().size_bytes(), "rotary table");
  const DeviceBuffer sines(table.sines().size_bytes(), "rotary table");
  copy_to_device(cosines, table.cosines());
  copy_to_device(sines, table.sines());
  const DeviceBuffer q_norm = random_floats(kAttention27B.head_dim);
  const DeviceBuffer k_norm = random_floats(kAttention27B.head_dim);
  const int width = engine::operand_width(tokens);
  engine::ProductResult qkv{.rows = kAttentionRows27B,
                            .width = width,
                            .planes = true,
                            .plan = engine::cut_tiles(kAttentionRows27B, kHidden27B, product_blocks())};
  const DeviceBuffer planes = random_floats(plane_floats(qkv.plan, width) * qkv.plan.most_planes());
  qkv.data = planes.as<float>();
  const std::int64_t bound = engine::attention_bound(context - 1, capacity);
  const DeviceBuffer workspace(attention_workspace_bytes(kAttention27B, bound, tokens), "work space");
  engine::Operand out{.layout = engine::OperandLayout::kFP16Panels, .width = width, .columns = kMixed27B};
  const DeviceBuffer operand(static_cast<std::size_t>(operand_bytes(out.layout, out.columns, width)), "operand");
  out.data = operand.data();
  engine::RoundControl control;
  control.frontier = context - tokens;
  const DeviceBuffer control_memory(sizeof(engine::RoundControl), "control");
  copy_to_device(control_memory, std::span<const engine::RoundControl>(&control, 1));
  run_graph(
      state,
      [&](cudaStream_t stream) {
        for (const auto& cache : caches) {
          launch_attention_round({q_norm.as<float>(), k_norm.as<float>()}, {cosines.as<float>(), sines.as<float>()},
                                 *cache, qkv, tokens, bound, control_memory.as<engine::RoundControl>(),
                                 workspace.data(), out, {}, {.stream = stream, .programmatic = true});
        }
      },
      static_cast<int>(layers), static_cast<std::size_t>(context * caches[0]->bytes_a_position()));
}

}  // namespace

void register_attention_benchmarks() {
  for (const Caches& caches : kCaches) {
    const std::string key = to_text(caches.key);
    const std::string value = to_text(caches.value);
    for (const int context : kContexts) {
      for (const int tokens : kTokens) {
        const std::string name = fmt::format("attention/{}/context:{}/T:{}",
                                             key == value ? key : fmt::format("{}-{}", key, value), context, tokens);
        benchmark::RegisterBenchmark(name.c_str(),
                                     [=](benchmark::State& state) { attention(state, caches, context, tokens); })
            ->UseManualTime()
            ->Unit(benchmark::kMicrosecond);
      }
    }
  }
}

}  // namespace tare::micro
