#include "engine/formats/float_formats.h"

namespace tare::engine {
namespace {

// binary32: 1 sign, 8 exponent (bias 127), 23 mantissa bits. binary16: 1, 5 (bias 15), 10.
constexpr int kMantissaDifference = 23 - 10;
constexpr int kBiasDifference = 127 - 15;

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

}  // namespace tare::engine
