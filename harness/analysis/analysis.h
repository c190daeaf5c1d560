// From the ledger to what a report says: reads the rows, refuses what cannot be compared, calls the statistics and
// fills reports::Findings. Numbers are made in stats/; nothing here is printed or drawn.
//
// Refused, with the reason in Findings::validity and verdict "invalid" everywhere and no effects:
//   validation missing or failed, or one of its positive controls not caught;
//   a finished run whose launch opened another checkpoint, options or build than the arm's other launches;
//   replays that did not commit the text they were forced onto, or a prompt missing from a run;
//   a twin launch that took another path than the experiment states for its arm.
// Left out and listed: warm-up runs, interrupted, failed and excluded runs, runs of incomplete blocks.
#pragma once

#include <filesystem>
#include <string>

#include "base/json_reader.h"
#include "harness/ledger/ledger.h"
#include "reports/findings.h"

namespace tare::harness {

constexpr const char* kVerdictFile = "verdict.json";
constexpr std::int64_t kVerdictVersion = 1;  // of verdict.json

// What the ledger says now; it may be incomplete (Findings::complete). Arms of a blind experiment are hidden until it
// is unblinded (blinding.h). Throws Error (input) when the ledger is damaged.
[[nodiscard]] reports::Findings analyse(const Ledger& ledger);
// The same with every name, also of a blind experiment: for its unblinding, not for people.
[[nodiscard]] reports::Findings analyse_openly(const Ledger& ledger);

// This program: "tare 0.1.0 (455353a)".
[[nodiscard]] std::string harness_version();

// verdict.json: docs/protocol/verdict.schema.json. `experiment_verdict` in it is "invalid" when the instrument failed,
// "inconclusive" when any arm's verdict is, else "conclusive".
[[nodiscard]] Json verdict_json(const reports::Findings& findings);
// Writes it into the directory by rename; call it last, when everything else has been written.
void write_verdict(const reports::Findings& findings, const std::filesystem::path& directory);

}  // namespace tare::harness
