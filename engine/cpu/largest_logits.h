// The few largest of a row of logits.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tare::engine {

struct Candidate {
  float logit;
  std::int32_t token;  // index in the row
};

// The `count` largest of finite logits (all, when there are fewer), largest first, of equal ones the lowest index
// first. `most` is emptied before.
void select_largest(std::span<const float> logits, std::int64_t count, std::vector<Candidate>& most);

}  // namespace tare::engine
