#include "engine/cuda/attention/attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "base/error.h"
#include "engine/cuda/attention/attention_kernels.h"
#include "engine/cuda/device/cuda_check.h"

namespace tare::engine {

namespace {

// Bounds below which rounds start fewer thread blocks; above the last the number of parts no longer grows. The first is
// that of the 27B's two groups of a verify (attention_layout.h: part_positions).
constexpr std::int64_t kBounds[] = {2048, 4096};
// The plain kernel takes a prefill chunk in slices, so that its FP32 work space stays small.
constexpr int kPlainSlice = 512;

void require(bool holds, const char* what, int value) {
  if (!holds) {
    throw Error(ErrorKind::kInput, fmt::format("the CUDA attention kernels do not support {} {}", what, value),
                "config.json");
  }
}

int current_compute_major() {
  int device = 0;
  int major = 0;
  check_cuda(cudaGetDevice(&device), "cudaGetDevice");
  check_cuda(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), "cudaDeviceGetAttribute");
  return major;
}

// Tensor cores take what is tiled, on Hopper: others have too little shared memory or no bulk copies.
bool uses_tensor_cores(const CudaKeyValueCache& cache) {
  return cache.shape.head_dim == kTensorHeadDim && has_tiles_kernel(cache.key_format, cache.value_format) &&
         current_compute_major() == 9;
}

void launch_round_tiles(CacheFormat key, CacheFormat value, int parts, const AttentionTilesArguments& arguments,
                        const CudaLaunch& launch) {
  if (has_scales(key) || has_scales(value)) return launch_attention_tiles_scales(key, value, parts, arguments, launch);
  if (key == CacheFormat::kFP8) return launch_attention_tiles_fp8_keys(value, parts, arguments, launch);
  launch_attention_tiles_bf16_keys(value, parts, arguments, launch);
}
void launch_prefill_tiles(CacheFormat key, CacheFormat value, const AttentionTilesArguments& arguments,
                          const CudaLaunch& launch) {
  if (has_scales(key) || has_scales(value)) return launch_attention_prefill_scales(key, value, arguments, launch);
  launch_attention_prefill_tiles(key, value, arguments, launch);
}

constexpr std::size_t kAlignment = 256;
std::size_t aligned(std::int64_t bytes) {
  return (static_cast<std::size_t>(bytes) + kAlignment - 1) / kAlignment * kAlignment;
}

std::size_t cache_bytes(const CudaAttentionShape& shape, CacheFormat format, std::int64_t capacity) {
  return static_cast<std::size_t>(cache_slots(capacity) * shape.kv_heads * cache_row_bytes(format, shape.head_dim));
}

std::size_t plain_query_bytes(const CudaAttentionShape& shape, std::int64_t tokens) {
  return aligned(tokens * shape.heads * shape.head_dim * 4);
}
std::size_t column_query_bytes(const CudaAttentionShape& shape, const ColumnPlan& columns) {
  return aligned(static_cast<std::int64_t>(shape.kv_heads) * columns.groups * columns.column_tiles *
                 kColumnTileElements * 2);
}
std::size_t sums_bytes(const CudaAttentionShape& shape, std::int64_t rows) {
  return aligned(rows * shape.heads * shape.head_dim * 4);
}
std::size_t ends_bytes(const CudaAttentionShape& shape, std::int64_t rows) {
  return aligned(rows * shape.heads * 8);
}

ColumnPlan round_columns(const CudaAttentionShape& shape, std::int64_t context_bound, int tokens, bool mixed) {
  return plan_columns(shape.heads / shape.kv_heads, tokens, parts_below(shape.kv_heads, context_bound) * shape.kv_heads,
                      mixed ? std::span<const int>(kMixedColumnTileCounts) : kColumnTileCounts);
}
ColumnPlan prefill_columns(const CudaAttentionShape& shape, int tokens) {
  const int a_group = 8 * kMostColumnTiles / (shape.heads / shape.kv_heads);
  return {kMostColumnTiles, a_group, (tokens + a_group - 1) / a_group};
}

// One pass over the cache: its parts of the work space, and the kernels' arguments from them.
struct Pass {
  const CudaAttentionWeights& weights;
  const CudaRopeTable& rope;
  const CudaKeyValueCache& cache;
  ProductResult qkv;
  PassPositions positions;
  std::byte* workspace = nullptr;
  Operand out;

