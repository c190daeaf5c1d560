// Dots of each weight format with each activation format, in double precision on the represented numbers: what a kernel
// must compute up to its own rounding. Activation blocks and weight groups are aligned with each other.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/formats/weight_groups.h"

namespace tare::engine {

// A row of q8 activations: codes [columns], scales [group_count(columns)].
struct EncodedActivations {
  std::vector<std::int8_t> codes;
  std::vector<float> scales;
};
[[nodiscard]] EncodedActivations encode_activations(std::span<const float> values);

[[nodiscard]] double reference_dot(std::span<const std::uint16_t> bfloat16_weights, std::span<const float> activations);
[[nodiscard]] double reference_dot(const EncodedRow& weights, std::span<const float> activations);
[[nodiscard]] double reference_dot(const EncodedFP8Row& weights, std::span<const float> activations);
[[nodiscard]] double reference_dot(const EncodedRow& weights, const EncodedActivations& activations);

}  // namespace tare::engine
