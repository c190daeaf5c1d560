// The floating-point operations of a reference, counted before it starts: what time is left, and what rate was reached.
#pragma once

#include "engine/checkpoint/model_config.h"

namespace tare::engine {

// Multiplications and additions that the definition needs for one window: 2 a weight and token, 4 a query head,
// dimension, token and position it sees, 7 an element of the recurrent state and token. Norms and activations are not
// counted.
[[nodiscard]] double layer_flops(const ModelConfig& config, std::int64_t layer, std::int64_t window_tokens);
[[nodiscard]] double head_flops(const ModelConfig& config, std::int64_t window_tokens);
// Of `windows` windows through all layers and the head.
[[nodiscard]] double reference_flops(const ModelConfig& config, std::int64_t windows, std::int64_t window_tokens);

}  // namespace tare::engine
