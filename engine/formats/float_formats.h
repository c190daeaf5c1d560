// Scalar definitions of the narrow floating-point formats, by bit pattern. Conversions to float are exact; conversions
// from float round to nearest, ties to even, keep subnormals and keep NaN a NaN. They do not depend on the rounding
// mode or on flush-to-zero.
//
//   FP16      IEEE 754 binary16                                         beyond the largest: infinity
//   BF16      the upper half of binary32                                beyond the largest: infinity
//   FP8 E4M3  the OCP 8-bit format: 1 sign, 4 exponent (bias 7), 3 mantissa bits; subnormals are multiples of 2^-9; no
//             infinity, NaN only 0x7F and 0xFF, largest 448             beyond the largest, infinity too: 448 with the
//             sign; NaN becomes 0x7F whatever its sign. So does the instruction cvt.rn.satfinite.e4m3x2 (PTX ISA).
//   FP4 E2M1  the OCP 4-bit format: 1 sign, 2 exponent (bias 1), 1 mantissa bit: 0, 0.5, 1, 1.5, 2, 3, 4, 6 with the
//             sign; no infinity and no NaN                              beyond the largest, infinity too: 6 with the
//             sign; NaN becomes 6. So does cvt.rn.satfinite.e2m1x2; encoders of blocks never ask for it.
#pragma once

#include <bit>
#include <cstdint>

namespace tare::engine {

[[nodiscard]] constexpr float bfloat16_to_float(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

[[nodiscard]] constexpr std::uint16_t float_to_bfloat16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const bool is_nan = (bits & 0x7FFF'FFFFU) > 0x7F80'0000U;
  if (is_nan) return static_cast<std::uint16_t>((bits >> 16) | 0x0040U);  // quiet, sign and upper payload kept
  const std::uint32_t tie_to_even = (bits >> 16) & 1U;
  return static_cast<std::uint16_t>((bits + 0x7FFFU + tie_to_even) >> 16);
}

// The value after a round trip through BF16.
[[nodiscard]] constexpr float round_to_bfloat16(float value) {
  return bfloat16_to_float(float_to_bfloat16(value));
}

// The nearest integer, ties to even, for |value| < 2^22: a sum with 1.5 * 2^23 has no bits left for a fraction. Unlike
// std::nearbyint it is two additions everywhere, so that encoders vectorise.
[[nodiscard]] inline float nearest_integer(float value) {
  constexpr float kNoFraction = 0x1.8p23F;
  return (value + kNoFraction) - kNoFraction;
}

[[nodiscard]] float float16_to_float(std::uint16_t bits);
[[nodiscard]] std::uint16_t float_to_float16(float value);

[[nodiscard]] float e4m3_to_float(std::uint8_t bits);
[[nodiscard]] std::uint8_t float_to_e4m3(float value);

[[nodiscard]] float e2m1_to_float(std::uint8_t bits);  // of the low four bits
[[nodiscard]] std::uint8_t float_to_e2m1(float value);

constexpr float kE4M3Largest = 448;
constexpr std::uint8_t kE4M3LargestBits = 0x7EU;
constexpr std::uint8_t kE4M3NaN = 0x7FU;
constexpr std::uint8_t kE4M3LeastSubnormal = 0x01U;  // 2^-9
constexpr float kE2M1Largest = 6;
constexpr std::uint16_t kFloat16Infinity = 0x7C00U;
constexpr std::uint16_t kFloat16LeastSubnormal = 0x0001U;  // 2^-24

}  // namespace tare::engine
