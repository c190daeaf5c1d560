// Drawing one token from logits (the greedy choice is engine/backend/argmax.h's). Results depend on the logits' bits
// only: the code is compiled for the base instruction set without contraction, so every machine of one architecture
// draws the same token.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tare::engine {

// Draws from softmax(logits / temperature) by inverting the cumulative distribution in id order at `uniform` in [0, 1).
// temperature > 0. `scratch` is reused between calls.
[[nodiscard]] std::int32_t draw(std::span<const float> logits, double temperature, double uniform,
                                std::vector<float>& scratch);

// exp(x) for x <= 0 as `draw` computes it: relative error below 3e-7 for x >= -87, 0 below.
[[nodiscard]] float exp_nonpositive(float x);

// Rounds to `bits` mantissa bits (1..23), ties to even; infinities stay, no overflow to infinity is hidden.
[[nodiscard]] float round_mantissa(float value, int bits);

}  // namespace tare::engine
