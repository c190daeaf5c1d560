#include "engine/cpu/block_drafter.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/json_reader.h"
#include "engine/cpu/inventory.h"
#include "engine/cpu/kv_layout.h"

namespace tare::engine {
namespace {

const EngineOptions::KeyValue kContextFormats = {CacheFormat::kFP32, CacheFormat::kFP32};

// As much of a model as a KV cache asks for.
ModelConfig cache_shape(const BlockDrafterConfig& config) {
  ModelConfig shape;
  shape.key_value_heads = config.key_value_heads;
  shape.head_dim = config.head_dim;
  return shape;
}

AlignedBuffer<float> padded_floats(std::int64_t size) {
  return AlignedBuffer<float>(static_cast<std::size_t>(round_up(size, kRowPadding)));
}

std::uint64_t vector_bytes(std::int64_t elements) {
  return static_cast<std::uint64_t>(elements) * sizeof(float);
}

}  // namespace

std::pair<std::int64_t, std::int64_t> visible_positions(const DraftLayerMask& mask, std::int64_t row,
                                                        std::int64_t count, std::int64_t frontier) {
  const std::int64_t position = frontier + row;
  std::int64_t first = 0;
  std::int64_t last = mask.causal ? position : frontier + count - 1;
  if (mask.window > 0) {
    first = std::max(first, position - mask.window + 1);
    last = std::min(last, position + mask.window - 1);
  }
  return {first, last + 1};
}

BlockDrafter::BlockDrafter(const BlockDrafterCheckpoint& checkpoint, const EngineOptions& options,
                           const ModelWeights& target, ProposalHead head, const Kernels& kernels, ThreadPool& pool,
                           std::int64_t capacity)
    : config_(checkpoint.config()),
      name_(options.speculate.drafter),
      target_(target),
      head_(std::move(head)),
      kernels_(kernels),
      pool_(pool),
      loops_(kernels, pool),
      rope_(capacity, config_.head_dim, config_.rope_theta),
      rows_(kernels, pool) {
  const bool quantized = options.activations.format == ActivationFormat::kQ8;
  const std::int64_t hidden = config_.hidden_size;
  load(checkpoint, options);
  for (std::int64_t layer = 0; layer < config_.layer_count(); ++layer) {
    caches_.emplace_back(cache_shape(config_), kContextFormats, capacity);
    context_keys_.emplace_back(config_.key_value_channels());
    context_values_.emplace_back(config_.key_value_channels());
  }
  make_ops();
  for (int thread = 0; thread < pool.size(); ++thread) {
    ThreadSpace& space = spaces_.emplace_back();
    space.key = padded_floats(config_.head_dim);
    for (AlignedBuffer<float>& query : space.queries) query = padded_floats(config_.head_dim);
    for (AlignedBuffer<float>& output : space.outputs) output = padded_floats(config_.head_dim);
    for (AlignedBuffer<float>& scores : space.scores) scores = padded_floats(capacity + kKeyBlock);
  }
  taps_ = {config_.taps, InputRows(config_.tap_count() * hidden, quantized)};
  for (RowBuffer* buffer : {&context_, &block_, &x_, &increment_}) *buffer = RowBuffer(hidden);
  for (InputRows* rows : {&context_normed_, &normed_, &final_}) *rows = InputRows(hidden, quantized);
  mixed_ = InputRows(config_.query_channels(), quantized);
  activated_ = InputRows(config_.intermediate_size, quantized);
  query_ = RowBuffer(config_.query_channels());
  for (RowBuffer* buffer : {&key_, &value_}) *buffer = RowBuffer(config_.key_value_channels());
  for (RowBuffer* buffer : {&gate_, &up_}) *buffer = RowBuffer(config_.intermediate_size);
  padded_logits_ = RowBuffer(head_.rows());
}

void BlockDrafter::load(const BlockDrafterCheckpoint& checkpoint, const EngineOptions& options) {
  const std::int64_t hidden = config_.hidden_size;
  const auto projection = [&](const std::string& name, std::int64_t rows, std::int64_t columns, std::int64_t layer) {
    Projection loaded =
        load_projection(checkpoint, name, rows, columns, options.codec_of(TensorClass::kDrafter, layer), pool_);
    loaded.names = {"drafter." + name};
    return loaded;
  };
  const auto gain = [&](const std::string& name, std::int64_t size) { return load_gain(checkpoint, name, size, 0.0F); };
  fc_ = projection("fc.weight", hidden, config_.tap_count() * hidden, 0);
  hidden_norm_ = gain("hidden_norm.weight", hidden);
  for (std::int64_t i = 0; i < config_.layer_count(); ++i) {
    const std::string prefix = fmt::format("layers.{}.", i);
    Layer& layer = layers_.emplace_back();
    layer.input_norm = gain(prefix + "input_layernorm.weight", hidden);
    layer.post_norm = gain(prefix + "post_attention_layernorm.weight", hidden);
    layer.q_norm = gain(prefix + "self_attn.q_norm.weight", config_.head_dim);
    layer.k_norm = gain(prefix + "self_attn.k_norm.weight", config_.head_dim);
    layer.q = projection(prefix + "self_attn.q_proj.weight", config_.query_channels(), hidden, i);
    layer.k = projection(prefix + "self_attn.k_proj.weight", config_.key_value_channels(), hidden, i);
    layer.v = projection(prefix + "self_attn.v_proj.weight", config_.key_value_channels(), hidden, i);
    layer.out = projection(prefix + "self_attn.o_proj.weight", hidden, config_.query_channels(), i);
    layer.gate = projection(prefix + "mlp.gate_proj.weight", config_.intermediate_size, hidden, i);
    layer.up = projection(prefix + "mlp.up_proj.weight", config_.intermediate_size, hidden, i);
    layer.down = projection(prefix + "mlp.down_proj.weight", hidden, config_.intermediate_size, i);
  }
  norm_ = gain("norm.weight", hidden);
}

void BlockDrafter::make_ops() {
  const auto product = [](std::initializer_list<const Projection*> projections) {
    const Projection& first = **projections.begin();
    LaunchRecord op{"draft product " + to_text(first.matrix.format()), first.names.front()};
    for (const Projection* projection : projections) op.bytes += projection->matrix.bytes();
    return op;
  };
  const auto norm = [&](const std::string& name) {
    return LaunchRecord{"draft rms_norm", "drafter." + name, vector_bytes(config_.hidden_size)};
  };
  ops_.fc = product({&fc_});
  ops_.context_norm = norm("hidden_norm.weight");
  ops_.context_products = {"draft product " + to_text(layers_.front().k.matrix.format()), "drafter.context"};
  ops_.context_store = {"draft context", "drafter.context", vector_bytes(config_.layer_count() * config_.head_dim)};
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const Layer& layer = layers_[i];
    const std::string prefix = fmt::format("layers.{}.", i);
    ops_.context_products.bytes += layer.k.matrix.bytes() + layer.v.matrix.bytes();
    LayerOps& ops = ops_.layers.emplace_back();
    ops.input_norm = norm(prefix + "input_layernorm.weight");
    ops.in = product({&layer.q, &layer.k, &layer.v});
    ops.attention = {"draft attention", "drafter." + prefix + "self_attn", vector_bytes(2 * config_.head_dim)};
    ops.out = product({&layer.out});
    ops.post_norm = norm(prefix + "post_attention_layernorm.weight");
    ops.gate_up = product({&layer.gate, &layer.up});
    ops.gate_up.name += ", activation";
    ops.down = product({&layer.down});
  }
  ops_.embed = {"draft embed", "embed_tokens.weight"};
  ops_.final_norm = norm("norm.weight");
  ops_.head = head_.op();
  ops_.candidates = {"draft candidates", "logits"};
}

