// The largest magnitude of a block.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>

namespace tare::engine {

// Infinity or NaN when one of the values is. Magnitudes of finite numbers are in the order of their bits, and NaN's lie
// above; a maximum of integers vectorises, one of floats does not.
[[nodiscard]] inline float absmax_of(std::span<const float> values) {
  std::int32_t most_bits = 0;
  for (const float value : values)
    most_bits = std::max(most_bits, static_cast<std::int32_t>(std::bit_cast<std::uint32_t>(value) & 0x7FFF'FFFFU));
  return std::bit_cast<float>(most_bits);
}

}  // namespace tare::engine
