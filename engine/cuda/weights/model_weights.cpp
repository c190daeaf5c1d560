#include "engine/cuda/weights/model_weights.h"

#include <fmt/format.h>

#include <cmath>

#include "engine/cuda/weights/encode_tiles.h"
#include "engine/cuda/weights/load_projection.h"
#include "engine/cuda/weights/model_weights_plan.h"
#include "engine/cuda/weights/model_weights_stage.h"

namespace tare::engine {
namespace {

class Loader {
 public:
  Loader(const Checkpoint& checkpoint, const EngineOptions& options)
      : checkpoint_(checkpoint),
        config_(checkpoint.config()),
        plan_(config_, options),
        screened_(options.head.screen != HeadScreen::kNone),
        stage_(checkpoint, plan_.staging_bytes()) {}

  CudaModelWeights load() {
    CudaModelWeights weights;
    weights.embedding = plain(plan_.embedding());
    for (std::int64_t layer = 0; layer < config_.layer_count(); ++layer) weights.layers.push_back(load_layer(layer));
    weights.final_norm = zero_centred_gain("norm.weight", config_.hidden_size);
    weights.head = projection(plan_.head());
    if (screened_) {
      weights.screen = projection(plan_.screen());
      weights.screen->names = {weights.head.names.front() + " (screen)"};
    }
    return weights;
  }

 private:
  const Checkpoint& checkpoint_;
  const ModelConfig& config_;
  WeightPlan plan_;
  bool screened_;
  WeightStage stage_;

  CudaProjection projection(const StackedMatrix& matrix) { return load_projection(stage_, matrix); }

  DeviceBuffer plain(const StackedMatrix& matrix) {
    DeviceBuffer result(static_cast<std::size_t>(matrix.rows() * matrix.columns) * sizeof(std::uint16_t),
                        matrix.parts.front().name.c_str());
    stage_.stage(matrix, [&](const StagedRows& rows, std::uint64_t* fault, const CudaLaunch& launch) {
      launch_store_rows(rows, result.as<std::uint16_t>(), fault, launch);
    });
    return result;
  }

  std::vector<float> floats(const std::string& name, const std::vector<std::int64_t>& shape) const {
    return to_floats(checkpoint_.expect(name, shape));
  }

  // Stored gains of these norms are centred at zero: the factor is 1 + w.
  DeviceBuffer zero_centred_gain(const std::string& name, std::int64_t size) const {
    std::vector<float> gain = floats(name, {size});
    for (float& value : gain) value += 1.0F;
    return upload_floats(gain, name);
  }

  CudaGdnLayerWeights load_gdn(std::int64_t layer) {
    const std::string prefix = fmt::format("layers.{}.linear_attn.", layer);
    CudaGdnLayerWeights weights;
    weights.qkvz = projection(plan_.gdn_input(layer));
    weights.gates = plain(plan_.gdn_gates(layer));
    weights.out = projection(plan_.gdn_output(layer));
    const std::string taps = prefix + "conv1d.weight";
    weights.convolution = upload_floats(floats(taps, {config_.conv_channels(), 1, config_.conv_kernel}), taps);
    std::vector<float> decay = floats(prefix + "A_log", {config_.linear_value_heads});
    for (float& value : decay) value = static_cast<float>(std::exp(static_cast<double>(value)));
    weights.decay_rate = upload_floats(decay, prefix + "A_log");
    weights.dt_bias = upload_floats(floats(prefix + "dt_bias", {config_.linear_value_heads}), prefix + "dt_bias");
    weights.norm =
        upload_floats(floats(prefix + "norm.weight", {config_.linear_value_head_dim}), prefix + "norm.weight");
    return weights;
  }

  CudaAttentionLayerWeights load_attention(std::int64_t layer) {
    const std::string prefix = fmt::format("layers.{}.self_attn.", layer);
    CudaAttentionLayerWeights weights;
    weights.qkv = projection(plan_.attention_input(layer));
    weights.out = projection(plan_.attention_output(layer));
    weights.q_norm = zero_centred_gain(prefix + "q_norm.weight", config_.head_dim);
    weights.k_norm = zero_centred_gain(prefix + "k_norm.weight", config_.head_dim);
    return weights;
  }

  CudaLayerWeights load_layer(std::int64_t layer) {
    const std::string prefix = fmt::format("layers.{}.", layer);
    CudaLayerWeights weights;
    weights.input_norm = zero_centred_gain(prefix + "input_layernorm.weight", config_.hidden_size);
    weights.post_norm = zero_centred_gain(prefix + "post_attention_layernorm.weight", config_.hidden_size);
    if (config_.layers[static_cast<std::size_t>(layer)] == LayerKind::kLinearAttention) {
      weights.gdn = load_gdn(layer);
    } else {
      weights.attention = load_attention(layer);
    }
    weights.gate_up = projection(plan_.mlp_input(layer));
    weights.down = projection(plan_.mlp_output(layer));
    return weights;
  }
};

}  // namespace

CudaModelWeights load_cuda_weights(const Checkpoint& checkpoint, const EngineOptions& options) {
  return Loader(checkpoint, options).load();
}

}  // namespace tare::engine