// --- the context

void BlockDrafter::absorb(const ForwardPass&, std::span<const std::int32_t> tokens, std::span<const std::int32_t> rows,
                          std::int64_t position) {
  // Rows rise, so none is written before it is read.
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (rows[i] != static_cast<std::int32_t>(i))
      std::copy_n(taps_.rows.row(rows[i]), config_.tap_count() * config_.hidden_size,
                  taps_.rows.row(static_cast<std::int64_t>(i)));
  absorb_features(static_cast<std::int64_t>(tokens.size()), position);
}

void BlockDrafter::export_rows(std::int64_t first, std::int64_t last, ByteWriter& bytes) {
  for (const KvCache& cache : caches_) cache.export_rows(first, last, bytes);
}

void BlockDrafter::import_rows(std::int64_t first, std::int64_t last, ByteReader& bytes) {
  for (KvCache& cache : caches_) cache.import_rows(first, last, bytes);
}

void BlockDrafter::absorb_features(std::int64_t count, std::int64_t position) {
  if (count == 0) return;
  context_.reserve(count);
  context_normed_.reserve(count);
  {
    const OpScope scope(collector_, ops_.fc);
    loops_.for_rows(count, [&](std::int64_t row) { taps_.rows.quantize(row, kernels_.vectors); });
    const Product product = {&fc_.matrix, &context_};
    loops_.multiply(std::span(&product, 1), taps_.rows.view(count));
  }
  {
    const OpScope scope(collector_, ops_.context_norm);
    loops_.norm(context_, hidden_norm_.data(), config_.hidden_size, config_.eps, count, context_normed_);
  }
  {
    // Of all layers at once: they have one input.
    const OpScope scope(collector_, ops_.context_products);
    std::vector<Product> products;
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      context_keys_[i].reserve(count);
      context_values_[i].reserve(count);
      products.push_back({&layers_[i].k.matrix, &context_keys_[i]});
      products.push_back({&layers_[i].v.matrix, &context_values_[i]});
    }
    loops_.multiply(products, context_normed_.view(count));
  }
  const std::uint64_t written = layers_.size() * caches_.front().bytes(count);
  const OpScope scope(collector_, ops_.context_store, written);
  const std::size_t items = layers_.size() * static_cast<std::size_t>(count);
  pool_.parallel_for(items, 1, [&](int thread, std::size_t begin, std::size_t end) {
    for (std::size_t item = begin; item < end; ++item) {
      const std::size_t layer = item / static_cast<std::size_t>(count);
      const auto row = static_cast<std::int64_t>(item % static_cast<std::size_t>(count));
      store_row(layers_[layer], caches_[layer], context_keys_[layer].row(row), context_values_[layer].row(row),
                position + row, spaces_[static_cast<std::size_t>(thread)]);
    }
  });
}