  void begin(QueryForm form, const ColumnPlan& columns, CudaLaunch launch) const {
    const CudaAttentionShape& shape = cache.shape;
    launch.bytes = static_cast<std::uint64_t>(positions.tokens) *
                   (static_cast<std::uint64_t>(qkv.rows) * 4 + static_cast<std::uint64_t>(cache.bytes_a_position()));
    launch_attention_begin(
        {.shape = shape,
         .weights = weights,
         .rope = rope,
         .keys = cache.keys(),
         .values = cache.values(),
         .key_format = cache.key_format,
         .value_format = cache.value_format,
         .slots = cache_slots(cache.capacity),
         .qkv = qkv,
         .positions = positions,
         .query_form = form,
         .columns = columns,
         .query_factor = std::numbers::log2e_v<float> / std::sqrt(static_cast<float>(shape.head_dim)),
         .hadamard_factor = cache.rotation == KeyRotation::kHadamard
                                ? static_cast<float>(1.0 / std::sqrt(static_cast<double>(shape.head_dim)))
                                : 0.0F,
         .queries = workspace},
        launch);
  }
  [[nodiscard]] AttentionParts parts_after(std::size_t query_bytes, std::int64_t rows) const {
    std::byte* sums = workspace + query_bytes;
    return {reinterpret_cast<float*>(sums), reinterpret_cast<float2*>(sums + sums_bytes(cache.shape, rows))};
  }
  [[nodiscard]] AttentionTilesArguments tiles(const ColumnPlan& columns) const {
    return {.queries = workspace,
            .keys = cache.keys(),
            .values = cache.values(),
            .slots = cache_slots(cache.capacity),
            .heads = cache.shape.heads,
            .kv_heads = cache.shape.kv_heads,
            .positions = positions,
            .columns = columns,
            .qkv = qkv,
            .out = out};
  }
  void plain(int parts, bool one_part, const L2Fill& fill, const CudaLaunch& launch) const {
    begin(QueryForm::kFP32Rows, {}, launch);
    const std::int64_t rows = static_cast<std::int64_t>(parts) * positions.tokens;
    const AttentionParts partial = parts_after(plain_query_bytes(cache.shape, positions.tokens), rows);
    CudaLaunch reading = launch;
    reading.bytes_a_position = static_cast<std::uint64_t>(cache.bytes_a_position());
    launch_attention_plain(parts,
                           {.shape = cache.shape,
                            .queries = reinterpret_cast<const float*>(workspace),
                            .keys = cache.keys(),
                            .values = cache.values(),
                            .key_format = cache.key_format,
                            .value_format = cache.value_format,
                            .slots = cache_slots(cache.capacity),
                            .positions = positions,
                            .one_part = one_part,
                            .parts = partial,
                            .fill = fill},
                           reading);
    merge(partial, one_part, launch);
  }
  void merge(const AttentionParts& parts, bool one_part, const CudaLaunch& launch) const {
    launch_attention_merge(
        {.shape = cache.shape, .parts = parts, .positions = positions, .one_part = one_part, .qkv = qkv, .out = out},
        launch);
  }
};

void check_pass(const CudaKeyValueCache& cache, const Operand& out) {
  if (out.columns != static_cast<std::int64_t>(cache.shape.heads) * cache.shape.head_dim) {
    throw internal_error("the operand of attention has other columns than its heads");
  }
}

}  // namespace

void check_attention_shape(const CudaAttentionShape& shape) {
  require(shape.kv_heads > 0, "a number of key-value heads of", shape.kv_heads);
  require(shape.heads > 0 && shape.heads % shape.kv_heads == 0, "a number of query heads of", shape.heads);
  require(shape.head_dim > 0 && shape.head_dim % 8 == 0 && shape.head_dim <= kMostHeadDim, "a head dimension of",
          shape.head_dim);
  require(shape.rotary_dim > 0 && shape.rotary_dim % 2 == 0 && shape.rotary_dim <= shape.head_dim,
          "a rotary dimension of", shape.rotary_dim);
  const int a_kv_head = shape.heads / shape.kv_heads;
  require(a_kv_head <= 8 * kMostColumnTiles, "a number of query heads a key-value head of", a_kv_head);
}

std::size_t key_value_cache_bytes(const CudaAttentionShape& shape, CacheFormat key, CacheFormat value,
                                  std::int64_t capacity) {
  return cache_bytes(shape, key, capacity) + cache_bytes(shape, value, capacity);
}

CudaKeyValueCache::CudaKeyValueCache(const CudaAttentionShape& shape_, CacheFormat key, CacheFormat value,
                                     std::int64_t capacity_, KeyRotation rotation_)
    : shape(shape_), key_format(key), value_format(value), capacity(capacity_), rotation(rotation_) {
  keys_ = DeviceBuffer(cache_bytes(shape, key, capacity), "key cache");
  values_ = DeviceBuffer(cache_bytes(shape, value, capacity), "value cache");
}

std::int64_t CudaKeyValueCache::bytes_a_position() const {
  return static_cast<std::int64_t>(shape.kv_heads) *
         (cache_row_bytes(key_format, shape.head_dim) + cache_row_bytes(value_format, shape.head_dim));
}

std::int64_t attention_bound(std::int64_t position, std::int64_t capacity) {
  for (const std::int64_t bound : kBounds) {
    if (position < bound && bound < capacity) return bound;
  }
  return capacity;
}

std::size_t attention_workspace_bytes(const CudaAttentionShape& shape, std::int64_t context_bound, int tokens) {
  std::size_t queries = plain_query_bytes(shape, tokens);
  if (shape.head_dim == kTensorHeadDim) {
    for (int count = 1; count <= tokens; ++count) {
      for (const bool mixed : {false, true}) {
        const ColumnPlan columns = round_columns(shape, context_bound, count, mixed);
        queries = std::max(queries, column_query_bytes(shape, columns));
      }
    }
  }
  const std::int64_t rows = static_cast<std::int64_t>(parts_below(shape.kv_heads, context_bound)) * tokens;
  return queries + sums_bytes(shape, rows) + ends_bytes(shape, rows);
}

