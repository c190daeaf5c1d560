// What changes from round to round, in device memory, so that one graph serves all rounds of a width.
//
// Recurrent layers keep a verify's inputs as records in one of two halves; verify number n writes half n % 2. A commit
// of m tokens only says so: the next pass first folds the m pending records of the other half into the state. A pass
// that folds leaves state, columns and records such that a second pass with pending 0 goes on correctly.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tare::engine {

constexpr int kMostRoundTokens = 32;

struct RoundControl {
  std::int32_t tokens[kMostRoundTokens] = {};
  std::int32_t frontier = 0;  // positions of this pass are frontier, frontier + 1, ...
  std::int32_t pending = 0;   // records of half 1 - half that were committed
  std::int32_t half = 0;      // the half that this pass writes
};

// Weights that a latency-bound kernel's extra blocks pull into L2 while the others compute.
struct L2Fill {
  const std::byte* data = nullptr;
  std::int64_t bytes = 0;  // 0: no fill, no extra blocks
  int blocks = 0;
};

}  // namespace tare::engine
