// Time of attention in the 27B shape: rounds as a graph of 16 layers with a cache each (what a round has of it, and
// more than L2 holds from 8k on), their tensor-core kernel alone, and prefill chunks. attention_probe [FILE]: JSON
// lines to standard output and to FILE.
#include <algorithm>
#include <cstdio>
#include <exception>
#include <memory>
#include <utility>
#include <vector>

#include "engine/backend/options.h"
#include "engine/backend/rope.h"
#include "engine/cuda/attention/attention_kernels.h"
#include "engine/cuda/device/cuda_check.h"
#include "profiles/micro/graph_time.h"
#include "profiles/micro/model_shapes.h"
#include "profiles/micro/random_numbers.h"

namespace tare::micro {
namespace {

using engine::CacheFormat;
using engine::CudaKeyValueCache;
using engine::DeviceBuffer;

constexpr engine::CudaAttentionShape kShape = kAttention27B;
constexpr int kRows = kAttentionRows27B;
constexpr std::int64_t kColumns = kMixed27B;
constexpr int kHidden = kHidden27B;
constexpr int kLayers = 16;
constexpr std::int64_t kCapacity = 131072 + 64;
constexpr std::size_t kTilesPlace = std::size_t{4} << 20;  // of partial sums, behind the queries of the kernel alone
constexpr double kReadGbps = 4534;                         // of an H200, measured (ring_probe)

std::unique_ptr<CudaKeyValueCache> random_cache(CacheFormat format, std::int64_t capacity) {
  auto cache = std::make_unique<CudaKeyValueCache>(kShape, format, format, capacity);
  fill_random(cache->keys(), cache->bytes() / 2, random_bits_of(format));
  fill_random(cache->values(), cache->bytes() / 2, random_bits_of(format));
  return cache;
}

struct Inputs {
  DeviceBuffer q_norm = random_floats(kShape.head_dim);
  DeviceBuffer k_norm = random_floats(kShape.head_dim);
  DeviceBuffer cosines, sines;
  engine::CudaAttentionWeights weights;
  engine::CudaRopeTable rope;

