#include "engine/streamed/cuda/streamed_layers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "engine/streamed/cuda/streamed_kernels.h"

namespace tare::engine {
namespace {

constexpr std::uint64_t kWorkspaceBytes = std::uint64_t{64} << 20;  // cuBLAS asks for 32 MB on Hopper
constexpr std::int64_t kLogitNumbers = std::int64_t{1} << 28;       // 1 GB of logits at once

struct Widths {
  std::int64_t first, second, third;
};

// Numbers a position that the kinds of layers need of the three arrays: projections, then what becomes of them.
Widths widths_of(const ModelConfig& config) {
  return {std::max({config.conv_channels(), 2 * config.query_channels(), config.intermediate_size}),
          std::max({config.linear_value_channels(), config.query_channels(), config.intermediate_size}),
          std::max(config.conv_channels(), config.query_channels() + 2 * config.key_value_channels())};
}

std::int64_t logit_rows_of(const ModelConfig& config, std::int64_t window_tokens) {
  return std::clamp<std::int64_t>(kLogitNumbers / config.vocab_size, 1, window_tokens);
}

struct Sizes {
  std::uint64_t rows, gates, scores, tables;
};

Sizes sizes_of(const ModelConfig& config, std::int64_t windows, std::int64_t window_tokens) {
  const std::int64_t positions = windows * window_tokens;
  const Widths widths = widths_of(config);
  const std::int64_t group = config.attention_heads / config.key_value_heads;
  const auto bytes = [](std::int64_t numbers) { return sizeof(float) * static_cast<std::uint64_t>(numbers); };
  return {.rows = bytes(positions * (config.hidden_size + widths.first + widths.second + widths.third)),
          .gates = std::max(bytes(2 * positions * config.linear_value_heads),
                            sizeof(double) * static_cast<std::uint64_t>(positions * config.attention_heads)),
          .scores = bytes(std::max(group * window_tokens * window_tokens,
                                   logit_rows_of(config, window_tokens) * config.vocab_size)),
          .tables = bytes(window_tokens * config.rotary_dim / 2)};
}

DeviceBuffer rows_buffer(std::int64_t positions, std::int64_t width) {
  return {sizeof(float) * static_cast<std::size_t>(positions * width), "activations of a batch"};
}

GdnShape gdn_shape(const ModelConfig& config, std::int64_t positions, std::int64_t window_tokens) {
  return {.rows = positions,
          .window_tokens = window_tokens,
          .key_heads = config.linear_key_heads,
          .value_heads = config.linear_value_heads,
          .key_dim = config.linear_key_head_dim,
          .value_dim = config.linear_value_head_dim};
}

}  // namespace

StreamedLayers::StreamedLayers(const ModelConfig& config, std::int64_t windows, std::int64_t window_tokens)
    : config_(config), window_tokens_(window_tokens), logit_rows_(logit_rows_of(config, window_tokens)) {
  if (config.linear_key_head_dim > kMostKeyDim)
    throw input_error("linear_key_head_dim",
                      fmt::format("is {}, the GPU's recurrence holds {}", config.linear_key_head_dim, kMostKeyDim),
                      "use the reference on the CPU");
  const std::int64_t positions = windows * window_tokens;
  const Widths widths = widths_of(config);
  const Sizes sizes = sizes_of(config, windows, window_tokens);
  hidden_ = rows_buffer(positions, config.hidden_size);
  first_ = rows_buffer(positions, widths.first);
  second_ = rows_buffer(positions, widths.second);
  third_ = rows_buffer(positions, widths.third);
  gates_ = DeviceBuffer(sizes.gates, "gates of a batch");
  scores_ = DeviceBuffer(sizes.scores, "scores and logits");
  cosines_ = DeviceBuffer(sizes.tables, "rotation");
  sines_ = DeviceBuffer(sizes.tables, "rotation");
  workspace_ = DeviceBuffer(kWorkspaceBytes, "cuBLAS");
  // Frequencies and angles are FP32 products, as transformers computes them; their sine and cosine are exact and
  // rounded once.
  std::vector<float> cosines;
  std::vector<float> sines;
  for (std::int64_t position = 0; position < window_tokens; ++position)
    for (std::int64_t i = 0; i < config.rotary_dim; i += 2) {
      const float exponent = static_cast<float>(i) / static_cast<float>(config.rotary_dim);
      const float frequency = 1.0F / static_cast<float>(std::pow(config.rope_theta, static_cast<double>(exponent)));
      const auto angle = static_cast<double>(static_cast<float>(position) * frequency);
      cosines.push_back(static_cast<float>(std::cos(angle)));
      sines.push_back(static_cast<float>(std::sin(angle)));
    }
  copy_to_device(cosines_, std::span<const float>(cosines));
  copy_to_device(sines_, std::span<const float>(sines));
}

std::vector<MemoryPart> StreamedLayers::parts(const ModelConfig& config, std::int64_t windows,
                                              std::int64_t window_tokens) {
  const Sizes sizes = sizes_of(config, windows, window_tokens);
  return {{"work space", sizes.rows + sizes.gates + 2 * sizes.tables + kWorkspaceBytes},
          {"scores and logits", sizes.scores}};
}

void StreamedLayers::multiply(const float* weights, std::int64_t rows, std::int64_t columns, const float* b,
                              std::int64_t positions, float* c, bool add, cudaStream_t stream) const {
  cublas_.multiply_fp32({.rows = static_cast<int>(rows),
                         .tokens = static_cast<int>(positions),
                         .columns = static_cast<int>(columns),
                         .a = weights,
                         .a_stride = static_cast<int>(columns),
                         .b = b,
                         .b_stride = static_cast<int>(columns),
                         .c = c,
                         .c_stride = static_cast<int>(rows),
                         .add = add},
                        workspace_.data(), workspace_.bytes(), stream);
}

void StreamedLayers::run(const CudaLayerWeights& weights, std::int64_t windows, float* x, cudaStream_t stream) {
  const std::int64_t positions = windows * window_tokens_;
  const std::int64_t hidden = config_.hidden_size;
  launch_norm(x, weights.input_gain, config_.rms_norm_eps, positions, hidden, hidden_.as<float>(), stream);
  if (weights.kind == LayerKind::kLinearAttention)
    run_gdn(weights.gdn, positions, x, stream);
  else
    run_attention(weights.attention, positions, x, stream);
  launch_norm(x, weights.mlp_gain, config_.rms_norm_eps, positions, hidden, hidden_.as<float>(), stream);
  run_mlp(weights, positions, x, stream);
}

void StreamedLayers::run_gdn(const CudaGdnWeights& weights, std::int64_t positions, float* x,
                             cudaStream_t stream) const {
  const GdnShape shape = gdn_shape(config_, positions, window_tokens_);
  const std::int64_t hidden = config_.hidden_size;
  const std::int64_t value_channels = config_.linear_value_channels();
  const auto* h = hidden_.as<float>();
  auto* p = first_.as<float>();
  auto* z = second_.as<float>();
  auto* y = third_.as<float>();
  auto* alpha = gates_.as<float>();
  auto* beta = alpha + positions * shape.value_heads;
  multiply(weights.qkv, shape.channels(), hidden, h, positions, p, false, stream);
  multiply(weights.z, value_channels, hidden, h, positions, z, false, stream);
  multiply(weights.a, shape.value_heads, hidden, h, positions, alpha, false, stream);
  multiply(weights.b, shape.value_heads, hidden, h, positions, beta, false, stream);
  launch_convolution(p, weights.convolution, {positions, shape.channels(), config_.conv_kernel, window_tokens_}, y,
                     stream);
  launch_l2_norms(shape, y, stream);
  launch_gates(shape, weights.a_log, weights.dt_bias, alpha, beta, stream);
  float* o = p;  // the projections are not needed any more
  launch_recurrence(shape, y, alpha, beta, o, stream);
  launch_gated_norm(shape, weights.norm, config_.rms_norm_eps, z, o, stream);
  multiply(weights.out, hidden, value_channels, o, positions, x, true, stream);
}

void StreamedLayers::run_attention(const CudaAttentionWeights& weights, std::int64_t positions, float* x,
                                   cudaStream_t stream) const {
  const AttentionShape shape{.rows = positions,
                             .window_tokens = window_tokens_,
                             .heads = config_.attention_heads,
                             .key_heads = config_.key_value_heads,
                             .dim = config_.head_dim,
                             .rotary = config_.rotary_dim};
  const std::int64_t hidden = config_.hidden_size;
  const std::int64_t key_width = config_.key_value_channels();
  const auto* h = hidden_.as<float>();
  auto* projected = first_.as<float>();
  auto* queries = second_.as<float>();
  auto* keys = third_.as<float>();
  auto* values = keys + positions * key_width;
  auto* out = values + positions * key_width;
  multiply(weights.query, 2 * config_.query_channels(), hidden, h, positions, projected, false, stream);
  multiply(weights.key, key_width, hidden, h, positions, keys, false, stream);
  multiply(weights.value, key_width, hidden, h, positions, values, false, stream);
  launch_attention_inputs(shape, weights.query_gain, weights.key_gain, config_.rms_norm_eps, cosines_.as<float>(),
                          sines_.as<float>(), projected, queries, keys, stream);
  for (std::int64_t window = 0; window < shape.windows(); ++window)
    for (std::int64_t head = 0; head < config_.key_value_heads; ++head) attend(window, shape.windows(), head, stream);
  launch_attention_output(shape, queries, gates_.as<double>(), projected, out, stream);
  multiply(weights.out, hidden, config_.query_channels(), out, positions, x, true, stream);
}

// The query heads that share a key-value head, [group * tokens] rows one after the other: their queries give way to the
// weighed values.
void StreamedLayers::attend(std::int64_t window, std::int64_t windows, std::int64_t key_head,
                            cudaStream_t stream) const {
  const std::int64_t group = config_.attention_heads / config_.key_value_heads;
  const std::int64_t key_width = config_.key_value_channels();
  const std::int64_t dim = config_.head_dim;
  const std::int64_t rows = group * window_tokens_;
  const std::int64_t first_row = (window * config_.attention_heads + key_head * group) * window_tokens_;
  float* queries = second_.as<float>() + first_row * dim;
  const float* keys = third_.as<float>() + window * window_tokens_ * key_width + key_head * dim;
  const float* values = keys + windows * window_tokens_ * key_width;
  auto* scores = scores_.as<float>();
  Fp32Product product{.rows = static_cast<int>(window_tokens_),
                      .tokens = static_cast<int>(rows),
                      .columns = static_cast<int>(dim),
                      .a = keys,
                      .a_stride = static_cast<int>(key_width),
                      .b = queries,
                      .b_stride = static_cast<int>(dim),
                      .c = scores,
                      .c_stride = static_cast<int>(window_tokens_)};
  cublas_.multiply_fp32(product, workspace_.data(), workspace_.bytes(), stream);
  const auto scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(dim)));
  launch_exponentials(rows, window_tokens_, scale, scores, gates_.as<double>() + first_row, stream);
  product = {.rows = static_cast<int>(dim),
             .tokens = static_cast<int>(rows),
             .columns = static_cast<int>(window_tokens_),
             .a = values,
             .a_stride = static_cast<int>(key_width),
             .a_by_column = true,
             .b = scores,
             .b_stride = static_cast<int>(window_tokens_),
             .c = queries,
             .c_stride = static_cast<int>(dim)};
  cublas_.multiply_fp32(product, workspace_.data(), workspace_.bytes(), stream);
}

void StreamedLayers::run_mlp(const CudaLayerWeights& weights, std::int64_t positions, float* x,
                             cudaStream_t stream) const {
  const std::int64_t width = config_.intermediate_size;
  const std::int64_t hidden = config_.hidden_size;
  const auto* h = hidden_.as<float>();
  auto* gate = first_.as<float>();
  auto* up = second_.as<float>();
  multiply(weights.gate, width, hidden, h, positions, gate, false, stream);
  multiply(weights.up, width, hidden, h, positions, up, false, stream);
  launch_mlp_activation(positions * width, gate, up, stream);
  multiply(weights.down, hidden, width, gate, positions, x, true, stream);
}

const float* StreamedLayers::logits(const CudaHeadWeights& weights, const float* x, std::int64_t rows,
                                    cudaStream_t stream) {
  launch_norm(x, weights.final_gain, config_.rms_norm_eps, rows, config_.hidden_size, hidden_.as<float>(), stream);
  multiply(weights.head, config_.vocab_size, config_.hidden_size, hidden_.as<float>(), rows, scores_.as<float>(), false,
           stream);
  return scores_.as<float>();
}

}  // namespace tare::engine
