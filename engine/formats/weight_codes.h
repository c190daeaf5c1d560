// A group of 64 weights in any quantised format as what is stored of it: unsigned fields of code_bits bits, and scales.
// What every layout is made from: the CPU's panels, a quantised checkpoint.
//
//   q8 q5 q4 q3   field = code + 2^(bits - 1)     fp8: E4M3 bits     nvfp4: E2M1 bits
//   weight = scale * code                         scales FP16: the definition is weight_groups.h
//   weight = tensor_scale * (scale * code)        scales E4M3; scale * code is exact in FP32, the rest is one rounding
//
// With E4M3 scales (a group of 64 has one, NVFP4 one for each block of 16), encoder, most_code 127, 15, 7, 3, 448, 6:
//   1. tensor_scale = absmax of the tensor / most_code / 448, two FP32 divisions, so that the largest scale is 448; at
//      least 2^-100, and 1 for a tensor of zeros.
//   2. scale = absmax of the group / most_code / tensor_scale in FP32, rounded to E4M3; a group that is not all zeros
//      has at least 2^-9.
//   3. code = weight * (1 / (tensor_scale * scale)), all in FP32, rounded to the nearest integer, ties to even, and
//      clamped last (fp8: to E4M3, nvfp4: to E2M1, which hold their largest).
//   4. A group (NVFP4: a block) of zeros has scale 0 and codes 0.
// E4M3 moves a scale by up to 1/16, so that the largest weight of a group may be held at most_code, or use less of it.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "engine/formats/weight_format.h"
#include "engine/formats/weight_groups.h"

namespace tare::engine {

constexpr std::int64_t kNVFP4WeightBlock = 16;
constexpr std::size_t kMostScalesAGroup = kGroupSize / kNVFP4WeightBlock;
constexpr float kLeastTensorScale = 0x1p-100F;

// The same codec with scales that are what they say: FP16 for bf16, E4M3 for nvfp4.
[[nodiscard]] WeightCodec normalized(WeightCodec codec);
[[nodiscard]] constexpr bool has_tensor_scale(WeightCodec codec) {
  return codec.format == WeightFormat::kNVFP4 ||
         (codec.format != WeightFormat::kBF16 && codec.scales == ScaleFormat::kE4M3);
}

// Of a quantised format. Throw Error (internal) for bf16.
[[nodiscard]] int code_bits_of(WeightFormat format);
[[nodiscard]] int field_bias_of(WeightFormat format);  // 0 where a field is a float
[[nodiscard]] std::size_t scales_a_group(WeightFormat format);
[[nodiscard]] std::size_t scale_bytes(WeightCodec codec);  // of one

// Of a tensor with this absmax (finite). Throws Error (input) when it is not finite.
[[nodiscard]] float tensor_scale_of(WeightFormat format, float absmax);

struct EncodedGroup {
  std::array<std::uint8_t, kGroupSize> fields{};
  std::array<std::uint16_t, kMostScalesAGroup> scales{};  // FP16 bits, or E4M3 bits
};
// Encodes 1..64 weights; what is missing to 64 has the field of code 0. tensor_scale counts only where there is one.
// Throws Error (input): a weight that is not finite, a scale that overflows FP16.
[[nodiscard]] EncodedGroup encode_weights(WeightCodec codec, float tensor_scale, std::span<const float> values);
// The weight of a field; `scale` as in EncodedGroup.
[[nodiscard]] float decode_weight(WeightCodec codec, float tensor_scale, std::uint16_t scale, std::uint8_t field);
void decode_weights(WeightCodec codec, float tensor_scale, const EncodedGroup& group, std::span<float> values);

// `count` fields of `bits` bits one after the other, the first in the lowest bits of the first byte.
void pack_fields(std::span<const std::uint8_t> fields, int bits, std::span<std::uint8_t> bytes);
void unpack_fields(std::span<const std::uint8_t> bytes, int bits, std::span<std::uint8_t> fields);
[[nodiscard]] constexpr std::int64_t packed_bytes(std::int64_t count, int bits) {
  return (count * bits + 7) / 8;
}

}  // namespace tare::engine
