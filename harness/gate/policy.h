// What a change must hold to pass (docs/protocol/policy.md): margins and rules, written before the data are seen.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_reader.h"
#include "forced/fidelity_policy.h"
#include "harness/experiment/measures.h"

namespace tare::harness {

constexpr std::int64_t kPolicyVersion = 1;

// What a verdict must be for the check to pass.
enum class Requirement {
  kNonInferior,  // better, equivalent or non_inferior; needs a margin
  kBetter,       // better
  kEquivalent,   // equivalent; needs a margin
  kNotWorse,     // anything but worse, no evidence included: a gate that seldom fires
};

struct SpeedRule {
  Measure measure = Measure::kDecodeSpeed;
  Requirement require = Requirement::kNonInferior;
  std::optional<double> non_inferiority_margin_percent;
  std::optional<double> equivalence_margin_percent;
};

// Of the largest resident set of an arm's counted launches.
struct MemoryRule {
  std::optional<double> most_increase_percent;  // above the baseline's largest
  std::optional<double> most_bytes;
};

// Of what the arm's twin launches launched.
struct LaunchRules {
  std::vector<std::string> must_launch;      // patterns (harness/experiment/launch_rules.h)
  std::vector<std::string> must_not_launch;  // likewise
  bool same_as_baseline = false;             // the same names, no more, no less
};

struct ValidationRule {
  std::int64_t fewest_prompts = 1;
  std::int64_t fewest_controls = 1;  // positive controls that were caught
  bool complete = true;              // every block of the schedule is measured
};

// What may differ between what is judged and what it is held against when it is told.
inline constexpr std::string_view kDifferences[] = {"gpu", "driver", "checkpoint", "harness", "machine"};

struct GatePolicy {
  std::string digest;             // of the file's text
  std::vector<std::string> arms;  // to be judged; empty: all but the baseline
  double alpha = 0.05;
  std::vector<SpeedRule> speed;
  std::optional<MemoryRule> memory;
  std::optional<LaunchRules> launches;
  ValidationRule validation;
  std::optional<forced::FidelityPolicy> fidelity;
  // Standard deviation of the difference of two sittings of one program, percent: needed for a stored baseline.
  std::optional<double> between_sittings_percent;
  std::set<std::string> may_differ;  // of kDifferences
  bool inconclusive_fails = false;   // JUnit: a failure instead of skipped; exit code 1 instead of 3
};

// Throws Error (input): file, key, what is wrong; unknown keys with the nearest known name; a policy that asks nothing.
[[nodiscard]] GatePolicy read_policy(const std::filesystem::path& file);
[[nodiscard]] GatePolicy parse_policy(std::string_view text, const std::string& where);

[[nodiscard]] std::string to_text(Requirement requirement);  // "non_inferior", ...

}  // namespace tare::harness