void BlockDrafter::store_row(const Layer& layer, KvCache& cache, const float* keys, const float* values,
                             std::int64_t position, ThreadSpace& space) const {
  const std::int64_t head_dim = config_.head_dim;
  float* key = space.key.data();
  for (std::int64_t head = 0; head < config_.key_value_heads; ++head) {
    std::fill_n(key, space.key.size(), 0.0F);
    std::copy_n(keys + head * head_dim, head_dim, key);
    kernels_.vectors.rms_norm(key, layer.k_norm.data(), head_dim, config_.eps, key);
    rope_.rotate(position, key);
    cache.store(head, position, key, values + head * head_dim);
  }
}

// --- the block

DraftOutput BlockDrafter::draft(const DraftRequest& request, std::int64_t frontier) {
  const std::int64_t count = request.tokens + 1;
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(count), config_.mask_token);
  tokens.front() = request.anchor;
  block_.reserve(count);
  {
    const OpScope scope(collector_, ops_.embed, element_count(count, config_.hidden_size) * sizeof(std::uint16_t));
    loops_.embed(target_.embedding.data(), config_.hidden_size, tokens, block_);
  }
  run_block(block_, count, frontier);
  // Row i is about its own position; the anchor's is known.
  const auto size = static_cast<std::size_t>(request.tokens * head_.rows());
  if (logits_.size() < size) logits_ = AlignedBuffer<float>(size);
  {
    const OpScope scope(collector_, ops_.head);
    const std::int64_t fault = loops_.logits(head_.matrix(), final_.view(1, count), padded_logits_, logits_.data());
    if (fault >= 0) throw draft_not_finite(frontier + 1 + fault);
  }
  const OpScope scope(collector_, ops_.candidates);
  rows_.begin(request.tokens, std::min(request.candidates, head_.rows()));
  rows_.fill(0, logits_.span().first(size), head_.rows(), request.temperature, head_.ids());
  return rows_.output();
}

