// The last step of `tare run` and all of `tare report`: ledger -> findings -> report files, verdict.json last.
#pragma once

#include <filesystem>
#include <string>

namespace tare::harness {

// Prints the effects and where the report is (or verdict.json's content with `json`). Returns the exit code: 0, or 2
// when the experiment is invalid. `ceiling`: file of `tare ceiling --json` whose read rate the report's bytes over time
// are held against; empty: none.
// `fidelity`: fidelity.json of the same arms, or the directory of tare fidelity; empty: none.
int finish_report(const std::filesystem::path& directory, bool json, const std::string& ceiling = {},
                  const std::string& fidelity = {});

}  // namespace tare::harness
