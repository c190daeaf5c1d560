// The model's shape, read from config.json of a Qwen3.5-family checkpoint (both nestings) and checked field by field.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/json.h"

namespace tare::engine {

enum class LayerKind { kLinearAttention, kFullAttention };

struct ModelConfig {
  std::int64_t hidden_size = 0;
  std::int64_t intermediate_size = 0;
  std::int64_t vocab_size = 0;
  std::vector<LayerKind> layers;  // one entry a layer; the MTP layer is not counted
  // full attention
  std::int64_t attention_heads = 0;
  std::int64_t key_value_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t rotary_dim = 0;  // head_dim * partial_rotary_factor
  double rope_theta = 0;
  // linear attention (Gated DeltaNet)
  std::int64_t linear_key_heads = 0;
  std::int64_t linear_value_heads = 0;
  std::int64_t linear_key_head_dim = 0;
  std::int64_t linear_value_head_dim = 0;
  std::int64_t conv_kernel = 0;
  float rms_norm_eps = 0;
  bool tie_word_embeddings = false;
  std::int64_t mtp_layers = 0;
  std::int64_t max_positions = 0;
  std::vector<std::int32_t> eos_token_ids;  // generation_config.json, then text_config, then top level; may be empty

  [[nodiscard]] std::int64_t layer_count() const { return static_cast<std::int64_t>(layers.size()); }
  [[nodiscard]] std::int64_t linear_key_channels() const { return linear_key_heads * linear_key_head_dim; }
  [[nodiscard]] std::int64_t linear_value_channels() const { return linear_value_heads * linear_value_head_dim; }
  [[nodiscard]] std::int64_t conv_channels() const { return 2 * linear_key_channels() + linear_value_channels(); }
  [[nodiscard]] std::int64_t query_channels() const { return attention_heads * head_dim; }
  [[nodiscard]] std::int64_t key_value_channels() const { return key_value_heads * head_dim; }
};

// Reads and checks DIR/config.json and, if there, DIR/generation_config.json. Throws Error (input) naming the field
// for: another architecture, a refused setting (attention_bias, no output gate, dedicated MTP embeddings, MoE), a bad
// size.
[[nodiscard]] ModelConfig read_model_config(const std::filesystem::path& directory);

// The same from parsed JSON; `where` names the file in errors. `generation` may be null JSON.
[[nodiscard]] ModelConfig parse_model_config(const Json& config, const Json& generation, const std::string& where);

}  // namespace tare::engine
