#include "engine/cpu/model_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "engine/backend/tensor_class.h"
#include "engine/cpu/kernels.h"
#include "engine/formats/float_formats.h"

namespace tare::engine {
namespace {

AlignedBuffer<float> padded(const std::vector<float>& values) {
  AlignedBuffer<float> result(
      static_cast<std::size_t>(round_up(static_cast<std::int64_t>(values.size()), kRowPadding)));
  std::copy(values.begin(), values.end(), result.data());
  return result;
}

class Loader {
 public:
  Loader(const Checkpoint& checkpoint, const EngineOptions& options, ThreadPool& pool)
      : checkpoint_(checkpoint), config_(checkpoint.config()), options_(options), pool_(pool) {}

  ModelWeights load() {
    ModelWeights weights;
    weights.embedding = embedding();
    for (std::int64_t layer = 0; layer < config_.layer_count(); ++layer)
      weights.layers.push_back(
          load_layer(fmt::format("layers.{}.", layer), config_.layers[static_cast<std::size_t>(layer)]));
    weights.final_norm = zero_centred_gain("norm.weight", config_.hidden_size);
    weights.head = projection(config_.tie_word_embeddings ? "embed_tokens.weight" : "lm_head.weight",
                              config_.vocab_size, config_.hidden_size);
    return weights;
  }

  MtpWeights load_mtp() {
    MtpWeights weights;
    weights.embedding_norm = zero_centred_gain("mtp.pre_fc_norm_embedding.weight", config_.hidden_size);
    weights.hidden_norm = zero_centred_gain("mtp.pre_fc_norm_hidden.weight", config_.hidden_size);
    weights.fc = projection("mtp.fc.weight", config_.hidden_size, 2 * config_.hidden_size);
    weights.body.layers.push_back(load_layer("mtp.layers.0.", LayerKind::kFullAttention));
    weights.body.final_norm = zero_centred_gain("mtp.norm.weight", config_.hidden_size);
    return weights;
  }

 private:
  const Checkpoint& checkpoint_;
  const ModelConfig& config_;
  const EngineOptions& options_;
  ThreadPool& pool_;

  std::vector<float> vector(const std::string& name, std::int64_t size) const {
    return to_floats(checkpoint_.expect(name, {size}));
  }

  // Stored gains of these norms are centred at zero: the factor is 1 + w.
  AlignedBuffer<float> zero_centred_gain(const std::string& name, std::int64_t size) const {
    return load_gain(checkpoint_, name, size, 1.0F);
  }

  Projection projection(const std::string& name, std::int64_t rows, std::int64_t columns) const {
    return load_projection(checkpoint_, name, rows, columns, codec_of_tensor(options_, config_, name), pool_);
  }

  AlignedBuffer<std::uint16_t> embedding() const {
    const Tensor tensor = checkpoint_.expect("embed_tokens.weight", {config_.vocab_size, config_.hidden_size});
    AlignedBuffer<std::uint16_t> rows(static_cast<std::size_t>(config_.vocab_size * config_.hidden_size));
    const auto row_elements = static_cast<std::size_t>(config_.hidden_size);
    pool_.parallel_for(static_cast<std::size_t>(config_.vocab_size), 1, [&](int, std::size_t begin, std::size_t end) {
      for (std::size_t row = begin; row < end; ++row) {
        const std::vector<float> values = to_floats(tensor.rows(static_cast<std::int64_t>(row), 1));
        std::transform(values.begin(), values.end(), rows.data() + row * row_elements, float_to_bfloat16);
      }
    });
    return rows;
  }

