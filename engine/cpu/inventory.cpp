#include "engine/cpu/inventory.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"

namespace tare::engine {
namespace {

std::uint64_t product(std::int64_t a, std::int64_t b) {
  return static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b);
}

class Account {
 public:
  explicit Account(std::int64_t width) : width_(width) {}

  void projection(const Projection& projection) {
    const PackedMatrix& matrix = projection.matrix;
    const std::string format =
        matrix.format() == WeightFormat::kQ3 ? "q3 in the words of q4" : to_text(matrix.format());
    stream(join(projection.names, " + "), format, matrix.bytes(), product(matrix.rows(), matrix.columns()));
  }
  // FP32 vectors are read once a token, from a cache near the core; they are counted once.
  void vector(const std::string& name, std::size_t elements) {
    stream(name, "fp32", elements * sizeof(float), elements);
  }
  void stream(const std::string& name, const std::string& format, std::uint64_t bytes, std::uint64_t elements) {
    inventory_.entries.push_back({name, format, AccessPattern::kStream, bytes, bytes, elements});
  }
  void gather(const std::string& name, std::int64_t rows, std::int64_t columns) {
    inventory_.entries.push_back({name, "bf16", AccessPattern::kGather, product(rows, columns) * 2,
                                  product(width_, columns) * 2, product(rows, columns)});
  }
  void add(InventoryEntry entry) { inventory_.entries.push_back(std::move(entry)); }
  WeightInventory take() { return std::move(inventory_); }

 private:
  std::int64_t width_;
  WeightInventory inventory_;
};

void account_gdn(Account& account, const std::string& prefix, const GdnWeights& weights, const GdnLayerState& state,
                 const ModelConfig& config, std::int64_t context, std::int64_t width) {
  account.projection(weights.qkv);
  account.projection(weights.z);
  account.projection(weights.beta_and_decay);
  account.projection(weights.out);
  account.vector(prefix + "linear_attn.conv1d.weight",
                 static_cast<std::size_t>(config.conv_channels() * config.conv_kernel));
  account.vector(prefix + "linear_attn.A_log", weights.decay_rate.size());
  account.vector(prefix + "linear_attn.dt_bias", weights.dt_bias.size());
  account.vector(prefix + "linear_attn.norm.weight", static_cast<std::size_t>(config.linear_value_head_dim));
  const std::uint64_t state_elements = product(config.linear_value_channels(), config.linear_key_head_dim);
  account.add({prefix + "recurrent state", "fp32", AccessPattern::kState, state.recurrence.state_bytes(),
               state.recurrence.bytes_per_pass(context, width), state_elements});
  // All columns are read; a token replaces one, at most all of them.
  const std::uint64_t columns = state.columns.resident_bytes();
  const auto past = static_cast<std::uint64_t>(std::max<std::int64_t>(state.columns.taps() - 1, 1));
  const std::uint64_t written = columns / past * std::min(static_cast<std::uint64_t>(width), past);
  account.add({prefix + "convolution columns", to_text(state.columns.format()), AccessPattern::kState, columns,
               columns + written, product(config.conv_channels(), state.columns.taps() - 1)});
}

void account_attention(Account& account, const std::string& prefix, const AttentionWeights& weights,
                       const KvCache& cache, const ModelConfig& config, std::int64_t context, std::int64_t width) {
  for (const Projection* projection : {&weights.q, &weights.k, &weights.v, &weights.out})
    account.projection(*projection);
  account.vector(prefix + "self_attn.q_norm.weight", static_cast<std::size_t>(config.head_dim));
  account.vector(prefix + "self_attn.k_norm.weight", static_cast<std::size_t>(config.head_dim));
  // The past and the new rows are read once (query heads that share them find them near), the new rows written.
  account.add({prefix + "kv cache", cache.format(), AccessPattern::kCache, cache.resident_bytes(),
               cache.bytes(context + width) + cache.bytes(width),
               product(2 * (context + width), config.key_value_channels())});
}

}  // namespace

WeightInventory make_inventory(const ModelConfig& config, const ModelWeights& weights,
                               const std::vector<LayerState>& layers, const std::vector<UnreadTensor>& unread,
                               std::int64_t context, std::int64_t width) {
  Account account(width);
  account.gather("embed_tokens.weight", config.vocab_size, config.hidden_size);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const std::string prefix = fmt::format("layers.{}.", i);
    const LayerWeights& layer = weights.layers[i];
    account.vector(prefix + "input_layernorm.weight", static_cast<std::size_t>(config.hidden_size));
    account.vector(prefix + "post_attention_layernorm.weight", static_cast<std::size_t>(config.hidden_size));
    if (layer.gdn) account_gdn(account, prefix, *layer.gdn, *layers[i].gdn, config, context, width);
    if (layer.attention)
      account_attention(account, prefix, *layer.attention, *layers[i].attention, config, context, width);
    for (const Projection* projection : {&layer.gate, &layer.up, &layer.down}) account.projection(*projection);
  }
  account.vector("norm.weight", static_cast<std::size_t>(config.hidden_size));
  account.projection(weights.head);
  for (const UnreadTensor& tensor : unread)
    account.add({tensor.name, "not loaded", AccessPattern::kStream, 0, 0, tensor.elements});
  return account.take();
}

}  // namespace tare::engine
