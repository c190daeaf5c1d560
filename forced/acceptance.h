// How many tokens a round commits, and how far its drafts are accepted.
//
// A round commits its accepted drafts and one more token; accepted = tokens - 1. The three weightings of tokens a round
// answer different questions:
//   by rounds      all tokens over all rounds: what the time of this suite is divided by
//   by texts       mean over texts of each one's tokens a round: a text like these
//   by categories  mean over categories of all its tokens over all its rounds: no category counts for its length
// Identities, asserted where rounds are read: tokens = rounds + accepted; accepted <= drafted, accepted < nodes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tare::forced {

struct RoundTally {
  std::int64_t tokens = 0;   // committed, at least 1
  std::int64_t nodes = 1;    // verified
  std::int64_t drafted = 0;  // tokens ahead
  bool cut = false;          // the text ended inside the accepted path
};

struct TextTally {
  std::string category;
  std::vector<RoundTally> rounds;
};

// Of draft position i = 1, 2, ...: the i-th token after the anchor.
struct PositionAcceptance {
  std::int64_t reached = 0;   // rounds that drafted so far and whose text did not end before it was decided
  std::int64_t accepted = 0;  // of these, with at least i accepted
  std::int64_t tried = 0;     // of reached, with at least i - 1 accepted: what accepted is conditional on

  [[nodiscard]] double share() const;        // accepted / reached; 0 when never reached
  [[nodiscard]] double conditional() const;  // accepted / tried; 0 when never tried
};

struct Acceptance {
  std::int64_t rounds = 0;
  std::int64_t tokens = 0;
  std::int64_t nodes = 0;
  std::int64_t cut_rounds = 0;
  double by_rounds = 0;
  double by_texts = 0;
  double by_categories = 0;
  std::vector<PositionAcceptance> positions;  // [deepest draft]
};

// Texts without rounds count for nothing. Throws Error (internal) when an identity does not hold.
[[nodiscard]] Acceptance measure_acceptance(std::span<const TextTally> texts);

}  // namespace tare::forced
