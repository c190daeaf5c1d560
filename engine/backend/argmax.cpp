#include "engine/backend/argmax.h"

#include <algorithm>
#include <array>
#include <limits>

#include "base/error.h"

namespace tare::engine {
namespace {

constexpr std::size_t kLanes = 16;  // independent partial maxima: wide enough for every vector length

std::size_t first_equal(std::span<const float> values, float wanted) {
  return static_cast<std::size_t>(std::find(values.begin(), values.end(), wanted) - values.begin());
}

}  // namespace

float largest(std::span<const float> values) {
  std::array<float, kLanes> lanes;
  lanes.fill(-std::numeric_limits<float>::infinity());
  const std::size_t whole = values.size() / kLanes * kLanes;
  for (std::size_t i = 0; i < whole; i += kLanes)
    for (std::size_t lane = 0; lane < kLanes; ++lane)
      lanes[lane] = values[i + lane] > lanes[lane] ? values[i + lane] : lanes[lane];
  for (std::size_t i = whole; i < values.size(); ++i) lanes[0] = std::max(lanes[0], values[i]);
  return *std::max_element(lanes.begin(), lanes.end());
}

std::int32_t argmax(std::span<const float> logits) {
  if (logits.empty()) throw internal_error("argmax of no logits");
  const std::size_t index = first_equal(logits, largest(logits));
  if (index == logits.size()) throw internal_error("argmax of logits that are NaN");
  return static_cast<std::int32_t>(index);
}

}  // namespace tare::engine
