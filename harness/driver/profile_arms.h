// Twin launches: every arm replays the first texts once more, under a collector. Never the timed ones.
#pragma once

#include "harness/driver/measure.h"

namespace tare::harness {

// Arms whose profiles the ledger does not hold yet, of those that the experiment asks for.
[[nodiscard]] std::vector<const Arm*> arms_to_profile(const Experiment& experiment, const Ledger& ledger);
// Profiles them. An arm that cannot be profiled gets a record that says why.
void profile_arms(const MeasureContext& context, const std::vector<const Arm*>& arms);

}  // namespace tare::harness
