// What the factors of a matrix do: main effects and interactions, from the same runs as the verdicts
// (stats/contrasts.h).
#pragma once

#include "harness/experiment/experiment.h"
#include "reports/findings.h"
#include "stats/analysis.h"

namespace tare::harness {

// Fills effects and interactions of findings.matrix, whose factors are there; with `options` as the analysis was made.
// Interactions that are shown, and factor effects they make conditional, are said in the warnings.
void add_matrix_effects(const Experiment& experiment, const stats::Observations& observations,
                        const stats::Analysis& analysis, const stats::AnalysisOptions& options,
                        reports::Findings& findings);

}  // namespace tare::harness
