// What a scored measurement says: fidelity.json (docs/protocol/fidelity.md) and its tables.
#pragma once

#include <string>
#include <vector>

#include "base/json_reader.h"
#include "forced/fidelity_policy.h"
#include "forced/fidelity_summary.h"
#include "harness/fidelity/measure_fidelity.h"

namespace tare::harness {

inline constexpr std::int64_t kFidelityVersion = 1;

struct FidelityConditions {
  std::string model;
  std::string reference_file;
  std::string reference_digest;  // of the file's bytes
  forced::SummaryOptions summary;
};

// What was scored against what, and no arm yet; "complete" is false.
[[nodiscard]] Json begin_fidelity(const engine::Reference& reference, const std::string& baseline,
                                  const FidelityConditions& conditions);
// Adds the last arm of `measurement`, which holds the baseline first: a row for every pass and kind, with its paired
// difference to the baseline's same pass, and the ladder. Deterministic but for speeds.
void add_arm(Json& fidelity, const engine::Reference& reference, const FidelityMeasurement& measurement,
             const FidelityConditions& conditions);
// All arms at once, complete.
[[nodiscard]] Json fidelity_json(const engine::Reference& reference, const FidelityMeasurement& measurement,
                                 const FidelityConditions& conditions);

// The verdicts of a policy, added under "verdicts" and "verdict".
void add_verdicts(Json& fidelity, const std::vector<forced::FidelityVerdict>& verdicts,
                  const std::string& policy_digest);

// Tables of a fidelity.json: scores, differences, agreement by margin, ladder, verdicts; whatever of these it holds.
[[nodiscard]] std::string fidelity_markdown(const Json& fidelity);

// The scores alone, in columns, for a terminal.
[[nodiscard]] std::string fidelity_text(const Json& fidelity);

}  // namespace tare::harness
