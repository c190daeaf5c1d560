#include "engine/formats/hadamard.h"

#include <cmath>

#include "base/error.h"

namespace tare::engine {

void rotate_hadamard(std::span<float> x) {
  if (!has_hadamard(static_cast<std::int64_t>(x.size())))
    throw internal_error("a Hadamard transform has a power of two as its size");
  for (std::size_t distance = 1; distance < x.size(); distance *= 2) {
    for (std::size_t begin = 0; begin < x.size(); begin += 2 * distance) {
      for (std::size_t i = begin; i < begin + distance; ++i) {
        const float sum = x[i] + x[i + distance];
        const float difference = x[i] - x[i + distance];
        x[i] = sum;
        x[i + distance] = difference;
      }
    }
  }
  const auto factor = static_cast<float>(1.0 / std::sqrt(static_cast<double>(x.size())));
  for (float& value : x) value *= factor;
}

}  // namespace tare::engine
