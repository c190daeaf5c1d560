// The gate: a policy held against a run, its arms against the run's own baseline (a fresh A/B), or against an arm of
// another run that was kept (a stored baseline).
//
// Every check has a verdict of stats::Verdict and an outcome. Nothing that was not compared can pass: no arm, no run,
// no metric, a name that is not there, an empty reference are each a check that is invalid. Numbers are only looked at
// when the rows may be compared at all (harness/analysis/comparability.h) and both sides are of one GPU, driver,
// checkpoint, harness and machine, or the policy lets them differ.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "harness/gate/policy.h"
#include "harness/ledger/ledger.h"
#include "reports/gate.h"

namespace tare::harness {

struct StoredBaseline {
  const Ledger* ledger = nullptr;
  std::string arm;   // empty: that run's baseline
  std::string name;  // what texts call it: the directory
};

// `directory` is where the run's other files are (fidelity.json). Throws Error only for damaged ledgers; what is wrong
// with the comparison is a check.
[[nodiscard]] reports::GateFindings judge_gate(const Ledger& ledger, const GatePolicy& policy,
                                               const std::string& policy_name, const std::filesystem::path& directory,
                                               const std::optional<StoredBaseline>& stored = std::nullopt);

// The `gate` object of verdict.json (docs/protocol/verdict.schema.json).
[[nodiscard]] Json to_json(const reports::GateFindings& findings);

}  // namespace tare::harness