void launch_attention_round(const CudaAttentionWeights& weights, const CudaRopeTable& rope,
                            const CudaKeyValueCache& cache, const ProductResult& qkv, int tokens,
                            std::int64_t context_bound, const RoundControl* control, std::byte* workspace,
                            const Operand& out, const L2Fill& fill, const CudaLaunch& launch) {
  check_pass(cache, out);
  const CudaAttentionShape& shape = cache.shape;
  const int parts = parts_below(shape.kv_heads, context_bound);
  const Pass pass{.weights = weights,
                  .rope = rope,
                  .cache = cache,
                  .qkv = qkv,
                  .positions = {.control = control, .tokens = tokens, .by_position = !uses_tensor_cores(cache)},
                  .workspace = workspace,
                  .out = out};
  if (!uses_tensor_cores(cache)) return pass.plain(parts, false, fill, launch);

  const ColumnPlan columns =
      round_columns(shape, context_bound, tokens, mixes_scales(cache.key_format, cache.value_format));
  pass.begin(QueryForm::kFP16Columns, columns, launch);
  AttentionTilesArguments arguments = pass.tiles(columns);
  arguments.parts = pass.parts_after(column_query_bytes(shape, columns), static_cast<std::int64_t>(parts) * tokens);
  arguments.fill = fill;
  CudaLaunch reading = launch;
  reading.bytes_a_position = static_cast<std::uint64_t>(cache.bytes_a_position());
  launch_round_tiles(cache.key_format, cache.value_format, parts, arguments, reading);
  pass.merge(arguments.parts, false, launch);
}

CudaKeyValueMove::CudaKeyValueMove(std::span<const CudaKeyValueCache* const> layers)
    : any_(layers.empty() ? nullptr : layers.front()),
      layers_(static_cast<int>(layers.size())),
      table_(layers.size() * sizeof(AttentionMoveLayer), "addresses of the key-value caches") {
  std::vector<AttentionMoveLayer> table;
  table.reserve(layers.size());
  for (const CudaKeyValueCache* cache : layers) table.push_back({cache->keys(), cache->values()});
  copy_to_device(table_, std::span<const AttentionMoveLayer>(table));
}

void CudaKeyValueMove::launch(const RoundControl* control, const CudaLaunch& launch) const {
  if (layers_ == 0) return;
  launch_attention_move(layers_,
                        {.shape = any_->shape,
                         .key_format = any_->key_format,
                         .value_format = any_->value_format,
                         .slots = cache_slots(any_->capacity),
                         .layers = table_.as<AttentionMoveLayer>(),
                         .control = control},
                        launch);
}

std::size_t attention_prefill_workspace_bytes(const CudaAttentionShape& shape, std::int64_t tokens) {
  const std::int64_t slice = std::min<std::int64_t>(tokens, kPlainSlice);
  const std::size_t plain = plain_query_bytes(shape, slice) + sums_bytes(shape, slice) + ends_bytes(shape, slice);
  if (shape.head_dim != kTensorHeadDim) return plain;
  return std::max(plain, column_query_bytes(shape, prefill_columns(shape, static_cast<int>(tokens))));
}

void launch_attention_prefill(const CudaAttentionWeights& weights, const CudaRopeTable& rope,
                              const CudaKeyValueCache& cache, const ProductResult& qkv, int tokens,
                              std::int64_t frontier, std::byte* workspace, const Operand& out,
                              const CudaLaunch& launch) {
  check_pass(cache, out);
  if (qkv.planes) throw internal_error("prefill attention reads plain rows");
  Pass pass{.weights = weights,
            .rope = rope,
            .cache = cache,
            .qkv = qkv,
            .positions = {.first = static_cast<int>(frontier), .tokens = tokens},
            .workspace = workspace,
            .out = out};
  if (uses_tensor_cores(cache)) {
    const ColumnPlan columns = prefill_columns(cache.shape, tokens);
    pass.begin(QueryForm::kFP16Columns, columns, launch);
    CudaLaunch tiles = launch;
    tiles.bytes = static_cast<std::uint64_t>(frontier + tokens) * static_cast<std::uint64_t>(cache.bytes_a_position());
    return launch_prefill_tiles(cache.key_format, cache.value_format, pass.tiles(columns), tiles);
  }
  const std::int64_t out_row = out.columns * (out.layout == OperandLayout::kFP32Rows ? 4 : 2);
  for (int first = 0; first < tokens; first += kPlainSlice) {
    const int count = std::min(kPlainSlice, tokens - first);
    pass.qkv.data = qkv.data + static_cast<std::int64_t>(first) * qkv.rows;
    pass.positions = {.first = static_cast<int>(frontier) + first, .tokens = count};
    pass.out.data = out.data + first * out_row;
    pass.out.width = count;
    pass.plain(1, true, {}, launch);
  }
}

}  // namespace tare::engine
