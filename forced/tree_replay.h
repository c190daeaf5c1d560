// Other trees from the same drafts: how many tokens a round would have committed under another budget, number of
// candidates or temperature, without the target or the drafter.
//
// Needs the draft at every position of a text, since other trees end their rounds elsewhere. Acceptance is forced
// text's: a node is accepted when it holds the text. A draft made with one temperature is brought to another by
//   log p' = log p / t - log sum over the recorded candidates of exp(log p / t)
// which leaves out what the candidates do not hold: record more candidates than trees will take.
#pragma once

#include <cstdint>

#include "forced/acceptance.h"
#include "forced/rounds_file.h"

namespace tare::forced {

struct TreeSetting {
  std::int64_t nodes = 16;      // root included, at least 1
  std::int64_t candidates = 8;  // a row, at least 1; at most as many as were recorded are there
  double temperature = 1;       // above 0; relative to the recorded one
};

// Throws Error (input) when the text lacks the draft of a position where a round begins.
[[nodiscard]] TextTally replay_trees(const RecordedText& text, const TreeSetting& setting);

}  // namespace tare::forced
