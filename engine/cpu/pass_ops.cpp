#include "engine/cpu/pass_ops.h"

#include <fmt/format.h>

#include <initializer_list>
#include <string>

#include "engine/backend/options.h"
#include "engine/backend/weight_inventory.h"

namespace tare::engine {
namespace {

std::uint64_t vector_bytes(std::int64_t elements) {
  return static_cast<std::uint64_t>(elements) * sizeof(float);
}

// Of one input, in one loop.
LaunchRecord product(std::initializer_list<const Projection*> projections, const std::string& also = {}) {
  const Projection& first = **projections.begin();
  LaunchRecord op{fmt::format("product {}{}", to_text(first.matrix.format()), also), first.names.front()};
  for (const Projection* projection : projections) op.bytes += projection->matrix.bytes();
  return op;
}

LayerOps layer_ops(const ModelConfig& config, const LayerWeights& weights, const std::string& prefix) {
  LayerOps ops;
  ops.input_norm = {"rms_norm", prefix + "input_layernorm.weight", vector_bytes(config.hidden_size)};
  ops.post_norm = {"rms_norm", prefix + "post_attention_layernorm.weight", vector_bytes(config.hidden_size)};
  if (weights.gdn) {
    const std::string part = prefix + "linear_attn";
    ops.in = product({&weights.gdn->qkv, &weights.gdn->z, &weights.gdn->beta_and_decay});
    ops.mixing = {"gdn", part,
                  vector_bytes(config.conv_channels() * config.conv_kernel + 2 * config.linear_value_heads +
                               config.linear_value_head_dim)};
    ops.out = product({&weights.gdn->out});
    ops.commit = {"gdn_commit", part};
  } else {
    ops.in = product({&weights.attention->q, &weights.attention->k, &weights.attention->v});
    ops.mixing = {"attention", prefix + "self_attn", vector_bytes(2 * config.head_dim)};
    ops.out = product({&weights.attention->out});
    ops.commit = {"kv_commit", prefix + "self_attn"};
  }
  ops.gate_up = product({&weights.gate, &weights.up}, " + activation");
  ops.down = product({&weights.down});
  return ops;
}

}  // namespace

LayerOps make_layer_ops(const ModelConfig& config, const LayerWeights& weights, const std::string& prefix) {
  return layer_ops(config, weights, prefix);
}

PassOps make_pass_ops(const ModelConfig& config, const ModelWeights& weights) {
  PassOps ops;
  ops.embed = {"embed", "embed_tokens.weight"};
  for (std::size_t layer = 0; layer < weights.layers.size(); ++layer)
    ops.layers.push_back(layer_ops(config, weights.layers[layer], fmt::format("layers.{}.", layer)));
  ops.final_norm = {"rms_norm", "norm.weight", vector_bytes(config.hidden_size)};
  ops.head = product({&weights.head});
  ops.greedy = {"argmax", "logits"};
  return ops;
}

std::uint64_t embedding_bytes(const ModelConfig& config, std::int64_t tokens) {
  return element_count(tokens, config.hidden_size) * sizeof(std::uint16_t);
}

std::uint64_t mixing_bytes(const GdnLayerState& state, PassMode mode, std::int64_t position, std::int64_t tokens) {
  return state.recurrence.bytes_per_pass(mode, position, tokens) + state.columns.resident_bytes();
}

std::uint64_t mixing_bytes(const KvCache& cache, std::int64_t position, std::int64_t tokens) {
  return cache.bytes(position + tokens) + cache.bytes(tokens);
}

}  // namespace tare::engine
