// Twin launches: after a block every arm replays the first texts once more, under a collector. Never the timed ones,
// but near them: what the machine does to one it does to the other.
#pragma once

#include "harness/driver/measure.h"

namespace tare::harness {

struct PlannedProfile {
  int block = 0;
  const Arm* arm = nullptr;
};

// The profiles of `blocks` that the experiment asks for and the ledger does not hold yet, block by block, the arms of
// every other block in reverse. An arm that could not be profiled once is not tried again.
[[nodiscard]] std::vector<PlannedProfile> profiles_to_make(const Experiment& experiment, const Ledger& ledger,
                                                           const std::vector<PlannedBlock>& blocks);
// Profiles an arm. One that cannot be profiled gets a record that says why.
void make_profile(const MeasureContext& context, const PlannedProfile& profile);

}  // namespace tare::harness
