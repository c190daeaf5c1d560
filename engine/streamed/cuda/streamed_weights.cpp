#include "engine/streamed/cuda/streamed_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "engine/checkpoint/tensor_plan.h"
#include "engine/cuda/device/cuda_check.h"
#include "engine/cuda/weights/synthetic_weights.h"
#include "engine/streamed/cuda/streamed_kernels.h"

namespace tare::engine {
namespace {

constexpr std::uint64_t kAlignment = 256;
constexpr std::uint64_t kStagingBytes = std::uint64_t{256} << 20;  // of BF16 numbers at once

std::uint64_t aligned(std::uint64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

std::uint64_t fp32_bytes(const PlannedTensor& tensor) {
  return aligned(sizeof(float) * static_cast<std::uint64_t>(std::accumulate(tensor.shape.begin(), tensor.shape.end(),
                                                                            std::int64_t{1}, std::multiplies<>())));
}

}  // namespace

std::uint64_t StreamedWeights::arena_bytes(const ModelConfig& config) {
  std::uint64_t most = 0;
  std::uint64_t layer_bytes = 0;
  std::string layer;
  for (const PlannedTensor& tensor : plan_tensors(config)) {
    // The head beside the final norm; a tied one is the embedding's tensor.
    if (tensor.role == TensorRole::kHead || tensor.role == TensorRole::kEmbedding)
      most =
          std::max(most, fp32_bytes(tensor) + aligned(sizeof(float) * static_cast<std::uint64_t>(config.hidden_size)));
    if (!tensor.name.starts_with("layers.")) continue;
    const std::string own = tensor.name.substr(0, tensor.name.find('.', std::string("layers.").size()));
    layer_bytes = own == layer ? layer_bytes + fp32_bytes(tensor) : fp32_bytes(tensor);
    layer = own;
    most = std::max(most, layer_bytes);
  }
  return most;
}

std::uint64_t StreamedWeights::staging_bytes(const ModelConfig& config) {
  const std::int64_t widest =
      std::max({config.hidden_size, config.intermediate_size, config.query_channels(), config.linear_value_channels()});
  return std::max(kStagingBytes, sizeof(std::uint16_t) * static_cast<std::uint64_t>(widest));
}

StreamedWeights::StreamedWeights(const Checkpoint& checkpoint)
    : checkpoint_(checkpoint),
      synthetic_(dynamic_cast<const SyntheticRecipes*>(&checkpoint)),
      config_(checkpoint.config()),
      arena_(arena_bytes(config_), "weights of a layer or the head"),
      staging_(staging_bytes(config_), "weights on their way"),
      fault_(sizeof(unsigned long long), "a fault's place") {}

float* StreamedWeights::reserve(std::int64_t numbers) {
  const std::uint64_t bytes = aligned(sizeof(float) * static_cast<std::uint64_t>(numbers));
  if (used_ + bytes > arena_.bytes()) throw internal_error("a layer's weights are more than was planned");
  auto* place = reinterpret_cast<float*>(arena_.data() + used_);
  used_ += bytes;
  return place;
}

void StreamedWeights::check_fault(const std::string& name, std::int64_t first_element, cudaStream_t stream) {
  unsigned long long fault = 0;
  check_cuda(cudaMemcpyAsync(&fault, fault_.data(), sizeof(fault), cudaMemcpyDeviceToHost, stream), "cudaMemcpyAsync");
  check_cuda(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  if (fault != ~0ULL)
    throw input_error(fmt::format("tensor '{}'", name),
                      fmt::format("element {} is not finite", first_element + static_cast<std::int64_t>(fault)));
}

void StreamedWeights::widen_rows(const Tensor& tensor, std::int64_t columns, float* target, cudaStream_t stream) {
  const std::int64_t rows = tensor.element_count() / columns;
  const auto step = static_cast<std::int64_t>(staging_.bytes() / sizeof(std::uint16_t)) / columns;
  for (std::int64_t row = 0; row < rows; row += step) {
    const Tensor part = tensor.rows(row, std::min(step, rows - row));
    if (tensor.dtype != Dtype::kBF16) {
      const std::vector<float> values = to_floats(part);
      check_cuda(cudaMemcpyAsync(target + row * columns, values.data(), values.size() * sizeof(float),
                                 cudaMemcpyHostToDevice, stream),
                 "cudaMemcpyAsync");
      check_cuda(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
      continue;
    }
    check_cuda(cudaMemsetAsync(fault_.data(), 0xFF, fault_.bytes(), stream), "cudaMemsetAsync");
    check_cuda(cudaMemcpyAsync(staging_.data(), part.bytes.data(), part.bytes.size(), cudaMemcpyHostToDevice, stream),
               "cudaMemcpyAsync");
    launch_widen(staging_.as<std::uint16_t>(), target + row * columns, part.element_count(),
                 fault_.as<unsigned long long>(), stream);
    check_fault(tensor.name, row * columns, stream);
  }
}

void StreamedWeights::make_rows(const std::string& name, std::int64_t rows, std::int64_t columns, float* target,
                                cudaStream_t stream) {
  const SyntheticRecipe recipe = synthetic_->recipe(name);
  const auto step = static_cast<std::int64_t>(staging_.bytes() / sizeof(std::uint16_t)) / columns;
  check_cuda(cudaMemsetAsync(fault_.data(), 0xFF, fault_.bytes(), stream), "cudaMemsetAsync");
  for (std::int64_t row = 0; row < rows; row += step) {
    const std::int64_t count = std::min(step, rows - row) * columns;
    launch_synthetic_weights(recipe, static_cast<std::uint64_t>(row * columns), static_cast<std::uint64_t>(count),
                             staging_.as<std::uint16_t>(), {.stream = stream});
    launch_widen(staging_.as<std::uint16_t>(), target + row * columns, count, fault_.as<unsigned long long>(), stream);
  }
}

float* StreamedWeights::matrix(const std::string& name, std::int64_t rows, std::int64_t columns, cudaStream_t stream) {
  float* target = reserve(rows * columns);
  if (synthetic_ != nullptr) {
    checkpoint_.expect_shape(name, {rows, columns});
    make_rows(name, rows, columns, target, stream);
  } else {
    widen_rows(checkpoint_.expect(name, {rows, columns}), columns, target, stream);
  }
  return target;
}

float* StreamedWeights::vector(const std::string& name, const std::vector<std::int64_t>& shape, bool centred,
                               cudaStream_t stream) {
  std::vector<float> values = to_floats(checkpoint_.expect(name, shape));
  if (centred)
    for (float& value : values) value += 1.0F;
  float* target = reserve(static_cast<std::int64_t>(values.size()));
  check_cuda(cudaMemcpyAsync(target, values.data(), values.size() * sizeof(float), cudaMemcpyHostToDevice, stream),
             "cudaMemcpyAsync");
  check_cuda(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  return target;
}

CudaLayerWeights StreamedWeights::load_layer(std::int64_t layer, cudaStream_t stream) {
  used_ = 0;
  const std::int64_t hidden = config_.hidden_size;
  const auto at = [&](const char* name) { return fmt::format("layers.{}.{}", layer, name); };
  const auto project = [&](const char* name, std::int64_t rows, std::int64_t columns) {
    return matrix(at(name), rows, columns, stream);
  };
  const auto values = [&](const char* name, const std::vector<std::int64_t>& shape) {
    return vector(at(name), shape, false, stream);
  };
  const auto gain = [&](const char* name, std::int64_t size) { return vector(at(name), {size}, true, stream); };
  CudaLayerWeights weights;
  weights.kind = config_.layers[static_cast<std::size_t>(layer)];
  weights.input_gain = gain("input_layernorm.weight", hidden);
  weights.mlp_gain = gain("post_attention_layernorm.weight", hidden);
  if (weights.kind == LayerKind::kLinearAttention) {
    const std::int64_t heads = config_.linear_value_heads;
    weights.gdn = {
        .qkv = project("linear_attn.in_proj_qkv.weight", config_.conv_channels(), hidden),
        .z = project("linear_attn.in_proj_z.weight", config_.linear_value_channels(), hidden),
        .b = project("linear_attn.in_proj_b.weight", heads, hidden),
        .a = project("linear_attn.in_proj_a.weight", heads, hidden),
        .out = project("linear_attn.out_proj.weight", hidden, config_.linear_value_channels()),
        .convolution = values("linear_attn.conv1d.weight", {config_.conv_channels(), 1, config_.conv_kernel}),
        .a_log = values("linear_attn.A_log", {heads}),
        .dt_bias = values("linear_attn.dt_bias", {heads}),
        .norm = values("linear_attn.norm.weight", {config_.linear_value_head_dim})};
  } else {
    weights.attention = {.query = project("self_attn.q_proj.weight", 2 * config_.query_channels(), hidden),
                         .key = project("self_attn.k_proj.weight", config_.key_value_channels(), hidden),
                         .value = project("self_attn.v_proj.weight", config_.key_value_channels(), hidden),
                         .out = project("self_attn.o_proj.weight", hidden, config_.query_channels()),
                         .query_gain = gain("self_attn.q_norm.weight", config_.head_dim),
                         .key_gain = gain("self_attn.k_norm.weight", config_.head_dim)};
  }
  weights.gate = project("mlp.gate_proj.weight", config_.intermediate_size, hidden);
  weights.up = project("mlp.up_proj.weight", config_.intermediate_size, hidden);
  weights.down = project("mlp.down_proj.weight", hidden, config_.intermediate_size);
  return weights;
}

CudaHeadWeights StreamedWeights::load_head(cudaStream_t stream) {
  used_ = 0;
  CudaHeadWeights weights;
  weights.final_gain = vector("norm.weight", {config_.hidden_size}, true, stream);
  weights.head = matrix(config_.tie_word_embeddings ? "embed_tokens.weight" : "lm_head.weight", config_.vocab_size,
                        config_.hidden_size, stream);
  return weights;
}

const float* StreamedWeights::load_embedding(cudaStream_t stream) {
  used_ = 0;
  return matrix("embed_tokens.weight", config_.vocab_size, config_.hidden_size, stream);
}

}  // namespace tare::engine
