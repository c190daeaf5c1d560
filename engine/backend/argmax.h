// The greedy choice. It belongs to the interface: every backend hands it out beside the logits, and all agree.
#pragma once

#include <cstdint>
#include <span>

namespace tare::engine {

// The largest value, by comparisons only, so that it is one of the values. Empty: minus infinity.
[[nodiscard]] float largest(std::span<const float> values);

// Index of the largest logit, the lowest index among equals. Throws Error (internal) for none and for NaN.
[[nodiscard]] std::int32_t argmax(std::span<const float> logits);

}  // namespace tare::engine
