// The machine and its load during the counted runs, and what of it weakens the numbers.
#pragma once

#include <vector>

#include "harness/analysis/gathered.h"
#include "reports/findings.h"

namespace tare::harness {

// A run that waited for a core, or a host that took time away, is added to `warnings`.
[[nodiscard]] reports::Conditions describe_conditions(const Gathered& gathered,
                                                      std::vector<reports::Warning>& warnings);

}  // namespace tare::harness
