// Every arm asked for the needles of forced/needle.h, and the baseline with its memory spoiled: what must lose them.
#pragma once

#include <string>
#include <vector>

#include "forced/needle.h"
#include "harness/fidelity/measure_fidelity.h"

namespace tare::harness {

// What is done to the baseline between the prompt and the question.
enum class NeedleCorruption {
  kNone,
  kAbsent,       // another fact is in the hay: what guessing finds
  kNoRows,       // keys and values of the fact's positions are zero
  kNoState,      // recurrent states are zero
  kNeither,      // both
  kCoarseState,  // states through the codec int8
  kNoise4,       // states with noise of 2^-4 of their root mean square, uniform in +-
  kNoise2,       // of 2^-2
  kNoise0,       // of all of it
};
[[nodiscard]] std::string to_text(NeedleCorruption corruption);

struct NeedleRow {
  std::string arm;
  NeedleCorruption corruption = NeedleCorruption::kNone;
  std::int64_t length = 0;
  double depth = 0;
  forced::NeedleSummary summary;
};

// Arms in order, each by length and depth; then the baseline's corruptions at the full length. Those of the memory need
// backend cpu; on cuda only kAbsent. Throws Error (input) for an arm with a screened head, which has no
// log-probabilities, and what the backends throw.
[[nodiscard]] std::vector<NeedleRow> ask_needles(const engine::Reference& reference, const FidelitySettings& settings,
                                                 const FidelityProgress& progress);

[[nodiscard]] Json needle_json(const std::vector<NeedleRow>& rows);
// Of the section "needle" of a fidelity.json.
[[nodiscard]] std::string needle_table(const Json& needle);

}  // namespace tare::harness
