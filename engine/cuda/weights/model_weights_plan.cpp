#include "engine/cuda/weights/model_weights_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "engine/cuda/product/tiles.h"
#include "engine/cuda/weights/model_weights.h"

namespace tare::engine {
namespace {

// Enough for a kernel to fill a GPU with work, little beside a model that needs it.
constexpr std::int64_t kStagingBytes = std::int64_t{128} << 20;

std::string linear_name(std::int64_t layer, const char* name) {
  return fmt::format("layers.{}.linear_attn.{}.weight", layer, name);
}
std::string attention_name(std::int64_t layer, const char* name) {
  return fmt::format("layers.{}.self_attn.{}.weight", layer, name);
}
std::string mlp_name(std::int64_t layer, const char* name) {
  return fmt::format("layers.{}.mlp.{}.weight", layer, name);
}

std::uint64_t matrix_bytes(const StackedMatrix& matrix) {
  return static_cast<std::uint64_t>(tile_bytes(matrix.codec, matrix.rows(), matrix.columns));
}
std::uint64_t plain_bytes(const StackedMatrix& matrix) {
  return static_cast<std::uint64_t>(matrix.rows() * matrix.columns) * sizeof(std::uint16_t);
}
std::uint64_t vector_bytes(std::int64_t elements) {
  return static_cast<std::uint64_t>(elements) * sizeof(float);
}

}  // namespace

std::int64_t StackedMatrix::rows() const {
  if (!chosen.empty()) return static_cast<std::int64_t>(chosen.size());
  return std::accumulate(parts.begin(), parts.end(), std::int64_t{0},
                         [](std::int64_t sum, const Part& part) { return sum + part.rows; });
}

std::vector<std::string> StackedMatrix::names() const {
  std::vector<std::string> names;
  for (const Part& part : parts) names.push_back(part.name);
  return names;
}

StackedMatrix gate_and_up(const std::string& gate, const std::string& up, std::int64_t size, std::int64_t columns,
                          WeightCodec codec) {
  return {.parts = {{gate, size}, {up, size}}, .columns = columns, .codec = codec, .chosen = {}, .alternating = true};
}

StackedMatrix WeightPlan::embedding() const {
  return {{{"embed_tokens.weight", config_.vocab_size}}, config_.hidden_size, WeightFormat::kBF16};
}

StackedMatrix WeightPlan::gdn_input(std::int64_t layer) const {
  return {{{linear_name(layer, "in_proj_qkv"), config_.conv_channels()},
           {linear_name(layer, "in_proj_z"), config_.linear_value_channels()}},
          config_.hidden_size,
          options_.codec_of(TensorClass::kGdn, layer)};
}

StackedMatrix WeightPlan::gdn_gates(std::int64_t layer) const {
  return {{{linear_name(layer, "in_proj_b"), config_.linear_value_heads},
           {linear_name(layer, "in_proj_a"), config_.linear_value_heads}},
          config_.hidden_size,
          WeightFormat::kBF16};
}

StackedMatrix WeightPlan::gdn_output(std::int64_t layer) const {
  return {{{linear_name(layer, "out_proj"), config_.hidden_size}},
          config_.linear_value_channels(),
          options_.codec_of(TensorClass::kGdn, layer)};
}

StackedMatrix WeightPlan::attention_input(std::int64_t layer) const {
  return {{{attention_name(layer, "q_proj"), 2 * config_.query_channels()},
           {attention_name(layer, "k_proj"), config_.key_value_channels()},
           {attention_name(layer, "v_proj"), config_.key_value_channels()}},
          config_.hidden_size,
          options_.codec_of(TensorClass::kAttention, layer)};
}

StackedMatrix WeightPlan::attention_output(std::int64_t layer) const {
  return {{{attention_name(layer, "o_proj"), config_.hidden_size}},
          config_.query_channels(),
          options_.codec_of(TensorClass::kAttention, layer)};
}

StackedMatrix WeightPlan::mlp_input(std::int64_t layer) const {
  return gate_and_up(mlp_name(layer, "gate_proj"), mlp_name(layer, "up_proj"), config_.intermediate_size,
                     config_.hidden_size, options_.codec_of(TensorClass::kMlp, layer));
}

StackedMatrix WeightPlan::mlp_output(std::int64_t layer) const {
  return {{{mlp_name(layer, "down_proj"), config_.hidden_size}},
          config_.intermediate_size,
          options_.codec_of(TensorClass::kMlp, layer)};
}

StackedMatrix WeightPlan::head() const {
  return {{{config_.tie_word_embeddings ? "embed_tokens.weight" : "lm_head.weight", config_.vocab_size}},
          config_.hidden_size,
          options_.codec_of(TensorClass::kHead, config_.layer_count())};
}

StackedMatrix WeightPlan::screen() const {
  StackedMatrix matrix = head();
  matrix.codec = engine::format_of(options_.head.screen);
  return matrix;
}

std::uint64_t staging_bytes(std::span<const StackedMatrix> matrices) {
  std::int64_t bytes = 0;
  for (const StackedMatrix& matrix : matrices) {
    const std::int64_t row_block = kUnitRows * matrix.columns * static_cast<std::int64_t>(sizeof(float));
    bytes = std::max(bytes, std::min(unit_row_blocks(matrix.rows()) * row_block, std::max(kStagingBytes, row_block)));
  }
  return static_cast<std::uint64_t>(bytes);
}

std::uint64_t WeightPlan::staging_bytes() const {
  std::vector<StackedMatrix> matrices = {embedding(), head()};
  for (std::int64_t layer = 0; layer < config_.layer_count(); ++layer) {
    if (config_.layers[static_cast<std::size_t>(layer)] == LayerKind::kLinearAttention) {
      matrices.push_back(gdn_input(layer));
      matrices.push_back(gdn_output(layer));
    } else {
      matrices.push_back(attention_input(layer));
      matrices.push_back(attention_output(layer));
    }
    matrices.push_back(mlp_input(layer));
    matrices.push_back(mlp_output(layer));
  }
  return engine::staging_bytes(matrices);
}

std::vector<MemoryPart> plan_cuda_weights(const ModelConfig& config, const EngineOptions& options) {
  const WeightPlan plan(config, options);
  std::uint64_t attention = 0;
  std::uint64_t gdn = 0;
  std::uint64_t mlp = 0;
  for (std::int64_t layer = 0; layer < config.layer_count(); ++layer) {
    if (config.layers[static_cast<std::size_t>(layer)] == LayerKind::kLinearAttention) {
      const std::int64_t vectors = config.hidden_size + config.conv_channels() * config.conv_kernel +
                                   2 * config.linear_value_heads + config.linear_value_head_dim;
      gdn += matrix_bytes(plan.gdn_input(layer)) + plain_bytes(plan.gdn_gates(layer)) +
             matrix_bytes(plan.gdn_output(layer)) + vector_bytes(vectors);
    } else {
      attention += matrix_bytes(plan.attention_input(layer)) + matrix_bytes(plan.attention_output(layer)) +
                   vector_bytes(config.hidden_size + 2 * config.head_dim);
    }
    mlp +=
        matrix_bytes(plan.mlp_input(layer)) + matrix_bytes(plan.mlp_output(layer)) + vector_bytes(config.hidden_size);
  }
  const std::uint64_t screen = options.head.screen == HeadScreen::kNone ? 0 : matrix_bytes(plan.screen());
  return {{"embedding", plain_bytes(plan.embedding())},
          {"attention", attention},
          {"gdn", gdn},
          {"mlp", mlp},
          {"head", matrix_bytes(plan.head()) + screen + vector_bytes(config.hidden_size)},
          {"staging", plan.staging_bytes()}};
}

}  // namespace tare::engine
