#include "engine/cuda/cuda_inventory.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"

namespace tare::engine {
namespace {

void add_projection(InventoryAccount& account, const CudaProjection& projection) {
  const WeightMatrix& matrix = projection.matrix;
  account.stream(join(projection.names, " + "), stored_format(matrix), projection.bytes(),
                 element_count(matrix.rows, matrix.columns));
}
void add_vector(InventoryAccount& account, const std::string& name, const DeviceBuffer& values) {
  account.vector(name, values.bytes() / sizeof(float));
}

void account_gdn(InventoryAccount& account, const std::string& prefix, const CudaGdnLayerWeights& weights,
                 const CudaGdnCache& cache, const ModelConfig& config, std::int64_t width) {
  const std::string name = prefix + "linear_attn.";
  add_projection(account, weights.qkvz);
  account.stream(name + "in_proj_b.weight + " + name + "in_proj_a.weight", "bf16", weights.gates.bytes(),
                 weights.gates.bytes() / 2);
  add_projection(account, weights.out);
  add_vector(account, name + "conv1d.weight", weights.convolution);
  add_vector(account, name + "A_log", weights.decay_rate);
  add_vector(account, name + "dt_bias", weights.dt_bias);
  add_vector(account, name + "norm.weight", weights.norm);
  account.add({prefix + "recurrent state", to_text(cache.state_format), AccessPattern::kState, cache.state_bytes(),
               2 * cache.state_bytes(), element_count(config.linear_value_channels(), config.linear_key_head_dim)});
  // Of a token: normalised key, update, decay and projections, written by a verify and read by the next fold.
  const std::uint64_t record =
      4 * (element_count(config.conv_channels(), 1) + element_count(config.linear_value_channels(), 1) +
           element_count(config.linear_key_channels(), 1) + element_count(config.linear_value_heads, 1));
  account.add({prefix + "records of a verify", "fp32", AccessPattern::kState, cache.record_bytes(),
               2 * record * static_cast<std::uint64_t>(width), record / 4});
  // The state after each node, written by a verify; of the pick that replaces a fold's reading nothing is added.
  if (cache.keeps_snapshots)
    account.add({prefix + "snapshots of a verify", "fp32", AccessPattern::kState, cache.snapshot_bytes(),
                 cache.snapshot_bytes() / kMostTreeNodes * static_cast<std::uint64_t>(width),
                 element_count(config.linear_value_channels(), config.linear_key_head_dim)});
  account.add({prefix + "convolution columns", to_text(cache.column_format), AccessPattern::kState,
               cache.column_bytes(), cache.column_bytes(),
               element_count(config.conv_channels(), config.conv_kernel - 1)});
}

void account_attention(InventoryAccount& account, const std::string& prefix, const CudaAttentionLayerWeights& weights,
                       const CudaKeyValueCache& cache, const ModelConfig& config, std::int64_t context,
                       std::int64_t width) {
  add_projection(account, weights.qkv);
  add_projection(account, weights.out);
  add_vector(account, prefix + "self_attn.q_norm.weight", weights.q_norm);
  add_vector(account, prefix + "self_attn.k_norm.weight", weights.k_norm);
  // The past and the new rows are read once, the new rows written.
  const auto a_position = static_cast<std::uint64_t>(cache.bytes_a_position());
  account.add({prefix + "kv cache",
               to_text(cache.key_format) + " keys, " + to_text(cache.value_format) + " values" +
                   (cache.rotation == KeyRotation::kNone ? "" : ", rotated"),
               AccessPattern::kCache, cache.bytes(), a_position * static_cast<std::uint64_t>(context + 2 * width),
               element_count(2 * (context + width), config.key_value_channels())});
}

}  // namespace

WeightInventory make_cuda_inventory(const ModelConfig& config, const CudaModelWeights& weights,
                                    const std::vector<CudaForward::Layer>& layers,
                                    const std::vector<UnreadTensor>& unread, std::int64_t context, std::int64_t width) {
  InventoryAccount account(width);
  account.gather("embed_tokens.weight", config.vocab_size, config.hidden_size);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const std::string prefix = fmt::format("layers.{}.", i);
    const CudaLayerWeights& layer = weights.layers[i];
    add_vector(account, prefix + "input_layernorm.weight", layer.input_norm);
    add_vector(account, prefix + "post_attention_layernorm.weight", layer.post_norm);
    if (layer.gdn) account_gdn(account, prefix, *layer.gdn, *layers[i].gdn, config, width);
    if (layer.attention) {
      account_attention(account, prefix, *layer.attention, *layers[i].attention, config, context, width);
    }
    add_projection(account, layer.gate_up);
    add_projection(account, layer.down);
  }
  add_vector(account, "norm.weight", weights.final_norm);
  if (!weights.screen) add_projection(account, weights.head);  // else the screened head says what it reads
  account.unread(unread);
  return account.take();
}

}  // namespace tare::engine
