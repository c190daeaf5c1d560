#include "engine/backend/rope.h"

#include <cmath>

namespace tare::engine {

std::vector<float> rope_frequencies(std::int64_t rotary_dim, double theta) {
  std::vector<float> frequencies;
  for (std::int64_t i = 0; i < rotary_dim; i += 2) {
    const float exponent = static_cast<float>(i) / static_cast<float>(rotary_dim);
    frequencies.push_back(1.0F / static_cast<float>(std::pow(theta, static_cast<double>(exponent))));
  }
  return frequencies;
}

RopeTable::RopeTable(std::int64_t positions, std::int64_t rotary_dim, double theta) : half_(rotary_dim / 2) {
  const std::vector<float> frequencies = rope_frequencies(rotary_dim, theta);
  cosines_.reserve(static_cast<std::size_t>(positions * half_));
  sines_.reserve(static_cast<std::size_t>(positions * half_));
  for (std::int64_t position = 0; position < positions; ++position)
    for (const float frequency : frequencies) {
      const float angle = static_cast<float>(position) * frequency;
      // Double-precision functions reduce large arguments exactly; the result is rounded once.
      cosines_.push_back(static_cast<float>(std::cos(static_cast<double>(angle))));
      sines_.push_back(static_cast<float>(std::sin(static_cast<double>(angle))));
    }
}

void RopeTable::rotate(std::int64_t position, float* x) const {
  const float* cosines = cosines_.data() + position * half_;
  const float* sines = sines_.data() + position * half_;
  for (std::int64_t i = 0; i < half_; ++i) {
    const float first = x[i];
    const float second = x[i + half_];
    x[i] = first * cosines[i] - second * sines[i];
    x[i + half_] = second * cosines[i] + first * sines[i];
  }
}

}  // namespace tare::engine
