// What a report says beside the numbers: arms, runs in order, texts, conditions, schedule.
#pragma once

#include <vector>

#include "harness/analysis/gathered.h"
#include "reports/findings.h"

namespace tare::harness {

[[nodiscard]] std::vector<reports::Arm> describe_arms(const Gathered& gathered);
// One row a run of the ledger, in the same order; values are filled by add_effects.
[[nodiscard]] std::vector<reports::Run> describe_runs(const Gathered& gathered);
// Texts that repeat themselves, or ended at once, are added to `warnings`.
[[nodiscard]] reports::Texts describe_texts(const Gathered& gathered, std::vector<reports::Warning>& warnings);
[[nodiscard]] reports::ScheduleFacts describe_schedule(const Gathered& gathered);
// The rule and what ended the experiment.
[[nodiscard]] reports::Stop describe_stop(const Gathered& gathered);
// Factors, levels and what is left out; effects are filled by add_effects.
[[nodiscard]] reports::Matrix describe_matrix(const Experiment& experiment);

}  // namespace tare::harness
