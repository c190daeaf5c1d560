// Rounds of a backend on random tokens, timed one by one: what ceilings and profiles measure.
#pragma once

#include <cstdint>
#include <vector>

#include "base/philox.h"
#include "engine/backend/backend.h"

namespace tare::profiles {

constexpr std::int64_t kMostWidth = 32;  // tokens that every backend verifies in one pass

// Throws Error (input) unless width lies in 1 to kMostWidth.
void check_width(std::int64_t width);

class DecodeRounds {
 public:
  // Resets the backend and feeds it `context` tokens of the sequence that `seed` names. context >= 1, width >= 1, both
  // together within the capacity.
  DecodeRounds(engine::Backend& backend, std::int64_t context, std::int64_t width, std::uint64_t seed);

  // Drafts, where the backend has a drafter, as far ahead as its options say; verifies `width` tokens whatever was
  // drafted, for their greedy tokens only, and commits them. Returns the seconds. Starts again from the first context,
  // outside of the time, when the caches cannot hold another round.
  double run_one();
  // Resets the backend and feeds the first context again. Returns the seconds of that prefill.
  double restart();

 private:
  engine::Backend* backend_;
  std::int64_t context_;
  std::uint64_t seed_;
  Philox tokens_;
  std::vector<std::int32_t> round_;

  [[nodiscard]] std::int64_t draft_tokens() const;  // 0: no drafter
  void draw(std::vector<std::int32_t>& tokens);
};

}  // namespace tare::profiles
