#include "engine/formats/screen_bound.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/error.h"
#include "engine/formats/weight_groups.h"

namespace tare::engine {
namespace {

// Calls visit(group, values of the group) for every group of a row.
template <class Visit>
void for_groups(std::size_t columns, Visit visit) {
  const auto size = static_cast<std::size_t>(kGroupSize);
  for (std::size_t begin = 0; begin < columns; begin += size) visit(begin, std::min(columns, begin + size));
}

}  // namespace

ScreenError screen_error(std::span<const float> head_row, std::span<const float> screen_row) {
  if (head_row.size() != screen_row.size()) throw internal_error("a head's row and its screen's differ in width");
  ScreenError error;
  for_groups(head_row.size(), [&](std::size_t begin, std::size_t end) {
    double most = 0;
    double squares = 0;
    for (std::size_t i = begin; i < end; ++i) {
      const double difference = static_cast<double>(head_row[i]) - static_cast<double>(screen_row[i]);
      most = std::max(most, std::abs(difference));
      squares += difference * difference;
    }
    error.steps.push_back(most);
    error.norms.push_back(std::sqrt(squares));
  });
  return error;
}

ActivationNorms activation_norms(std::span<const float> activations) {
  ActivationNorms result;
  for_groups(activations.size(), [&](std::size_t begin, std::size_t end) {
    double sum = 0;
    double squares = 0;
    for (std::size_t i = begin; i < end; ++i) {
      const auto value = static_cast<double>(activations[i]);
      sum += std::abs(value);
      squares += value * value;
    }
    result.sums.push_back(sum);
    result.norms.push_back(std::sqrt(squares));
  });
  return result;
}

double step_bound(const ScreenError& error, const ActivationNorms& activations) {
  return std::inner_product(error.steps.begin(), error.steps.end(), activations.sums.begin(), 0.0);
}

double norm_bound(const ScreenError& error, const ActivationNorms& activations) {
  return std::inner_product(error.norms.begin(), error.norms.end(), activations.norms.begin(), 0.0);
}

double rounding_bound(std::int64_t columns, double weight_norm, double activation_norm) {
  // n sums and products, each off by half a unit in the last place at most: gamma_n = n u / (1 - n u), with
  // sum |w h| <= ||w|| ||h||; once for each of the two logits.
  const double unit = std::numeric_limits<float>::epsilon() / 2;
  const double n = static_cast<double>(columns + 1) * unit;
  return 2 * n / (1 - n) * weight_norm * activation_norm;
}

}  // namespace tare::engine
