#include "engine/formats/float_formats.h"

#include <array>
#include <cmath>
#include <limits>

namespace tare::engine {
namespace {

// binary32: 1 sign, 8 exponent (bias 127), 23 mantissa bits. binary16: 1, 5 (bias 15), 10.
constexpr int kMantissaDifference = 23 - 10;
constexpr int kBiasDifference = 127 - 15;
// E4M3: 1, 4 (bias 7), 3.
constexpr int kE4M3MantissaDifference = 23 - 3;
constexpr int kE4M3BiasDifference = 127 - 7;

// `mantissa` shifted right by `shift` bits (1..31), rounded to nearest, ties to even.
std::uint32_t shift_rounded(std::uint32_t mantissa, int shift) {
  const std::uint32_t kept = mantissa >> shift;
  const std::uint32_t rest = mantissa & ((1U << shift) - 1U);
  const std::uint32_t half = 1U << (shift - 1);
  return kept + ((rest > half || (rest == half && (kept & 1U) != 0)) ? 1U : 0U);
}

}  // namespace

float float16_to_float(std::uint16_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000U) << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1FU;
  const std::uint32_t mantissa = bits & 0x3FFU;
  if (exponent == 0) {  // zero and subnormals: mantissa * 2^-24, exact in binary32
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24F;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) | sign);
  }
  const std::uint32_t wide = exponent == 0x1FU ? 0xFFU : exponent + kBiasDifference;
  return std::bit_cast<float>(sign | (wide << 23) | (mantissa << kMantissaDifference));
}

std::uint16_t float_to_float16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000U);
  const int exponent = static_cast<int>((bits >> 23) & 0xFFU) - kBiasDifference;
  const std::uint32_t mantissa = bits & 0x7F'FFFFU;
  const auto with_sign = [sign](std::uint32_t magnitude) { return static_cast<std::uint16_t>(sign | magnitude); };

  if (exponent == 0xFF - kBiasDifference)  // infinity, NaN (made quiet)
    return with_sign(mantissa == 0 ? kFloat16Infinity : kFloat16Infinity | 0x200U | (mantissa >> kMantissaDifference));
  if (exponent >= 0x1F) return with_sign(kFloat16Infinity);
  if (exponent > 0)  // normal; a carry out of the mantissa goes into the exponent, up to infinity, as it should
    return with_sign(shift_rounded((static_cast<std::uint32_t>(exponent) << 23) | mantissa, kMantissaDifference));
  const int shift = kMantissaDifference + 1 - exponent;  // subnormal result: the implicit one becomes explicit
  if (shift > 24) return sign;                           // below half of 2^-24
  return with_sign(shift_rounded(mantissa | 0x80'0000U, shift));
}

float e4m3_to_float(std::uint8_t bits) {
  const std::uint32_t sign = (bits & 0x80U) << 24;
  const std::uint32_t exponent = (bits >> 3) & 0xFU;
  const std::uint32_t mantissa = bits & 0x7U;
  if ((bits & 0x7FU) == kE4M3NaN) return std::numeric_limits<float>::quiet_NaN();
  if (exponent == 0) {  // zero and subnormals: mantissa * 2^-9
    const float magnitude = static_cast<float>(mantissa) * 0x1p-9F;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) | sign);
  }
  return std::bit_cast<float>(sign | ((exponent + kE4M3BiasDifference) << 23) | (mantissa << kE4M3MantissaDifference));
}

std::uint8_t float_to_e4m3(float value) {
  if (std::isnan(value)) return kE4M3NaN;
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint8_t>((bits >> 24) & 0x80U);
  const auto with_sign = [sign](std::uint32_t magnitude) { return static_cast<std::uint8_t>(sign | magnitude); };
  if (std::fabs(value) > kE4M3Largest) return with_sign(kE4M3LargestBits);

  const int exponent = static_cast<int>((bits >> 23) & 0xFFU) - kE4M3BiasDifference;
  const std::uint32_t mantissa = bits & 0x7F'FFFFU;
  if (exponent > 0)
    return with_sign(shift_rounded((static_cast<std::uint32_t>(exponent) << 23) | mantissa, kE4M3MantissaDifference));
  const int shift = kE4M3MantissaDifference + 1 - exponent;  // subnormal result, as above
  if (shift > 24) return sign;                               // below half of 2^-9
  return with_sign(shift_rounded(mantissa | 0x80'0000U, shift));
}

float e2m1_to_float(std::uint8_t bits) {
  constexpr std::array<float, 8> kMagnitudes = {0.0F, 0.5F, 1.0F, 1.5F, 2.0F, 3.0F, 4.0F, 6.0F};
  const float magnitude = kMagnitudes[bits & 0x7U];
  return (bits & 0x8U) != 0 ? -magnitude : magnitude;
}

std::uint8_t float_to_e2m1(float value) {
  // What lies above a midpoint of two neighbours has the greater code; on it, the even code wins.
  constexpr std::array<float, 7> kMidpoints = {0.25F, 0.75F, 1.25F, 1.75F, 2.5F, 3.5F, 5.0F};
  if (std::isnan(value)) return 0x7U;
  const float magnitude = std::fabs(value);
  std::uint8_t code = 0;
  for (std::uint8_t below = 0; below < kMidpoints.size(); ++below) {
    const bool above = magnitude > kMidpoints[below] || (magnitude == kMidpoints[below] && below % 2 == 1);
    code = static_cast<std::uint8_t>(code + (above ? 1 : 0));
  }
  return static_cast<std::uint8_t>(code | (std::signbit(value) ? 0x8U : 0U));
}

}  // namespace tare::engine
