#include "engine/cuda/cuda_inventory.h"

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

  void projection(const CudaProjection& projection) {
    const WeightMatrix& matrix = projection.matrix;
    stream(join(projection.names, " + "), to_text(matrix.format), projection.bytes(),
           product(matrix.rows, matrix.columns));
  }
  void vector(const std::string& name, const DeviceBuffer& values) {
    stream(name, "fp32", values.bytes(), values.bytes() / sizeof(float));
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

void account_gdn(Account& account, const std::string& prefix, const CudaGdnLayerWeights& weights,
                 const CudaGdnCache& cache, const ModelConfig& config, std::int64_t width) {
  const std::string name = prefix + "linear_attn.";
  account.projection(weights.qkvz);
  account.stream(name + "in_proj_b.weight + " + name + "in_proj_a.weight", "bf16", weights.gates.bytes(),
                 weights.gates.bytes() / 2);
  account.projection(weights.out);
  account.vector(name + "conv1d.weight", weights.convolution);
  account.vector(name + "A_log", weights.decay_rate);
  account.vector(name + "dt_bias", weights.dt_bias);
  account.vector(name + "norm.weight", weights.norm);
  account.add({prefix + "recurrent state", to_text(cache.state_format), AccessPattern::kState, cache.state_bytes(),
               2 * cache.state_bytes(), product(config.linear_value_channels(), config.linear_key_head_dim)});
  // Of a token: normalised key, update, decay and projections, written by a verify and read by the next fold.
  const std::uint64_t record = 4 * (product(config.conv_channels(), 1) + product(config.linear_value_channels(), 1) +
                                    product(config.linear_key_channels(), 1) + product(config.linear_value_heads, 1));
  account.add({prefix + "records of a verify", "fp32", AccessPattern::kState, cache.record_bytes(),
               2 * record * static_cast<std::uint64_t>(width), record / 4});
  account.add({prefix + "convolution columns", to_text(cache.column_format), AccessPattern::kState,
               cache.column_bytes(), cache.column_bytes(), product(config.conv_channels(), config.conv_kernel - 1)});
}

void account_attention(Account& account, const std::string& prefix, const CudaAttentionLayerWeights& weights,
                       const CudaKeyValueCache& cache, const ModelConfig& config, std::int64_t context,
                       std::int64_t width) {
  account.projection(weights.qkv);
  account.projection(weights.out);
  account.vector(prefix + "self_attn.q_norm.weight", weights.q_norm);
  account.vector(prefix + "self_attn.k_norm.weight", weights.k_norm);
  // The past and the new rows are read once, the new rows written.
  const auto a_position = static_cast<std::uint64_t>(cache.bytes_a_position());
  account.add({prefix + "kv cache", to_text(cache.key_format) + " keys, " + to_text(cache.value_format) + " values",
               AccessPattern::kCache, cache.bytes(), a_position * static_cast<std::uint64_t>(context + 2 * width),
               product(2 * (context + width), config.key_value_channels())});
}

}  // namespace

WeightInventory make_cuda_inventory(const ModelConfig& config, const CudaModelWeights& weights,
                                    const std::vector<CudaForward::Layer>& layers,
                                    const std::vector<UnreadTensor>& unread, std::int64_t context, std::int64_t width) {
  Account account(width);
  account.gather("embed_tokens.weight", config.vocab_size, config.hidden_size);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const std::string prefix = fmt::format("layers.{}.", i);
    const CudaLayerWeights& layer = weights.layers[i];
    account.vector(prefix + "input_layernorm.weight", layer.input_norm);
    account.vector(prefix + "post_attention_layernorm.weight", layer.post_norm);
    if (layer.gdn) account_gdn(account, prefix, *layer.gdn, *layers[i].gdn, config, width);
    if (layer.attention) {
      account_attention(account, prefix, *layer.attention, *layers[i].attention, config, context, width);
    }
    account.projection(layer.gate_up);
    account.projection(layer.down);
  }
  account.vector("norm.weight", weights.final_norm);
  account.projection(weights.head);
  for (const UnreadTensor& tensor : unread)
    account.add({tensor.name, "not loaded", AccessPattern::kStream, 0, 0, tensor.elements});
  return account.take();
}

}  // namespace tare::engine
