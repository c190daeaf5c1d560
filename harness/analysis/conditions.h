// The machine and its load during the counted runs, and what of it weakens the numbers.
#pragma once

#include <vector>

#include "harness/analysis/gathered.h"
#include "reports/findings.h"

namespace tare::harness {

// Readings, run by run and over all; what the rules of harness/environment/rules.h find is added to `warnings`.
[[nodiscard]] reports::Conditions describe_conditions(const Gathered& gathered,
                                                      std::vector<reports::Warning>& warnings);

}  // namespace tare::harness
