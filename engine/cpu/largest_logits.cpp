#include "engine/cpu/largest_logits.h"

#include <algorithm>

#include "engine/backend/argmax.h"

namespace tare::engine {
namespace {

constexpr std::size_t kBlock = 64;  // logits compared with the threshold at once

}  // namespace

// A heap whose top is the worst of the best so far; indices come in rising order, so that of equals the first stays.
void select_largest(std::span<const float> logits, std::int64_t count, std::vector<Candidate>& most) {
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
