// What the rounds of each arm committed: tokens a round, acceptance by position and category, time by phase.
#pragma once

#include <vector>

#include "harness/analysis/gathered.h"
#include "reports/findings.h"

namespace tare::harness {

// Of every arm with counted runs; nothing when no arm drafted. Acceptance is of an arm's first counted run: under
// forced texts its others have the same rounds, and where they do not a warning says so.
[[nodiscard]] std::vector<reports::ArmRounds> rounds_of_arms(const Gathered& gathered,
                                                             std::vector<reports::Warning>& warnings);

}  // namespace tare::harness
