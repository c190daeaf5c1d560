// A model's layers as the kernels take them.
#pragma once

#include "engine/checkpoint/model_config.h"
#include "engine/cuda/attention/attention.h"
#include "engine/cuda/gdn/gdn.h"

namespace tare::engine {

[[nodiscard]] inline CudaGdnShape gdn_shape_of(const ModelConfig& config) {
  return {.key_heads = static_cast<int>(config.linear_key_heads),
          .value_heads = static_cast<int>(config.linear_value_heads),
          .dk = static_cast<int>(config.linear_key_head_dim),
          .dv = static_cast<int>(config.linear_value_head_dim),
          .taps = static_cast<int>(config.conv_kernel),
          .eps = config.rms_norm_eps};
}

[[nodiscard]] inline CudaAttentionShape attention_shape_of(const ModelConfig& config) {
  return {.heads = static_cast<int>(config.attention_heads),
          .kv_heads = static_cast<int>(config.key_value_heads),
          .head_dim = static_cast<int>(config.head_dim),
          .rotary_dim = static_cast<int>(config.rotary_dim),
          .eps = config.rms_norm_eps};
}

}  // namespace tare::engine