  Inputs() {
    const engine::RopeTable table(kCapacity, kShape.rotary_dim, 1e7);
    cosines = DeviceBuffer(table.cosines().size_bytes(), "rotary table");
    sines = DeviceBuffer(table.sines().size_bytes(), "rotary table");
    copy_to_device(cosines, table.cosines());
    copy_to_device(sines, table.sines());
    weights = {q_norm.as<float>(), k_norm.as<float>()};
    rope = {cosines.as<float>(), sines.as<float>()};
  }
};

void probe_rounds(const std::string& path, const Inputs& inputs, CacheFormat format, cudaStream_t stream) {
  std::vector<std::unique_ptr<CudaKeyValueCache>> caches;
  for (int layer = 0; layer < kLayers; ++layer) caches.push_back(random_cache(format, kCapacity));
  DeviceBuffer control_memory(sizeof(engine::RoundControl), "control");
  for (const int tokens : {1, 4, 8, 16}) {
    const int width = engine::operand_width(tokens);
    engine::ProductResult qkv{
        .rows = kRows, .width = width, .planes = true, .plan = engine::cut_tiles(kRows, kHidden, 132)};
    const DeviceBuffer planes = random_floats(plane_floats(qkv.plan, width) * qkv.plan.most_planes());
    qkv.data = planes.as<float>();
    const DeviceBuffer workspace(kTilesPlace + attention_workspace_bytes(kShape, kCapacity, tokens), "work space");
    fill_random(workspace.data(), workspace.bytes(), kRandomFP16);
    engine::Operand out{.layout = engine::OperandLayout::kFP16Panels, .width = width, .columns = kColumns};
    const DeviceBuffer operand(static_cast<std::size_t>(operand_bytes(out.layout, kColumns, width)), "operand");
    out.data = operand.data();
    for (const int context : {1024, 8192, 32768, 131072}) {
      engine::RoundControl control;
      control.frontier = context - tokens;
      copy_to_device(control_memory, std::span<const engine::RoundControl>(&control, 1));
      const std::int64_t bound = engine::attention_bound(context - 1, kCapacity);
      const auto layers_us = [&](const auto& enqueue) {
        return time_graph(stream,
                          [&] {
                            for (const auto& cache : caches) enqueue(*cache);
                          })
                   .median_us /
               kLayers;
      };
      const auto round_us = [&](bool programmatic, std::int64_t bound) {
        return layers_us([&](const CudaKeyValueCache& cache) {
          launch_attention_round(inputs.weights, inputs.rope, cache, qkv, tokens, bound,
                                 control_memory.as<engine::RoundControl>(), workspace.data(), out, {},
                                 {.stream = stream, .programmatic = programmatic});
        });
      };
      const double us = round_us(true, bound);
      const double one_by_one_us = round_us(false, bound);
      const int parts = engine::parts_below(kShape.kv_heads, bound);
      const engine::ColumnPlan columns =
          engine::plan_columns(kShape.heads / kShape.kv_heads, tokens, parts * kShape.kv_heads);
      const double tiles_us = layers_us([&](const CudaKeyValueCache& cache) {
        engine::AttentionTilesArguments arguments{
            .queries = workspace.data(),
            .keys = cache.keys(),
            .values = cache.values(),
            .slots = engine::cache_slots(kCapacity),
            .heads = kShape.heads,
            .kv_heads = kShape.kv_heads,
            .positions = {.control = control_memory.as<engine::RoundControl>(), .tokens = tokens},
            .columns = columns};
        auto* sums = reinterpret_cast<float*>(workspace.data() + kTilesPlace);
        arguments.parts = {sums, reinterpret_cast<float2*>(sums + std::int64_t{parts} * tokens * kColumns)};
        (format == CacheFormat::kFP8 ? engine::launch_attention_tiles_fp8_keys
                                     : engine::launch_attention_tiles_bf16_keys)(
            format, parts, arguments, {.stream = stream, .programmatic = true});
      });
      const engine::PassPositions positions{.control = control_memory.as<engine::RoundControl>(), .tokens = tokens};
      const double begin_us = layers_us([&](const CudaKeyValueCache& cache) {
        engine::launch_attention_begin({.shape = kShape,
                                        .weights = inputs.weights,
                                        .rope = inputs.rope,
                                        .keys = cache.keys(),
                                        .values = cache.values(),
                                        .key_format = format,
                                        .value_format = format,
                                        .slots = engine::cache_slots(kCapacity),
                                        .qkv = qkv,
                                        .positions = positions,
                                        .query_form = engine::QueryForm::kFP16Columns,
                                        .columns = columns,
                                        .queries = workspace.data()},
                                       {.stream = stream, .programmatic = true});
      });
      const double merge_us = layers_us([&](const CudaKeyValueCache&) {
        auto* sums = reinterpret_cast<float*>(workspace.data() + kTilesPlace);
        engine::launch_attention_merge(
            {.shape = kShape,
             .parts = {sums, reinterpret_cast<float2*>(sums + std::int64_t{parts} * tokens * kColumns)},
             .positions = positions,
             .qkv = qkv,
             .out = out},
            {.stream = stream, .programmatic = true});
      });
      const double gigabytes = 1e-9 * static_cast<double>(context) * static_cast<double>(caches[0]->bytes_a_position());
      char line[320];
      std::snprintf(line, sizeof line,
                    R"({"probe":"attention_round","kv":"%s","tokens":%d,"context":%d,"us":%.2f,"one_by_one_us":%.2f,)"
                    R"("gbps":%.0f,"share":%.3f,"tiles_us":%.2f,"tiles_share":%.3f,"begin_us":%.2f,"merge_us":%.2f})",
                    to_text(format).c_str(), tokens, context, us, one_by_one_us, 1e6 * gigabytes / us,
                    1e6 * gigabytes / us / kReadGbps, tiles_us, 1e6 * gigabytes / tiles_us / kReadGbps, begin_us,
                    merge_us);
      append_record(path, line);
    }
  }
}

void probe_prefill(const std::string& path, const Inputs& inputs, CacheFormat format, cudaStream_t stream) {
  constexpr std::int64_t kPrefillCapacity = 16384;
  const auto cache = random_cache(format, kPrefillCapacity);
  for (const auto& [tokens, frontier] : {std::pair{2048, 0}, std::pair{8192, 0}, std::pair{2048, 6144}}) {
    const DeviceBuffer rows = random_floats(std::int64_t{tokens} * kRows);
    const engine::ProductResult qkv{.data = rows.as<float>(), .rows = kRows, .width = tokens};
    const DeviceBuffer workspace(attention_prefill_workspace_bytes(kShape, tokens), "work space");
    const DeviceBuffer operand(static_cast<std::size_t>(tokens * kColumns) * 2, "operand");
    const engine::Operand out{
        .layout = engine::OperandLayout::kBF16Rows, .width = tokens, .columns = kColumns, .data = operand.data()};
    const double us = time_graph(stream, [&] {
                        launch_attention_prefill(inputs.weights, inputs.rope, *cache, qkv, tokens, frontier,
                                                 workspace.data(), out, {.stream = stream});
                      }).median_us;
    const double pairs = static_cast<double>(tokens) * (frontier + (tokens + 1) / 2.0);
    char line[160];
    std::snprintf(line, sizeof line,
                  R"({"probe":"attention_prefill","kv":"%s","tokens":%d,"frontier":%d,"us":%.1f,"tflops":%.1f})",
                  to_text(format).c_str(), tokens, frontier, us, 4e-6 * pairs * static_cast<double>(kColumns) / us);
    append_record(path, line);
  }
}

}  // namespace
}  // namespace tare::micro

int main(int count, char** arguments) {
  using namespace tare;
  try {
    const std::string path = count > 1 ? arguments[1] : "/dev/null";
    cudaStream_t stream = nullptr;
    engine::check_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "create stream");
    const micro::Inputs inputs;
    for (const engine::CacheFormat format : {engine::CacheFormat::kFP8, engine::CacheFormat::kBF16}) {
      micro::probe_rounds(path, inputs, format, stream);
      micro::probe_prefill(path, inputs, format, stream);
    }
    engine::check_cuda(cudaStreamDestroy(stream), "destroy stream");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
  return 0;
}
