// What changes from draft to draft, and what a draft says at its end.
#pragma once

#include <cstdint>

#include "engine/cuda/device/round_control.h"
#include "engine/cuda/head/logit_chunks.h"

namespace tare::engine {

struct DraftControl {
  std::int32_t frontier = 0;  // the block's rows stand at positions frontier, frontier + 1, ...
  // Rows of the taps that become context first, for positions first_feature, first_feature + 1, ...
  std::int32_t features = 0;
  std::int32_t first_feature = 0;
  std::int32_t candidates = 1;
  float inverse_temperature = 1;
  std::int32_t tokens[kMostRoundTokens] = {};  // of the block
  std::int32_t rows[kMostRoundTokens] = {};    // features: where each lies in the taps
};

// In mapped host memory. Row i of the block is about position frontier + i; row 0 is the anchor's and left alone.
struct DraftOutcome {
  std::int32_t tokens[kMostRoundTokens][kMostCandidates];
  float log_probabilities[kMostRoundTokens][kMostCandidates];
  std::int32_t fault[kMostRoundTokens];  // 1: a logit is not finite
};

}  // namespace tare::engine
