// Blind experiments: who reads a report before the analysis is frozen knows which arms differ, and not which arm is
// which, so that no choice of what to look at or when to stop can follow a wish.
//
// Arms are called A, B, C ... in an order keyed by the experiment's digest and seed; A stands where reports name the
// baseline, and need not be it: effects are against A. Options, programs, builds, checkpoints, levels, profiles,
// rounds, known truths, and every measure but that of the verdicts are left out: each of them can tell an arm.
#pragma once

#include <filesystem>
#include <string>

#include "harness/analysis/gathered.h"
#include "harness/ledger/ledger.h"
#include "reports/findings.h"

namespace tare::harness {

// The experiment asks for it and is not unblinded yet.
[[nodiscard]] bool is_blind(const Ledger& ledger);
// Throws Error (input) when it is, for commands whose output names arms.
void refuse_blind(const Ledger& ledger);

// The same rows under other names: arms reordered and renamed, with their launches, runs and places in the plan.
[[nodiscard]] Gathered blinded(const Gathered& open);
// Takes out of findings made from `blind` what still tells an arm.
void hide_what_tells(const Gathered& open, const Gathered& blind, reports::Findings& findings);

// Names the findings: XXH3-128 of findings.json without the time and place of its making.
[[nodiscard]] std::string findings_digest(const reports::Findings& findings);

// Freezes the analysis of a blind experiment: the digest of its findings and the time go into the ledger. Throws Error
// (input) when it is not blind, is unblinded already, or is not complete: who sees names in the middle could stop on
// what is seen.
UnblindingRecord unblind(const std::filesystem::path& directory);
// What reports say of it, and whether the findings are still those.
void describe_unblinding(const UnblindingRecord& unblinding, reports::Findings& findings);

}  // namespace tare::harness
