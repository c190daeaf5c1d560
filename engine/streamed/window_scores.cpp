#include "engine/streamed/window_scores.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace tare::engine {

double log_sum_exp(std::span<const float> logits) {
  const float largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - static_cast<double>(largest));
  return static_cast<double>(largest) + std::log(sum);
}

void score_position(std::span<const float> logits, std::int64_t position, std::int32_t next, WindowScores& scores,
                    std::vector<std::int32_t>& order) {
  const auto at = static_cast<std::size_t>(position);
  if (!std::all_of(logits.begin(), logits.end(), [](float logit) { return std::isfinite(logit); })) {
    if (scores.first_not_finite < 0 || position < scores.first_not_finite) scores.first_not_finite = position;
    return;
  }
  const double normalizer = log_sum_exp(logits);
  const auto log_probability = [&](std::int32_t id) {
    return static_cast<float>(static_cast<double>(logits[static_cast<std::size_t>(id)]) - normalizer);
  };
  scores.log_sum_exp[at] = static_cast<float>(normalizer);
  if (next >= 0) scores.next_log_probability[at] = log_probability(next);
  const std::size_t candidates = scores.top_ids.size() / scores.log_sum_exp.size();
  order.resize(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(candidates), order.end(),
                    [&](std::int32_t a, std::int32_t b) {
                      const float left = logits[static_cast<std::size_t>(a)];
                      const float right = logits[static_cast<std::size_t>(b)];
                      return left > right || (left == right && a < b);
                    });
  for (std::size_t i = 0; i < candidates; ++i) {
    scores.top_ids[at * candidates + i] = order[i];
    scores.top_log_probabilities[at * candidates + i] = log_probability(order[i]);
  }
}

}  // namespace tare::engine
