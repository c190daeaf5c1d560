// Whether the parts add up: an arm's timed round against its profile, and the difference of two arms' timed rounds
// against the differences of their kernels or ops.
//
// Per prompt p that both were profiled on, in microseconds a round:
//   timed(p)  mean of the counted runs' decode time over their rounds, never under a collector
//   rows(p), idle(p), span(p)  means over the arm's twin launches, one a block
//   timed(p) = sum of rows(p) + idle(p) + host(p),  host(p) := timed(p) - span(p) of the profile
// host is the residual: what of the timed round the twin launch's kernels and gaps do not cover. It takes up all that
// differs between the two launches, so it can be wrong and be seen to be.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json_reader.h"
#include "harness/analysis/gathered.h"
#include "harness/ledger/ledger.h"
#include "reports/findings.h"
#include "stats/effect.h"

namespace tare::harness {

// A residual beyond both says that the twin launches do not stand for the timed ones.
constexpr double kMostResidualOfDifference = 0.05;
constexpr double kMostResidualOfRound = 0.005;

struct ReconciledRow {
  std::string what;                         // launch and part; "q8 -> q4" where only the launch differs
  double baseline_us = 0;                   // 0: this arm launches nothing of the kind
  double arm_us = 0;                        // likewise
  double difference_us = 0;                 // arm less baseline: mean over prompts
  std::optional<stats::Interval> interval;  // 95 %, paired t over prompts; absent below two prompts
  double baseline_bytes = 0;                // declared
  double arm_bytes = 0;
};

struct ReconciledArm {
  std::string arm;
  std::string fault;   // why this arm cannot be reconciled; empty when it can
  std::string source;  // "kernels", "ops"
  std::int64_t prompts = 0;
  double timed_us = 0;  // means over the prompts
  double span_us = 0;
  double idle_us = 0;
  double host_us = 0;
  double profiled_us = 0;  // the round under the collector
  std::string unmatched;
  std::vector<ReconciledRow> rows;  // of this arm alone: arm_us; most time first
};

struct ReconciledDifference {
  std::string arm;  // against the baseline, on the prompts that both were profiled on
  std::int64_t prompts = 0;
  ReconciledRow timed, idle, host;
  std::vector<ReconciledRow> rows;  // largest difference first
  double explained_share = 0;       // of the timed difference, by rows and idle; 1 - share is the residual's
  bool adds_up = true;              // the residual is at most kMostResidualOfDifference or kMostResidualOfRound
  std::vector<std::string> only_baseline, only_arm;  // launch audit: what just one of them launches
};

struct Reconciliation {
  std::string baseline;
  std::vector<ReconciledArm> arms;
  std::vector<ReconciledDifference> differences;
};

// Throws Error (input): a ledger without profiles.
[[nodiscard]] Reconciliation reconcile(const Ledger& ledger);
// Of what was gathered, with at least one profile.
[[nodiscard]] Reconciliation reconcile(const Gathered& gathered, const std::vector<ProfileRecord>& profiles);
// As the report shows it.
[[nodiscard]] reports::Times times_of(const Reconciliation& reconciliation);
[[nodiscard]] Json to_json(const Reconciliation& reconciliation);

}  // namespace tare::harness