void BlockDrafter::run_block(const RowBuffer& rows, std::int64_t count, std::int64_t frontier) {
  for (RowBuffer* buffer : {&x_, &query_, &key_, &value_, &gate_, &up_, &increment_}) buffer->reserve(count);
  for (InputRows* buffer : {&normed_, &mixed_, &activated_, &final_}) buffer->reserve(count);
  for (std::int64_t row = 0; row < count; ++row) std::copy_n(rows.row(row), config_.hidden_size, x_.row(row));
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const Layer& layer = layers_[i];
    const LayerOps& ops = ops_.layers[i];
    const auto norm = [&](const AlignedBuffer<float>& gain, const LaunchRecord& op) {
      const OpScope scope(collector_, op);
      loops_.norm(x_, gain.data(), config_.hidden_size, config_.eps, count, normed_);
    };
    norm(layer.input_norm, ops.input_norm);
    {
      const OpScope scope(collector_, ops.in);
      const Product products[] = {{&layer.q.matrix, &query_}, {&layer.k.matrix, &key_}, {&layer.v.matrix, &value_}};
      loops_.multiply(products, normed_.view(count));
    }
    {
      const OpScope scope(collector_, ops.attention, attention_bytes(i, count, frontier));
      attend(i, count, frontier);
    }
    {
      const OpScope scope(collector_, ops.out);
      loops_.multiply_into(x_, layer.out.matrix, mixed_.view(count), increment_);
    }
    norm(layer.post_norm, ops.post_norm);
    {
      const OpScope scope(collector_, ops.gate_up);
      loops_.multiply_gated(layer.gate.matrix, layer.up.matrix, normed_.view(count), gate_, up_, activated_);
    }
    const OpScope scope(collector_, ops.down);
    loops_.multiply_into(x_, layer.down.matrix, activated_.view(count), increment_);
  }
  const OpScope scope(collector_, ops_.final_norm);
  loops_.norm(x_, norm_.data(), config_.hidden_size, config_.eps, count, final_);
}

void BlockDrafter::attend(std::size_t layer, std::int64_t count, std::int64_t frontier) {
  pool_.parallel_for(static_cast<std::size_t>(count), 1, [&](int thread, std::size_t begin, std::size_t end) {
    for (auto row = static_cast<std::int64_t>(begin); row < static_cast<std::int64_t>(end); ++row)
      store_row(layers_[layer], caches_[layer], key_.row(row), value_.row(row), frontier + row,
                spaces_[static_cast<std::size_t>(thread)]);
  });
  // Query heads of one key-value head go together: its cache is read once for all of them.
  const std::int64_t heads_per_cache = config_.heads / config_.key_value_heads;
  const std::int64_t together = std::min(heads_per_cache, kMostQueries);
  const std::int64_t groups_per_cache = (heads_per_cache + together - 1) / together;
  const auto items = static_cast<std::size_t>(groups_per_cache * config_.key_value_heads * count);
  pool_.parallel_for(items, 1, [&](int thread, std::size_t begin, std::size_t end) {
    for (auto item = static_cast<std::int64_t>(begin); item < static_cast<std::int64_t>(end); ++item) {
      const std::int64_t group = item / count;
      const std::int64_t within = group % groups_per_cache * together;
      attend_heads(layer, group / groups_per_cache * heads_per_cache + within,
                   std::min(together, heads_per_cache - within), item % count, count, frontier,
                   spaces_[static_cast<std::size_t>(thread)]);
    }
  });
  loops_.for_rows(count, [&](std::int64_t row) { mixed_.quantize(row, kernels_.vectors); });
}

// Query heads first_head .. first_head + head_count - 1, which share a key-value head.
void BlockDrafter::attend_heads(std::size_t layer, std::int64_t first_head, std::int64_t head_count, std::int64_t row,
                                std::int64_t count, std::int64_t frontier, ThreadSpace& space) {
  const std::int64_t head_dim = config_.head_dim;
  const auto heads = static_cast<std::size_t>(head_count);
  std::array<const float*, kMostQueries> queries{};
  std::array<float*, kMostQueries> scores{};
  std::array<float*, kMostQueries> outputs{};
  for (std::size_t i = 0; i < heads; ++i) {
    float* query = space.queries[i].data();
    std::fill_n(query, space.queries[i].size(), 0.0F);
    std::copy_n(query_.row(row) + (first_head + static_cast<std::int64_t>(i)) * head_dim, head_dim, query);
    kernels_.vectors.rms_norm(query, layers_[layer].q_norm.data(), head_dim, config_.eps, query);
    rope_.rotate(frontier + row, query);
    queries[i] = query;
    scores[i] = space.scores[i].data();
    outputs[i] = space.outputs[i].data();
  }
  const auto [first, end] = visible_positions(config_.layers[layer], row, count, frontier);
  const float scale = 1.0F / std::sqrt(static_cast<float>(head_dim));
  caches_[layer].attend_range(kernels_.attention, first_head / (config_.heads / config_.key_value_heads),
                              std::span(queries).first(heads), first, end, scale, std::span(scores).first(heads),
                              std::span(outputs).first(heads));
  for (std::size_t i = 0; i < heads; ++i)
    std::copy_n(outputs[i], head_dim, mixed_.row(row) + (first_head + static_cast<std::int64_t>(i)) * head_dim);
}

