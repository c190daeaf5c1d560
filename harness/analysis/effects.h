// The numbers of a report: effects with their intervals and verdicts, values, drift, runs and prompts.
#pragma once

#include "harness/analysis/gathered.h"
#include "reports/findings.h"

namespace tare::harness {

// Fills measures, values, effects, drift, prompts, methods and the values of runs. Findings::runs must be there (see
// describe_runs) and the rows comparable.
void add_effects(const Gathered& gathered, reports::Findings& findings);

// Measures without numbers and an effect "invalid" an arm, for rows that may not be compared.
void add_invalid_effects(const Gathered& gathered, reports::Findings& findings);

}  // namespace tare::harness
