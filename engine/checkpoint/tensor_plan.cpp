#include "engine/checkpoint/tensor_plan.h"

#include <fmt/format.h>

#include <utility>

namespace tare::engine {
namespace {

class Plan {
 public:
  explicit Plan(const ModelConfig& config) : config_(config) {}

  void add(std::string name, std::vector<std::int64_t> shape, TensorRole role) {
    tensors_.push_back({std::move(name), std::move(shape), role});
  }

  // Norms and MLP, the same in every layer.
  void add_common(const std::string& layer) {
    const std::int64_t hidden = config_.hidden_size;
    const std::int64_t intermediate = config_.intermediate_size;
    add(layer + "post_attention_layernorm.weight", {hidden}, TensorRole::kCentredNorm);
    add(layer + "mlp.gate_proj.weight", {intermediate, hidden}, TensorRole::kProjection);
    add(layer + "mlp.up_proj.weight", {intermediate, hidden}, TensorRole::kProjection);
    add(layer + "mlp.down_proj.weight", {hidden, intermediate}, TensorRole::kResidualProjection);
  }

  void add_full_layer(const std::string& layer) {
    const std::int64_t hidden = config_.hidden_size;
    const std::string attention = layer + "self_attn.";
    add(layer + "input_layernorm.weight", {hidden}, TensorRole::kCentredNorm);
    // Rows: a head's query, then its gate.
    add(attention + "q_proj.weight", {2 * config_.query_channels(), hidden}, TensorRole::kProjection);
    add(attention + "k_proj.weight", {config_.key_value_channels(), hidden}, TensorRole::kProjection);
    add(attention + "v_proj.weight", {config_.key_value_channels(), hidden}, TensorRole::kProjection);
    add(attention + "q_norm.weight", {config_.head_dim}, TensorRole::kCentredNorm);
    add(attention + "k_norm.weight", {config_.head_dim}, TensorRole::kCentredNorm);
    add(attention + "o_proj.weight", {hidden, config_.query_channels()}, TensorRole::kResidualProjection);
    add_common(layer);
  }

  void add_linear_layer(const std::string& layer) {
    const std::int64_t hidden = config_.hidden_size;
    const std::int64_t heads = config_.linear_value_heads;
    const std::string linear = layer + "linear_attn.";
    add(layer + "input_layernorm.weight", {hidden}, TensorRole::kCentredNorm);
    add(linear + "in_proj_qkv.weight", {config_.conv_channels(), hidden}, TensorRole::kProjection);
    add(linear + "in_proj_z.weight", {config_.linear_value_channels(), hidden}, TensorRole::kProjection);
    add(linear + "in_proj_b.weight", {heads, hidden}, TensorRole::kProjection);
    add(linear + "in_proj_a.weight", {heads, hidden}, TensorRole::kProjection);
    add(linear + "conv1d.weight", {config_.conv_channels(), 1, config_.conv_kernel}, TensorRole::kConvolution);
    add(linear + "A_log", {heads}, TensorRole::kDecayLog);
    add(linear + "dt_bias", {heads}, TensorRole::kDecayBias);
    add(linear + "norm.weight", {config_.linear_value_head_dim}, TensorRole::kPlainNorm);
    add(linear + "out_proj.weight", {hidden, config_.linear_value_channels()}, TensorRole::kResidualProjection);
    add_common(layer);
  }

  void add_mtp() {
    const std::int64_t hidden = config_.hidden_size;
    add("mtp.pre_fc_norm_embedding.weight", {hidden}, TensorRole::kCentredNorm);
    add("mtp.pre_fc_norm_hidden.weight", {hidden}, TensorRole::kCentredNorm);
    add("mtp.fc.weight", {hidden, 2 * hidden}, TensorRole::kProjection);
    for (std::int64_t layer = 0; layer < config_.mtp_layers; ++layer)
      add_full_layer(fmt::format("mtp.layers.{}.", layer));
    add("mtp.norm.weight", {hidden}, TensorRole::kCentredNorm);
  }

  std::vector<PlannedTensor> take() { return std::move(tensors_); }

 private:
  const ModelConfig& config_;
  std::vector<PlannedTensor> tensors_;
};

}  // namespace

std::vector<PlannedTensor> plan_tensors(const ModelConfig& config) {
  Plan plan(config);
  plan.add("embed_tokens.weight", {config.vocab_size, config.hidden_size}, TensorRole::kEmbedding);
  for (std::size_t i = 0; i < config.layers.size(); ++i) {
    const std::string layer = fmt::format("layers.{}.", i);
    if (config.layers[i] == LayerKind::kFullAttention)
      plan.add_full_layer(layer);
    else
      plan.add_linear_layer(layer);
  }
  plan.add("norm.weight", {config.hidden_size}, TensorRole::kCentredNorm);
  if (!config.tie_word_embeddings)
    plan.add("lm_head.weight", {config.vocab_size, config.hidden_size}, TensorRole::kHead);
  if (config.mtp_layers > 0) plan.add_mtp();
  return plan.take();
}

}  // namespace tare::engine
