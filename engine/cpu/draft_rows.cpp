#include "engine/cpu/draft_rows.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace tare::engine {
DraftRows::DraftRows(const Kernels& kernels, ThreadPool& pool)
    : kernels_(kernels), pool_(pool), spaces_(static_cast<std::size_t>(pool.size())) {}

void DraftRows::begin(std::int64_t rows, std::int64_t candidates) {
  rows_ = rows;
  candidates_ = candidates;
  tokens_.resize(static_cast<std::size_t>(rows * candidates));
  log_probabilities_.resize(tokens_.size());
}

void DraftRows::fill(std::int64_t first, std::span<const float> logits, std::int64_t width, double temperature,
                     std::span<const std::int32_t> ids) {
  const auto size = static_cast<std::size_t>(width);
  const std::size_t count = logits.size() / size;
  if (candidates_ > width || first + static_cast<std::int64_t>(count) > rows_)
    throw internal_error("rows of a draft that there is no room for");
  const auto inverse = static_cast<float>(1 / temperature);
  pool_.parallel_for(count, 1, [&](int thread, std::size_t begin, std::size_t end) {
    for (std::size_t row = begin; row < end; ++row)
      fill_row(first + static_cast<std::int64_t>(row), logits.subspan(row * size, size), inverse, ids,
               spaces_[static_cast<std::size_t>(thread)]);
  });
}

void DraftRows::fill_row(std::int64_t row, std::span<const float> logits, float inverse_temperature,
                         std::span<const std::int32_t> ids, ThreadSpace& space) {
  select_largest(logits, candidates_, space.most);
  space.weights.resize(logits.size());
  for (std::size_t i = 0; i < logits.size(); ++i) space.weights[i] = logits[i] * inverse_temperature;
  const float top = space.most.front().logit * inverse_temperature;
  const float log_sum =
      std::log(kernels_.attention.exponentiate(space.weights.data(), static_cast<std::int64_t>(logits.size())));
  auto place = static_cast<std::size_t>(row * candidates_);
  for (const Candidate& candidate : space.most) {
    tokens_[place] = ids.empty() ? candidate.token : ids[static_cast<std::size_t>(candidate.token)];
    log_probabilities_[place++] = (candidate.logit * inverse_temperature - top) - log_sum;
  }
}

}  // namespace tare::engine
