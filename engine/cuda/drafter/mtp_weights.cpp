#include "engine/cuda/drafter/mtp_weights.h"

#include "engine/cuda/weights/load_projection.h"

namespace tare::engine {
namespace {

std::string layer_name(const char* tensor) {
  return std::string("mtp.layers.0.") + tensor + ".weight";
}

}  // namespace

StackedMatrix MtpPlan::fc() const {
  return {{{"mtp.fc.weight", config_.hidden_size}}, 2 * config_.hidden_size, codec_, {}};
}
StackedMatrix MtpPlan::qkv() const {
  return {{{layer_name("self_attn.q_proj"), 2 * config_.query_channels()},
           {layer_name("self_attn.k_proj"), config_.key_value_channels()},
           {layer_name("self_attn.v_proj"), config_.key_value_channels()}},
          config_.hidden_size,
          codec_,
          {}};
}
StackedMatrix MtpPlan::out() const {
  return {{{layer_name("self_attn.o_proj"), config_.hidden_size}}, config_.query_channels(), codec_, {}};
}
StackedMatrix MtpPlan::gate_up() const {
  return gate_and_up(layer_name("mlp.gate_proj"), layer_name("mlp.up_proj"), config_.intermediate_size,
                     config_.hidden_size, codec_);
}
StackedMatrix MtpPlan::down() const {
  return {{{layer_name("mlp.down_proj"), config_.hidden_size}}, config_.intermediate_size, codec_, {}};
}

std::vector<StackedMatrix> MtpPlan::all() const {
  return {fc(), qkv(), out(), gate_up(), down()};
}

std::uint64_t MtpPlan::weight_bytes() const {
  std::uint64_t bytes = 0;
  for (const StackedMatrix& matrix : all())
    bytes += static_cast<std::uint64_t>(tile_bytes(matrix.codec, matrix.rows(), matrix.columns));
  const std::int64_t gains = 5 * config_.hidden_size + 2 * config_.head_dim;
  return bytes + static_cast<std::uint64_t>(gains) * sizeof(float);
}

std::uint64_t MtpPlan::staging_bytes() const {
  return engine::staging_bytes(all());
}

CudaMtpWeights load_mtp_weights(const Checkpoint& checkpoint, const EngineOptions& options) {
  const ModelConfig& config = checkpoint.config();
  const MtpPlan plan(config, options);
  WeightStage stage(checkpoint, plan.staging_bytes());
  // Stored gains are centred at zero: the factor is 1 + w.
  const auto gain = [&](const std::string& name, std::int64_t size) {
    std::vector<float> values = to_floats(checkpoint.expect(name, {size}));
    for (float& value : values) value += 1.0F;
    return upload_floats(values, name);
  };
  CudaMtpWeights weights;
  weights.embedding_norm = gain("mtp.pre_fc_norm_embedding.weight", config.hidden_size);
  weights.hidden_norm = gain("mtp.pre_fc_norm_hidden.weight", config.hidden_size);
  weights.fc = load_projection(stage, plan.fc());
  weights.input_norm = gain(layer_name("input_layernorm"), config.hidden_size);
  weights.post_norm = gain(layer_name("post_attention_layernorm"), config.hidden_size);
  weights.attention.qkv = load_projection(stage, plan.qkv());
  weights.attention.out = load_projection(stage, plan.out());
  weights.attention.q_norm = gain(layer_name("self_attn.q_norm"), config.head_dim);
  weights.attention.k_norm = gain(layer_name("self_attn.k_norm"), config.head_dim);
  weights.gate_up = load_projection(stage, plan.gate_up());
  weights.down = load_projection(stage, plan.down());
  weights.final_norm = gain("mtp.norm.weight", config.hidden_size);
  return weights;
}

}  // namespace tare::engine
