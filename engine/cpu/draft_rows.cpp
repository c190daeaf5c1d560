#include "engine/cpu/draft_rows.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "engine/backend/argmax.h"

namespace tare::engine {
namespace {

constexpr std::size_t kBlock = 64;  // logits compared with the threshold at once

}  // namespace

DraftRows::DraftRows(const Kernels& kernels, ThreadPool& pool)
    : kernels_(kernels), pool_(pool), spaces_(static_cast<std::size_t>(pool.size())) {}

void DraftRows::begin(std::int64_t rows, std::int64_t candidates) {
  rows_ = rows;
  candidates_ = candidates;
  tokens_.resize(static_cast<std::size_t>(rows * candidates));
  log_probabilities_.resize(tokens_.size());
}

void DraftRows::fill(std::int64_t first, std::span<const float> logits, std::int64_t vocab, double temperature) {
  const auto size = static_cast<std::size_t>(vocab);
  const std::size_t count = logits.size() / size;
  if (candidates_ > vocab || first + static_cast<std::int64_t>(count) > rows_)
    throw internal_error("rows of a draft that there is no room for");
  const auto inverse = static_cast<float>(1 / temperature);
  pool_.parallel_for(count, 1, [&](int thread, std::size_t begin, std::size_t end) {
    for (std::size_t row = begin; row < end; ++row)
      fill_row(first + static_cast<std::int64_t>(row), logits.subspan(row * size, size), inverse,
               spaces_[static_cast<std::size_t>(thread)]);
  });
}

void DraftRows::fill_row(std::int64_t row, std::span<const float> logits, float inverse_temperature,
                         ThreadSpace& space) {
  select(logits, candidates_, space.most);
  space.weights.resize(logits.size());
  for (std::size_t i = 0; i < logits.size(); ++i) space.weights[i] = logits[i] * inverse_temperature;
  const float top = space.most.front().logit * inverse_temperature;
  const float log_sum =
      std::log(kernels_.attention.exponentiate(space.weights.data(), static_cast<std::int64_t>(logits.size())));
  auto place = static_cast<std::size_t>(row * candidates_);
  for (const Candidate& candidate : space.most) {
    tokens_[place] = candidate.token;
    log_probabilities_[place++] = (candidate.logit * inverse_temperature - top) - log_sum;
  }
}

// A heap whose top is the worst of the best so far; ids come in rising order, so that of equals the first stays.
void DraftRows::select(std::span<const float> logits, std::int64_t count, std::vector<Candidate>& most) {
  const auto better = [](const Candidate& a, const Candidate& b) {
    return a.logit > b.logit || (a.logit == b.logit && a.token < b.token);
  };
  const auto wanted = static_cast<std::size_t>(count);
  most.clear();
  for (std::size_t begin = 0; begin < logits.size(); begin += kBlock) {
    const std::span<const float> block = logits.subspan(begin, std::min(kBlock, logits.size() - begin));
    if (most.size() == wanted && !(largest(block) > most.front().logit)) continue;
    for (std::size_t i = 0; i < block.size(); ++i) {
      if (most.size() == wanted) {
        if (!(block[i] > most.front().logit)) continue;
        std::pop_heap(most.begin(), most.end(), better);
        most.pop_back();
      }
      most.push_back({block[i], static_cast<std::int32_t>(begin + i)});
      std::push_heap(most.begin(), most.end(), better);
    }
  }
  std::sort_heap(most.begin(), most.end(), better);
}

}  // namespace tare::engine
