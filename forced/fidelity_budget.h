// The budget of fidelity: a margin is against the first baseline, not against the last change. Every accepted change
// spends what it may have lost, and the next one has what is left; else ten changes, each within the margin, lose ten
// margins. A ledger of JSON lines beside the policy keeps what was accepted (docs/protocol/policy.md).
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "forced/fidelity_policy.h"

namespace tare::forced {

// One accepted change.
struct FidelityExpense {
  std::string time_utc;   // ISO 8601
  std::string change;     // what was accepted, in words
  std::string arm;        // of the run
  std::string policy;     // digest of the policy file
  std::string reference;  // digest of the reference file
  SpentMargins spent;     // by metric: the largest upper bound over kinds, at least 0
};

// What an accepted arm spends. Throws Error (invalid) unless every verdict of the arm is better, non_inferior or
// equivalent: what failed is not accepted.
[[nodiscard]] SpentMargins expense_of(const std::vector<FidelityVerdict>& verdicts, const std::string& arm);

// The file's expenses in order; none when there is no such file. Throws Error (input) naming line and field, and when a
// line was spent under another reference: its nats are not this one's.
[[nodiscard]] std::vector<FidelityExpense> read_budget(const std::filesystem::path& file, const std::string& reference);
[[nodiscard]] SpentMargins total(const std::vector<FidelityExpense>& expenses);
// Adds a line; the file is written whole, by rename.
void record_expense(const std::filesystem::path& file, const FidelityExpense& expense);

}  // namespace tare::forced
