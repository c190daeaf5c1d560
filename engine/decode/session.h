// One prompt through a backend: prefill, then rounds until the policy, an end-of-text token or a limit ends it.
// Times are of the steady clock, taken at round ends and kept in memory; nothing is printed while the clock runs.
//
// A round with a drafter: the backend drafts, a tree grows (engine/speculate), one pass verifies its nodes, and the
// tree is walked from the root: the policy chooses a token from the node's scores, and goes on at the child that holds
// it. So a draft is accepted exactly when it is what the policy commits: under a forced text when it is the text, else
// when it is the target's own choice (greedy, or the draw keyed by the position). The text is that of decoding without
// a drafter; only how many rounds it takes depends on the drafts.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/decode/prefix_cache.h"
#include "engine/decode/round.h"
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

// What a drafter proposed in a round.
struct RecordedDraft {
  std::int64_t round = 0;
  std::int64_t rows = 0;
  std::int64_t candidates = 0;
  std::vector<std::int32_t> tokens;  // [rows, candidates]
  std::vector<float> log_probabilities;
};

struct Generation {
  Outcome outcome = Outcome::kLength;
  std::vector<std::int32_t> tokens;   // committed, the prefill's first; an end-of-text token is included
  std::vector<std::int32_t> natural;  // natural choice at each of them
  std::int64_t restored_tokens = 0;   // of the prompt, from a prefix cache: they were not computed
  std::int64_t prefill_ns = 0;        // the prompt's forward pass, with what a prefix cache restored and stored
  std::int64_t first_token_ns = 0;    // start to the first token's choice: time to first token
  std::vector<Round> rounds;          // their tokens are all but the first
  std::vector<RoundShape> shapes;     // of the rounds, when asked for
  std::vector<RecordedDraft> drafts;  // likewise; none of a round without a draft
  std::int64_t decode_ns = 0;         // sum of the rounds' durations
  std::int64_t total_ns = 0;          // start to end, whatever lies between the rounds included
};

struct GenerationLimits {
  std::int64_t max_tokens = 0;                        // at least 1; ignored when the policy is forced
  std::vector<std::int32_t> end_of_text_tokens = {};  // may be empty
  bool record_shapes = false;                         // outside round times
  bool record_drafts = false;  // likewise; drafts are then made even where a tree of one node needs none
  // Rounds to be walked instead of what the drafts would give: round i verifies a tree of shape i whose path holds the
  // forced text, so that its cost is that of the recorded round whatever this model would have accepted. Drafts are
  // made and thrown away. Needs a forced policy; every round of the text needs its shape.
  std::vector<RoundShape> recorded = {};
  // Through which the prompt is prefilled; its cache may be null. Outlives the call.
  PrefixUse prefixes = {};
};

// Called after a token is committed, outside round times; returning false stops. Empty: not called.
using TokenCallback = std::function<bool(std::int32_t token)>;

// Resets the backend, absorbs the prompt (at least one token) and generates. Throws what the backend throws, and
// Error (input) for an empty prompt, max_tokens < 1, a prompt that leaves no room, or recorded rounds that do not fit
// the text.
[[nodiscard]] Generation generate(Backend& backend, std::span<const std::int32_t> prompt, TokenPolicy& policy,
                                  const GenerationLimits& limits, const TokenCallback& on_token = {});

}  // namespace tare::engine
