#include "engine/formats/activation_blocks.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "engine/formats/float_formats.h"

namespace tare::engine {

float encode_activation_block(std::span<const float> values, std::span<std::int8_t> codes) {
  if (values.size() != codes.size()) throw internal_error("encode_activation_block: one code a value");
  std::fill(codes.begin(), codes.end(), std::int8_t{0});
  float absmax = 0;
  for (const float value : values) {
    if (!std::isfinite(value)) return std::numeric_limits<float>::quiet_NaN();
    absmax = std::max(absmax, std::fabs(value));
  }
  if (absmax < kLeastActivation) return 0;
  constexpr auto kMost = static_cast<float>(kActivationMostCode);
  const float reciprocal = kMost / absmax;
  for (std::size_t i = 0; i < values.size(); ++i)
    codes[i] = static_cast<std::int8_t>(std::clamp(nearest_integer(values[i] * reciprocal), -kMost, kMost));
  return absmax / kMost;
}

}  // namespace tare::engine
