#include "engine/decode/sampling.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/error.h"
#include "engine/backend/argmax.h"

namespace tare::engine {
namespace {

constexpr std::size_t kBlock = 64;  // values summed in float before they go into the double total

}  // namespace

float exp_nonpositive(float x) {
  // exp(x) = 2^n * exp(r), n = round(x / ln 2), |r| <= ln(2)/2; ln 2 in two parts so that r is exact to rounding.
  constexpr float kLog2e = 1.44269504F;
  constexpr float kLn2High = 0.693359375F;
  constexpr float kLn2Low = -2.12194440e-4F;
  constexpr float kMagic = 12582912.0F;  // 1.5 * 2^23: adding it rounds to an integer
  const float clamped = x < -87.0F ? -87.0F : x;
  const float shifted = clamped * kLog2e + kMagic;
  const float n = shifted - kMagic;
  const float r = (clamped - n * kLn2High) - n * kLn2Low;
  // Taylor to degree 7: the remainder at |r| = 0.3466 is 5e-9 relative.
  float p = 1.0F / 5040.0F;
  p = p * r + 1.0F / 720.0F;
  p = p * r + 1.0F / 120.0F;
  p = p * r + 1.0F / 24.0F;
  p = p * r + 1.0F / 6.0F;
  p = p * r + 0.5F;
  p = p * r + 1.0F;
  p = p * r + 1.0F;
  const std::int32_t exponent = static_cast<std::int32_t>(n);
  const float scale = std::bit_cast<float>((exponent + 127) << 23);
  const float result = p * scale;
  return x < -87.0F ? 0.0F : result;
}

std::int32_t draw(std::span<const float> logits, double temperature, double uniform, std::vector<float>& scratch) {
  const float top = largest(logits);
  const auto inverse = static_cast<float>(1.0 / temperature);
  scratch.resize(logits.size());
  float* weights = scratch.data();
  const float* values = logits.data();
  const std::size_t count = logits.size();
  for (std::size_t i = 0; i < count; ++i) weights[i] = exp_nonpositive((values[i] - top) * inverse);

  double total = 0;
  for (std::size_t begin = 0; begin < count; begin += kBlock) {
    float block = 0;
    for (std::size_t i = begin; i < std::min(begin + kBlock, count); ++i) block += weights[i];
    total += static_cast<double>(block);
  }
  const double target = uniform * total;
  double reached = 0;
  for (std::size_t begin = 0; begin < count; begin += kBlock) {
    const std::size_t end = std::min(begin + kBlock, count);
    float block = 0;
    for (std::size_t i = begin; i < end; ++i) block += weights[i];
    if (reached + static_cast<double>(block) > target) {
      double inside = reached;
      for (std::size_t i = begin; i < end; ++i) {
        inside += static_cast<double>(weights[i]);
        if (inside > target) return static_cast<std::int32_t>(i);
      }
    }
    reached += static_cast<double>(block);
  }
  // Rounding left the target past the last block: the last token that has any weight.
  for (std::size_t i = count; i-- > 0;)
    if (weights[i] > 0) return static_cast<std::int32_t>(i);
  throw internal_error("a distribution without weight");
}

float round_mantissa(float value, int bits) {
  if (!std::isfinite(value) || bits >= 23) return value;
  const auto dropped = static_cast<std::uint32_t>(23 - bits);
  const auto word = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t half_minus_one = (std::uint32_t{1} << (dropped - 1)) - 1;
  const std::uint32_t odd = (word >> dropped) & 1;
  const std::uint32_t rounded = (word + half_minus_one + odd) >> dropped << dropped;
  return std::bit_cast<float>(rounded);
}

}  // namespace tare::engine
