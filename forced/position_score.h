// The scores of one position: a row of logits against the reference's row (docs/method/fidelity.md).
//
// p_i: the reference's probabilities of its 64 most likely tokens; q_i: the scored model's of the same tokens, softmax
// of its logits with the log-sum-exp in double precision. Tails: what the 64 leave, on either side.
//   kl64       sum p_i ln(p_i / q_i); may be negative, by as much as the mass that moved between the 64 and the tail
//   kl64_tail  kl64 + p_tail ln(p_tail / q_tail): the divergence of the distributions that both have when all other
//              tokens are one. By the data-processing inequality 0 <= kl64_tail <= the divergence over all tokens.
//   nll        -ln q of the token that follows
// The model's tail is the sum of the others, not 1 - sum q_i, which cancels; the reference's is
// -expm1(ln p_0) - sum over i > 0 of p_i, exact where p_0 is near 1. 0 ln 0 = 0.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tare::forced {

// Of one position: [K] each, most likely first, ties by rising id.
struct ReferenceRow {
  std::span<const std::int32_t> ids;
  std::span<const float> log_probabilities;
};

struct PositionScore {
  double kl64 = 0;       // infinite when the model gives a token of the 64 no chance at all
  double kl64_tail = 0;  // likewise
  double nll = 0;        // likewise of the token that follows
  std::int32_t best = 0;
  bool agrees = false;  // best is the reference's most likely token; both break ties to the lowest id
};

// What FP32 log-probabilities of the reference may take from an exact 0: half a unit in the last place of ln p, weighed
// by p, summed over the 64.
inline constexpr double kReferenceRounding = 1e-6;

// Scores a row of [vocab] logits. `scratch` is resized to the row. Throws Error (invalid) naming `where` and the token:
// a logit that is NaN or +inf, a row of -inf only; Error (input): ids or `next` outside the row; Error (internal) when
// kl64_tail < -kReferenceRounding, which no pair of distributions gives.
[[nodiscard]] PositionScore score_position(std::span<const float> logits, const ReferenceRow& reference,
                                           std::int32_t next, const std::string& where, std::vector<float>& scratch);

// Divergence over all tokens, from both rows of logits in double precision: what kl64_tail stays below. For tests and
// small vocabularies. Throws Error (invalid) as score_position does, for both rows.
[[nodiscard]] double full_divergence(std::span<const float> reference_logits, std::span<const float> logits);

// ln p of the most likely token less that of the second: how near the reference is to a tie. 0 with one candidate.
[[nodiscard]] double reference_margin(const ReferenceRow& reference);

}  // namespace tare::forced
