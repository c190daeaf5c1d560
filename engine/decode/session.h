// One prompt through a backend: prefill, then rounds until the policy, an end-of-text token or a limit ends it.
// Times are of the steady clock, taken at round ends and kept in memory; nothing is printed while the clock runs.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/decode/token_policy.h"

namespace tare::engine {

// Why a prompt ended. Every prompt has exactly one.
enum class Outcome {
  kEndOfText,     // an end-of-text token was produced (it is the last token of the text)
  kImmediateEnd,  // the very first token was end-of-text: there is no decode to time
  kLength,        // max_tokens reached
  kForcedText,    // the forced text ended
  kContextFull,   // the caches are full
  kStopped,       // the token callback asked to stop
};
[[nodiscard]] std::string to_text(Outcome outcome);

// One commit-verify-accept cycle.
struct Round {
  std::int64_t duration_ns = 0;  // whole round, with what was spun
  std::int64_t spun_ns = 0;      // spun on purpose by the handicap, measured
  std::int32_t tokens = 0;       // committed by this round
};

struct Generation {
  Outcome outcome = Outcome::kLength;
  std::vector<std::int32_t> tokens;   // committed, the prefill's first; an end-of-text token is included
  std::vector<std::int32_t> natural;  // natural choice at each of them
  std::int64_t prefill_ns = 0;        // the prompt's forward pass
  std::int64_t first_token_ns = 0;    // start to the first token's choice: time to first token
  std::vector<Round> rounds;          // tokens.size() - 1 of one token each
  std::int64_t decode_ns = 0;         // sum of the rounds' durations
  std::int64_t total_ns = 0;          // start to end, whatever lies between the rounds included
};

struct GenerationLimits {
  std::int64_t max_tokens = 0;                   // at least 1; ignored when the policy is forced
  std::vector<std::int32_t> end_of_text_tokens;  // may be empty
};

// Called after a token is committed, outside round times; returning false stops. Empty: not called.
using TokenCallback = std::function<bool(std::int32_t token)>;

// Resets the backend, absorbs the prompt (at least one token) and generates. Throws what the backend throws, and
// Error (input) for an empty prompt, max_tokens < 1, or a prompt that leaves no room.
[[nodiscard]] Generation generate(Backend& backend, std::span<const std::int32_t> prompt, TokenPolicy& policy,
                                  const GenerationLimits& limits, const TokenCallback& on_token = {});

}  // namespace tare::engine
