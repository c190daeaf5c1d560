#include "engine/cpu/inventory.h"

#include <fmt/format.h>

#include "base/text.h"

namespace tare::engine {
namespace {

void add_projection(InventoryAccount& account, const Projection& projection) {
  const PackedMatrix& matrix = projection.matrix;
  account.stream(join(projection.names, " + "), stored_format(matrix), matrix.bytes(),
                 element_count(matrix.rows(), matrix.columns()));
}

void account_gdn(InventoryAccount& account, const std::string& prefix, const GdnWeights& weights,
                 const GdnLayerState& state, const ModelConfig& config, std::int64_t context, std::int64_t width) {
  add_projection(account, weights.qkv);
  add_projection(account, weights.z);
  add_projection(account, weights.beta_and_decay);
  add_projection(account, weights.out);
  account.vector(prefix + "linear_attn.conv1d.weight",
                 static_cast<std::size_t>(config.conv_channels() * config.conv_kernel));
  account.vector(prefix + "linear_attn.A_log", weights.decay_rate.size());
  account.vector(prefix + "linear_attn.dt_bias", weights.dt_bias.size());
  account.vector(prefix + "linear_attn.norm.weight", static_cast<std::size_t>(config.linear_value_head_dim));
  const std::uint64_t state_elements = element_count(config.linear_value_channels(), config.linear_key_head_dim);
  account.add({prefix + "recurrent state", to_text(state.recurrence.state_format()), AccessPattern::kState,
               state.recurrence.state_bytes() + state.recurrence.bytes_held(width),
               state.recurrence.bytes_per_pass(PassMode::kVerify, context, width), state_elements});
  const std::uint64_t columns = state.columns.resident_bytes();
  account.add({prefix + "convolution columns", to_text(state.columns.format()), AccessPattern::kState, columns,
               columns + state.columns.bytes_written(width),
               element_count(config.conv_channels(), state.columns.taps() - 1)});
}

void account_attention(InventoryAccount& account, const std::string& prefix, const AttentionWeights& weights,
                       const KvCache& cache, const ModelConfig& config, std::int64_t context, std::int64_t width) {
  for (const Projection* projection : {&weights.q, &weights.k, &weights.v, &weights.out})
    add_projection(account, *projection);
  account.vector(prefix + "self_attn.q_norm.weight", static_cast<std::size_t>(config.head_dim));
  account.vector(prefix + "self_attn.k_norm.weight", static_cast<std::size_t>(config.head_dim));
  // The past and the new rows are read once (query heads that share them find them near), the new rows written. A tree
  // that is no chain moves the rows of its path once more, at commit: as many as it gains, not counted here.
  account.add({prefix + "kv cache", cache.format(), AccessPattern::kCache, cache.resident_bytes(),
               cache.bytes(context + width) + cache.bytes(width),
               element_count(2 * (context + width), config.key_value_channels())});
}

}  // namespace

std::string stored_format(const PackedMatrix& matrix) {
  const std::string format = matrix.format() == WeightFormat::kQ3 ? "q3 in the words of q4" : to_text(matrix.format());
  const bool byte_scales = has_tensor_scale(matrix.codec()) && matrix.format() != WeightFormat::kNVFP4;
  return byte_scales ? format + ", e4m3 scales" : format;
}

WeightInventory make_inventory(const ModelConfig& config, const ModelWeights& weights,
                               const std::vector<LayerState>& layers, const std::vector<UnreadTensor>& unread,
                               std::int64_t context, std::int64_t width, bool reads_head) {
  InventoryAccount account(width);
  account.gather("embed_tokens.weight", config.vocab_size, config.hidden_size);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const std::string prefix = fmt::format("layers.{}.", i);
    const LayerWeights& layer = weights.layers[i];
    account.vector(prefix + "input_layernorm.weight", static_cast<std::size_t>(config.hidden_size));
    account.vector(prefix + "post_attention_layernorm.weight", static_cast<std::size_t>(config.hidden_size));
    if (layer.gdn) account_gdn(account, prefix, *layer.gdn, *layers[i].gdn, config, context, width);
    if (layer.attention)
      account_attention(account, prefix, *layer.attention, *layers[i].attention, config, context, width);
    for (const Projection* projection : {&layer.gate, &layer.up, &layer.down}) add_projection(account, *projection);
  }
  account.vector("norm.weight", static_cast<std::size_t>(config.hidden_size));
  if (reads_head) {
    add_projection(account, weights.head);
  } else {
    const PackedMatrix& head = weights.head.matrix;
    account.add({weights.head.names.front(), stored_format(head), AccessPattern::kStream, head.bytes(), 0,
                 element_count(head.rows(), head.columns())});
  }
  account.unread(unread);
  return account.take();
}

}  // namespace tare::engine
