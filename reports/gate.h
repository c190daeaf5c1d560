// What a gate said, for CI: JUnit, a Markdown summary, annotations. One enum, stats::Verdict, drives text, file and
// annotation; harness/gate fills these structs.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "stats/verdict.h"

namespace tare::reports {

// In the order in which they decide: one invalid check makes the whole invalid.
enum class GateOutcome { kPass, kInconclusive, kFail, kInvalid };

struct GateCheck {
  std::string section;  // "speed", "memory", "launches", "validation", "fidelity", "comparable"
  std::string name;     // "decode_speed of q4"
  stats::Verdict verdict = stats::Verdict::kInvalid;
  GateOutcome outcome = GateOutcome::kInvalid;
  std::string text;                                          // one sentence with its numbers
  std::vector<std::pair<std::string, std::string>> numbers;  // JUnit properties
};

struct GateFindings {
  std::string experiment;
  std::string created_utc;  // "2026-11-29T15:04:05Z"
  std::string harness_version;
  std::string policy;         // file name
  std::string policy_digest;  // of its text
  std::string against;        // "arm q8 of the same run", "arm q8 of runs/main"
  double alpha = 0.05;
  bool inconclusive_fails = false;
  std::vector<GateCheck> checks;  // none: invalid
};

// The worst of all checks; without a check invalid, never a pass.
[[nodiscard]] GateOutcome outcome_of(const GateFindings& findings);
// "pass", "fail", "inconclusive", "invalid".
[[nodiscard]] std::string word_of(GateOutcome outcome);
// 0, 1, 3, 2: docs/guide/exit-codes.md. Inconclusive is 1 where the policy says so.
[[nodiscard]] int exit_code_of(const GateFindings& findings);
// Checks, the worst first; else in their order.
[[nodiscard]] std::vector<GateCheck> worst_first(const GateFindings& findings);

// A test suite a section. Fail: failure; invalid: error; inconclusive: skipped, or a failure where the policy says so.
[[nodiscard]] std::string junit_of(const GateFindings& findings);

inline constexpr std::size_t kMostSummaryBytes = std::size_t{1} << 20;  // a step's summary beyond 1 MiB is refused
// Outcome, then a table with the worst first; rows that would exceed `most_bytes` are counted ("and N more").
[[nodiscard]] std::string gate_summary(const GateFindings& findings, std::size_t most_bytes = kMostSummaryBytes);

// GitHub shows ten annotations of a type and cuts the rest without a word: the last one counts what is left out.
inline constexpr std::size_t kMostAnnotationsOfType = 10;
// Workflow commands, a line each: ::error for fail and invalid, ::warning for inconclusive (::error where it fails).
[[nodiscard]] std::vector<std::string> annotations_of(const GateFindings& findings);

}  // namespace tare::reports
