// Whether the parts add up: an arm's timed round against its twin's profile, and the difference of two arms' timed
// rounds against the differences of their kernels or ops.
//
// A cell is a prompt in a block. Per cell, in microseconds a round:
//   timed                     mean over the block's counted runs of decode time over rounds, never under a collector
//   stalls                    what of it is owed to stalled rounds (stats/stalls.h): timed less the mean of the others
//   rows, idle, span, twin    of the block's twin launch: kernels or ops, gaps, first begin to last end, whole round;
//                             over its rounds that were not stalled
//   timed = sum of rows + idle + host + stalls + residual,  host := twin - span,  residual := timed - stalls - twin
// Host is what the twin did in its rounds outside of kernels and gaps. Stalls come from the timed runs alone: what
// holds a round up for milliseconds (a turn of the scheduler) hits one walk and not the next, so no twin can stand for
// it. The residual is how far the twin does not stand for the timed run: the collector's cost, and all else that
// differs between two walks of one text. It can be wrong and be seen to be; in the difference of two arms the
// collector's cost cancels as far as both launch alike.
//
// Only cells that have both a timed and a profiled walk count, of both arms when two are compared: each term of the
// residual is then a difference of neighbours (at granularity prompt a walk apart), so what the machine did between one
// block or one prompt and another is in neither. The numbers of a prompt are means over its cells; intervals are paired
// over prompts.
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
// Records that a collector lost or could not time, of all: beyond, an arm is not reconciled. Below, the time of one in
// ten thousand kernels is in a gap or a neighbour, far less than the residual that is let pass.
constexpr double kMostLostShare = 1e-4;

struct ReconciledRow {
  std::string what;                         // launch and part; "q8 -> q4" where only the launch differs
  std::string part;                         // empty where it is not known
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
  std::int64_t cells = 0;
  double timed_us = 0;  // means over the prompts
  double span_us = 0;
  double idle_us = 0;
  double host_us = 0;
  double stalls_us = 0;
  double residual_us = 0;
  double profiled_us = 0;    // the twin's round, under the collector
  std::int64_t records = 0;  // of all profiles
  std::int64_t dropped = 0;  // lost by the collector
  std::int64_t invalid = 0;  // without valid times
  std::string unmatched;
  std::vector<ReconciledRow> rows;  // of this arm alone: arm_us; most time first
  // Prompts on which the arm's own launches, its twins among them, did not all choose the same tokens.
  std::int64_t outputs_unsteady = 0;
};

struct ReconciledDifference {
  std::string arm;  // against the baseline, on the cells that both have
  std::int64_t prompts = 0;
  std::int64_t cells = 0;
  ReconciledRow timed, idle, host, stalls, residual;
  std::vector<ReconciledRow> rows;  // largest difference first
  double explained_share = 0;       // of the timed difference, by all but the residual
  bool adds_up = true;              // the residual is at most kMostResidualOfDifference or kMostResidualOfRound
  bool stalled = false;             // stalls are more than both: by chance one arm was held up more than the other
  std::vector<std::string> only_baseline, only_arm;  // launch audit: what just one of them launches
  // Output audit: timed prompts on which every launch of both arms would have emitted the same tokens, of those where
  // workers say what they would have.
  std::int64_t outputs_equal = 0;
  std::int64_t outputs_compared = 0;
};

struct Reconciliation {
  std::string baseline;
  std::vector<ReconciledArm> arms;
  std::vector<ReconciledDifference> differences;
};

// Throws Error (input): a ledger without profiles.
[[nodiscard]] Reconciliation reconcile(const Ledger& ledger);
[[nodiscard]] Reconciliation reconcile(const Gathered& gathered);
[[nodiscard]] Json to_json(const Reconciliation& reconciliation);
// What a row of one arm is called.
[[nodiscard]] std::string name_of_row(const std::string& launch, const std::string& part);
[[nodiscard]] reports::Times times_of(const Reconciliation& reconciliation);

}  // namespace tare::harness