  GdnWeights load_gdn(const std::string& prefix) const {
    const std::int64_t hidden = config_.hidden_size;
    const std::int64_t heads = config_.linear_value_heads;
    const std::int64_t channels = config_.conv_channels();
    GdnWeights weights;
    weights.qkv = projection(prefix + "in_proj_qkv.weight", channels, hidden);
    weights.z = projection(prefix + "in_proj_z.weight", config_.linear_value_channels(), hidden);
    const std::vector<Tensor> stacked = {checkpoint_.expect(prefix + "in_proj_b.weight", {heads, hidden}),
                                         checkpoint_.expect(prefix + "in_proj_a.weight", {heads, hidden})};
    weights.beta_and_decay = {pack_matrix(stacked, codec_of_tensor(options_, config_, stacked[0].name), pool_),
                              {prefix + "in_proj_b.weight", prefix + "in_proj_a.weight"}};
    weights.out = projection(prefix + "out_proj.weight", hidden, config_.linear_value_channels());

    const std::vector<float> taps =
        to_floats(checkpoint_.expect(prefix + "conv1d.weight", {channels, 1, config_.conv_kernel}));
    weights.convolution_stride = round_up(channels, kRowPadding);
    // One padded row more than needed: kernels read whole vectors past a head's last channel.
    weights.convolution =
        AlignedBuffer<float>(static_cast<std::size_t>(config_.conv_kernel * weights.convolution_stride + kRowPadding));
    for (std::int64_t channel = 0; channel < channels; ++channel)
      for (std::int64_t tap = 0; tap < config_.conv_kernel; ++tap)
        weights.convolution.data()[tap * weights.convolution_stride + channel] =
            taps[static_cast<std::size_t>(channel * config_.conv_kernel + tap)];

    weights.decay_rate = vector(prefix + "A_log", heads);
    for (float& value : weights.decay_rate) value = static_cast<float>(std::exp(static_cast<double>(value)));
    weights.dt_bias = vector(prefix + "dt_bias", heads);
    weights.norm = padded(vector(prefix + "norm.weight", config_.linear_value_head_dim));
    return weights;
  }

  AttentionWeights load_attention(const std::string& prefix) const {
    const std::int64_t hidden = config_.hidden_size;
    AttentionWeights weights;
    weights.q = projection(prefix + "q_proj.weight", 2 * config_.query_channels(), hidden);
    weights.k = projection(prefix + "k_proj.weight", config_.key_value_channels(), hidden);
    weights.v = projection(prefix + "v_proj.weight", config_.key_value_channels(), hidden);
    weights.out = projection(prefix + "o_proj.weight", hidden, config_.query_channels());
    weights.q_norm = zero_centred_gain(prefix + "q_norm.weight", config_.head_dim);
    weights.k_norm = zero_centred_gain(prefix + "k_norm.weight", config_.head_dim);
    return weights;
  }

  LayerWeights load_layer(const std::string& prefix, LayerKind kind) const {
    const std::int64_t hidden = config_.hidden_size;
    LayerWeights weights;
    weights.input_norm = zero_centred_gain(prefix + "input_layernorm.weight", hidden);
    weights.post_norm = zero_centred_gain(prefix + "post_attention_layernorm.weight", hidden);
    if (kind == LayerKind::kLinearAttention) {
      weights.gdn = load_gdn(prefix + "linear_attn.");
    } else {
      weights.attention = load_attention(prefix + "self_attn.");
    }
    weights.gate = projection(prefix + "mlp.gate_proj.weight", config_.intermediate_size, hidden);
    weights.up = projection(prefix + "mlp.up_proj.weight", config_.intermediate_size, hidden);
    weights.down = projection(prefix + "mlp.down_proj.weight", hidden, config_.intermediate_size);
    return weights;
  }
};

}  // namespace

ModelWeights load_model_weights(const Checkpoint& checkpoint, const EngineOptions& options, ThreadPool& pool) {
  return Loader(checkpoint, options, pool).load();
}

MtpWeights load_mtp_weights(const Checkpoint& checkpoint, const EngineOptions& options, ThreadPool& pool) {
  return Loader(checkpoint, options, pool).load_mtp();
}

Projection load_projection(const TensorSource& source, const std::string& name, std::int64_t rows, std::int64_t columns,
                           WeightCodec codec, ThreadPool& pool) {
  const std::shared_ptr<const StoredCodes> stored = source.codes(name);
  if (stored && stored->codec == normalized(codec)) {
    source.expect_shape(name, {rows, columns});
    return {unpack_codes(*stored, pool), {name}};
  }
  const Tensor tensor = source.expect(name, {rows, columns});
  return {pack_matrix(std::span(&tensor, 1), codec, pool), {name}};
}

AlignedBuffer<float> load_gain(const TensorSource& source, const std::string& name, std::int64_t size, float centre) {
  std::vector<float> gain = to_floats(source.expect(name, {size}));
  for (float& value : gain) value += centre;
  return padded(gain);
}

}  // namespace tare::engine