// --- the account

std::uint64_t BlockDrafter::attention_bytes(std::size_t layer, std::int64_t count, std::int64_t frontier) const {
  // What any row sees is read once, the block's own keys and values are written.
  const std::int64_t first = visible_positions(config_.layers[layer], 0, count, frontier).first;
  return caches_[layer].bytes(frontier + count - first) + caches_[layer].bytes(count);
}

void BlockDrafter::account(InventoryAccount& account, std::int64_t context, std::int64_t width,
                           std::int64_t tokens) const {
  // Keys and values are made twice a round: of the tokens that a verify commits, and of the block, if there is one.
  const std::uint64_t drafts = tokens > 0 ? 1 : 0;
  const auto stream = [&](const std::string& name, const std::string& format, std::uint64_t bytes,
                          std::uint64_t elements, std::uint64_t times) {
    account.add({name, format, AccessPattern::kStream, bytes, times * bytes, elements});
  };
  const auto projection = [&](const Projection& weights, std::uint64_t times) {
    const PackedMatrix& matrix = weights.matrix;
    stream(weights.names.front(), stored_format(matrix), matrix.bytes(), element_count(matrix.rows(), matrix.columns()),
           times);
  };
  const auto vector = [&](const std::string& name, std::int64_t size, std::uint64_t times) {
    stream("drafter." + name, "fp32", vector_bytes(size), static_cast<std::uint64_t>(size), times);
  };
  const std::int64_t count = tokens > 0 ? tokens + 1 : 0;
  projection(fc_, 1);
  vector("hidden_norm.weight", config_.hidden_size, 1);
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const Layer& layer = layers_[i];
    const std::string prefix = fmt::format("layers.{}.", i);
    vector(prefix + "input_layernorm.weight", config_.hidden_size, drafts);
    vector(prefix + "post_attention_layernorm.weight", config_.hidden_size, drafts);
    vector(prefix + "self_attn.q_norm.weight", config_.head_dim, drafts);
    vector(prefix + "self_attn.k_norm.weight", config_.head_dim, 1 + drafts);
    for (const Projection* weights : {&layer.k, &layer.v}) projection(*weights, 1 + drafts);
    for (const Projection* weights : {&layer.q, &layer.out, &layer.gate, &layer.up, &layer.down})
      projection(*weights, drafts);
    account.add({"drafter." + prefix + "kv cache", caches_[i].format(), AccessPattern::kCache,
                 caches_[i].resident_bytes(),
                 (count > 0 ? attention_bytes(i, count, context) : 0) + caches_[i].bytes(width),
                 element_count(2 * (context + count), config_.key_value_channels())});
  }
  vector("norm.weight", config_.hidden_size, drafts);
  // The target's own, read once more.
  account.add({"embed_tokens.weight (draft)", "bf16", AccessPattern::kGather, 0,
               element_count(count, config_.hidden_size) * sizeof(std::uint16_t), 0});
  head_.account(account, drafts);
}

std::uint64_t BlockDrafter::cache_bytes(const EngineOptions::KeyValue&, std::int64_t capacity) const {
  return static_cast<std::uint64_t>(config_.layer_count()) *
         kv_cache_bytes(cache_shape(config_), kContextFormats, capacity);
}

Json BlockDrafter::description() const {
  return {{"kind", "block"},
          {"name", name_},
          {"layers", config_.layer_count()},
          {"block_size", config_.block_size},
          {"taps", config_.taps},
          {"weights", to_text(layers_.front().q.matrix.format())},
          {"head", head_.description()}};
}

}  // namespace tare::engine
