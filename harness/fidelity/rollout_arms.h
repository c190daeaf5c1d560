// Every arm writes texts of its own from recorded prompts, and is led through the recorded texts: do its texts end, and
// where would it have left the record?
#pragma once

#include <string>
#include <vector>

#include "forced/rollouts.h"
#include "forced/rounds_file.h"
#include "harness/fidelity/measure_fidelity.h"

namespace tare::harness {

struct ArmRollouts {
  std::string arm;
  forced::RolloutSummary written;    // greedily, as many tokens as the record has at most
  std::int64_t replayed_tokens = 0;  // of the recorded texts, forced
  std::int64_t agreed_tokens = 0;    // of them, where the arm's own choice is the record's
  std::int64_t texts_agreed = 0;     // all of a text
};

struct RolloutComparison {
  forced::RolloutSummary recorded;
  std::vector<ArmRollouts> arms;
};

// Throws Error (input) when the file is of another vocabulary, and what the backends throw.
[[nodiscard]] RolloutComparison compare_rollouts(const forced::RoundsFile& file, const FidelitySettings& settings,
                                                 const FidelityProgress& progress);

[[nodiscard]] Json to_json(const RolloutComparison& comparison);
// Of the section "rollouts" of a fidelity.json.
[[nodiscard]] std::string rollouts_table(const Json& rollouts);

}  // namespace tare::harness
