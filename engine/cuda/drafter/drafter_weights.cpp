#include "engine/cuda/drafter/drafter_weights.h"

#include <fmt/format.h>

#include <utility>

#include "engine/cuda/weights/load_projection.h"

namespace tare::engine {
namespace {

// Which tensors lie stacked in which matrix.
class DrafterPlan {
 public:
  DrafterPlan(const BlockDrafterConfig& config, const EngineOptions& options) : config_(config), options_(options) {}

  StackedMatrix fc() const { return {{{"fc.weight", config_.hidden_size}}, columns_of_taps(), codec_of(0)}; }
  StackedMatrix context() const {
    StackedMatrix matrix{{}, config_.hidden_size, codec_of(0)};
    for (std::int64_t layer = 0; layer < config_.layer_count(); ++layer) {
      matrix.parts.push_back({name(layer, "self_attn.k_proj"), config_.key_value_channels()});
      matrix.parts.push_back({name(layer, "self_attn.v_proj"), config_.key_value_channels()});
    }
    return matrix;
  }
  StackedMatrix qkv(std::int64_t layer) const {
    return {{{name(layer, "self_attn.q_proj"), config_.query_channels()},
             {name(layer, "self_attn.k_proj"), config_.key_value_channels()},
             {name(layer, "self_attn.v_proj"), config_.key_value_channels()}},
            config_.hidden_size,
            codec_of(layer)};
  }
  StackedMatrix out(std::int64_t layer) const {
    return {{{name(layer, "self_attn.o_proj"), config_.hidden_size}}, config_.query_channels(), codec_of(layer)};
  }
  StackedMatrix gate_up(std::int64_t layer) const {
    return gate_and_up(name(layer, "mlp.gate_proj"), name(layer, "mlp.up_proj"), config_.intermediate_size,
                       config_.hidden_size, codec_of(layer));
  }
  StackedMatrix down(std::int64_t layer) const {
    return {{{name(layer, "mlp.down_proj"), config_.hidden_size}}, config_.intermediate_size, codec_of(layer)};
  }
  std::vector<StackedMatrix> all() const {
    std::vector<StackedMatrix> matrices = {fc(), context()};
    for (std::int64_t layer = 0; layer < config_.layer_count(); ++layer) {
      for (StackedMatrix& matrix : std::vector{qkv(layer), out(layer), gate_up(layer), down(layer)})
        matrices.push_back(std::move(matrix));
    }
    return matrices;
  }

  static std::string name(std::int64_t layer, const char* tensor) {
    return fmt::format("layers.{}.{}.weight", layer, tensor);
  }

 private:
  const BlockDrafterConfig& config_;
  const EngineOptions& options_;

  WeightCodec codec_of(std::int64_t layer) const { return options_.codec_of(TensorClass::kDrafter, layer); }
  std::int64_t columns_of_taps() const { return config_.tap_count() * config_.hidden_size; }
};

}  // namespace

std::uint64_t drafter_weight_bytes(const BlockDrafterConfig& config, const EngineOptions& options) {
  std::uint64_t bytes = 0;
  for (const StackedMatrix& matrix : DrafterPlan(config, options).all())
    bytes += static_cast<std::uint64_t>(tile_bytes(matrix.codec, matrix.rows(), matrix.columns));
  const std::int64_t gains = 2 * config.hidden_size + config.layer_count() * 2 * (config.hidden_size + config.head_dim);
  return bytes + static_cast<std::uint64_t>(gains) * sizeof(float);
}

std::uint64_t drafter_staging_bytes(const BlockDrafterConfig& config, const EngineOptions& options) {
  return staging_bytes(DrafterPlan(config, options).all());
}

CudaDrafterWeights load_drafter_weights(const BlockDrafterCheckpoint& checkpoint, const EngineOptions& options) {
  const BlockDrafterConfig& config = checkpoint.config();
  const DrafterPlan plan(config, options);
  WeightStage stage(checkpoint, drafter_staging_bytes(config, options));
  const auto floats = [&](const std::string& name, std::int64_t size) {
    return to_floats(checkpoint.expect(name, {size}));
  };
  const auto gain = [&](const std::string& name, std::int64_t size) { return upload_floats(floats(name, size), name); };
  CudaDrafterWeights weights;
  weights.fc = load_projection(stage, plan.fc());
  weights.hidden_norm = gain("hidden_norm.weight", config.hidden_size);
  weights.final_norm = gain("norm.weight", config.hidden_size);
  weights.context = load_projection(stage, plan.context());
  std::vector<float> k_norms;
  for (std::int64_t i = 0; i < config.layer_count(); ++i) {
    CudaDrafterLayerWeights& layer = weights.layers.emplace_back();
    layer.input_norm = gain(DrafterPlan::name(i, "input_layernorm"), config.hidden_size);
    layer.post_norm = gain(DrafterPlan::name(i, "post_attention_layernorm"), config.hidden_size);
    layer.qkv = load_projection(stage, plan.qkv(i));
    layer.out = load_projection(stage, plan.out(i));
    layer.q_norm = gain(DrafterPlan::name(i, "self_attn.q_norm"), config.head_dim);
    layer.gate_up = load_projection(stage, plan.gate_up(i));
    layer.down = load_projection(stage, plan.down(i));
    const std::vector<float> k_norm = floats(DrafterPlan::name(i, "self_attn.k_norm"), config.head_dim);
    k_norms.insert(k_norms.end(), k_norm.begin(), k_norm.end());
  }
  weights.k_norms = upload_floats(k_norms, "k_norm.weight of all layers");
  return weights;
}

}  // namespace tare::engine
