// A replay text: the token ids that every configuration is forced onto for one prompt, and how repetitive it is.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/decode/round.h"

namespace tare::forced {

// How much of a text is a loop. A looping text has near-perfect predictability and measures nothing.
struct Repetition {
  double distinct_4gram_share = 1;          // distinct 4-grams / 4-grams; 1 for texts below 4 tokens
  double dominant_token_share = 0;          // share of the most frequent token
  std::int64_t periodic_suffix_tokens = 0;  // longest suffix that repeats with one period at least three times
  std::int64_t period = 0;                  // that period; 0 when there is none
  std::int64_t longest_run = 0;             // of one token
  std::int64_t distinct_tokens = 0;
};

[[nodiscard]] Repetition measure_repetition(std::span<const std::int32_t> tokens);

// A text is called repetitive when less than half of its 4-grams are distinct, when one token makes more than half of
// it, or when a periodic suffix covers more than a quarter of it. Texts below 16 tokens are never called so.
[[nodiscard]] bool is_repetitive(const Repetition& repetition, std::int64_t tokens);

struct ReplayText {
  std::string prompt_id;
  std::string category;
  std::vector<std::int32_t> prompt_tokens;
  std::vector<std::int32_t> tokens;        // what is committed after the prompt, the prefill's token first
  std::string outcome;                     // of the free run that wrote it; "given" for a text from elsewhere
  std::vector<std::int32_t> round_tokens;  // committed by each round of that run: the round boundaries
  // The baseline's choice at each position. Empty for a text the baseline wrote itself: there the choice is the text.
  std::vector<std::int32_t> natural;
  // Trees and paths that every arm is to walk (docs/protocol/rounds.md). Empty: each arm's own.
  std::vector<engine::RoundShape> rounds = {};

  [[nodiscard]] const std::vector<std::int32_t>& expected_natural() const { return natural.empty() ? tokens : natural; }
};

// Digest of prompt and text ids, and of the rounds where they are given: equal digests mean equal work.
[[nodiscard]] std::string replay_digest(const ReplayText& text);
// Digest of a suite: of the ids and digests of its texts, in order.
[[nodiscard]] std::string suite_digest(std::span<const ReplayText> texts);

}  // namespace tare::forced
