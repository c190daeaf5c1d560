// Scalar definition of q8 activations: blocks of 64 along K, INT8 codes in -127..127 and one FP32 scale a block.
//
//   scale = absmax / 127        code = x * (127 / absmax), rounded to the nearest integer, ties to even      (FP32)
//
// A block whose absmax is below 2^-100 becomes zeros with scale 0 (127 / absmax would overflow); a block with a value
// that is not finite gets scale NaN and zero codes, so that the fault reaches the logits and is reported there.
#pragma once

#include <cstdint>
#include <span>

namespace tare::engine {

constexpr int kActivationMostCode = 127;
constexpr float kLeastActivation = 0x1p-100F;

// Encodes one block (1..64 values; `codes` of the same size) and returns its scale.
float encode_activation_block(std::span<const float> values, std::span<std::int8_t> codes);

}  // namespace tare::engine
