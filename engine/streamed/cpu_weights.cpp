#include "engine/streamed/cpu_weights.h"

#include <fmt/format.h>

#include <algorithm>

namespace tare::engine {
namespace {

class LayerTensors {
 public:
  LayerTensors(const Checkpoint& checkpoint, std::int64_t layer, ThreadPool& pool)
      : checkpoint_(checkpoint), prefix_(fmt::format("layers.{}.", layer)), pool_(pool) {}

  [[nodiscard]] PackedMatrix matrix(const char* name, std::int64_t rows, std::int64_t columns) const {
    return load_matrix(checkpoint_, prefix_ + name, {rows, columns}, pool_);
  }
  [[nodiscard]] std::vector<float> values(const char* name, const std::vector<std::int64_t>& shape) const {
    return to_floats(checkpoint_.expect(prefix_ + name, shape));
  }
  [[nodiscard]] std::vector<float> centred(const char* name, std::int64_t size) const {
    return load_centred_gain(checkpoint_, prefix_ + name, size);
  }

 private:
  const Checkpoint& checkpoint_;
  std::string prefix_;
  ThreadPool& pool_;
};

StreamedGdnWeights load_gdn(const LayerTensors& tensors, const ModelConfig& config) {
  const std::int64_t hidden = config.hidden_size;
  const std::int64_t heads = config.linear_value_heads;
  return {.qkv = tensors.matrix("linear_attn.in_proj_qkv.weight", config.conv_channels(), hidden),
          .z = tensors.matrix("linear_attn.in_proj_z.weight", config.linear_value_channels(), hidden),
          .b = tensors.matrix("linear_attn.in_proj_b.weight", heads, hidden),
          .a = tensors.matrix("linear_attn.in_proj_a.weight", heads, hidden),
          .out = tensors.matrix("linear_attn.out_proj.weight", hidden, config.linear_value_channels()),
          .convolution = tensors.values("linear_attn.conv1d.weight", {config.conv_channels(), 1, config.conv_kernel}),
          .a_log = tensors.values("linear_attn.A_log", {heads}),
          .dt_bias = tensors.values("linear_attn.dt_bias", {heads}),
          .norm = tensors.values("linear_attn.norm.weight", {config.linear_value_head_dim})};
}

StreamedAttentionWeights load_attention(const LayerTensors& tensors, const ModelConfig& config) {
  const std::int64_t hidden = config.hidden_size;
  return {.query = tensors.matrix("self_attn.q_proj.weight", 2 * config.query_channels(), hidden),
          .key = tensors.matrix("self_attn.k_proj.weight", config.key_value_channels(), hidden),
          .value = tensors.matrix("self_attn.v_proj.weight", config.key_value_channels(), hidden),
          .out = tensors.matrix("self_attn.o_proj.weight", hidden, config.query_channels()),
          .query_gain = tensors.centred("self_attn.q_norm.weight", config.head_dim),
          .key_gain = tensors.centred("self_attn.k_norm.weight", config.head_dim)};
}

}  // namespace

std::string head_tensor(const ModelConfig& config) {
  return config.tie_word_embeddings ? "embed_tokens.weight" : "lm_head.weight";
}

PackedMatrix load_matrix(const Checkpoint& checkpoint, const std::string& name, const std::vector<std::int64_t>& shape,
                         ThreadPool& pool) {
  const Tensor tensor = checkpoint.expect(name, shape);
  PackedMatrix matrix;
  matrix.resize(shape[0], shape[1]);
  // A panel at a time: the matrix never lies in memory twice in FP32.
  pool.parallel_for(static_cast<std::size_t>(matrix.panel_count()), 1, [&](int, std::size_t begin, std::size_t end) {
    for (std::size_t panel = begin; panel < end; ++panel) {
      const std::int64_t row = static_cast<std::int64_t>(panel) * kPanelRows;
      const std::vector<float> rows = to_floats(tensor.rows(row, std::min(kPanelRows, shape[0] - row)));
      matrix.fill_panel(static_cast<std::int64_t>(panel), rows.data(), shape[1], 1);
    }
  });
  return matrix;
}

std::vector<float> load_centred_gain(const Checkpoint& checkpoint, const std::string& name, std::int64_t size) {
  std::vector<float> gain = to_floats(checkpoint.expect(name, {size}));
  for (float& value : gain) value += 1.0F;
  return gain;
}

StreamedLayerWeights load_layer_weights(const Checkpoint& checkpoint, std::int64_t layer, ThreadPool& pool) {
  const ModelConfig& config = checkpoint.config();
  const LayerTensors tensors(checkpoint, layer, pool);
  StreamedLayerWeights weights;
  weights.kind = config.layers[static_cast<std::size_t>(layer)];
  weights.input_gain = tensors.centred("input_layernorm.weight", config.hidden_size);
  weights.mlp_gain = tensors.centred("post_attention_layernorm.weight", config.hidden_size);
  if (weights.kind == LayerKind::kLinearAttention)
    weights.gdn = load_gdn(tensors, config);
  else
    weights.attention = load_attention(tensors, config);
  weights.gate = tensors.matrix("mlp.gate_proj.weight", config.intermediate_size, config.hidden_size);
  weights.up = tensors.matrix("mlp.up_proj.weight", config.intermediate_size, config.hidden_size);
  weights.down = tensors.matrix("mlp.down_proj.weight", config.hidden_size, config.intermediate_size);
  return weights;
}

}  // namespace tare::engine
