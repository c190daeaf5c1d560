// May these rows be compared at all? Every reason against it, by name; the report shows them and no numbers.
#pragma once

#include <vector>

#include "harness/analysis/gathered.h"
#include "reports/findings.h"

namespace tare::harness {

// What the validation said, its controls, and the clocks' agreement. `valid` is true when there is no reason against;
// the reasons are added to `warnings` with severity invalid, and the first of them is in why_invalid.
[[nodiscard]] reports::Validity judge(const Gathered& gathered, std::vector<reports::Warning>& warnings);

}  // namespace tare::harness
