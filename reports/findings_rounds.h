// Findings (findings.h has the conventions): where the time of a round goes, rounds with drafts, fidelity beside speed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "reports/findings_effects.h"

namespace tare::reports {

// ---- where the time goes --------------------------------------------------------------------------------------------

// Microseconds a round, means over prompts; `what` a kernel or an op.
struct TimeRow {
  std::string what;
  double baseline_us = kMissing;
  double arm_us = kMissing;
  double difference_us = kMissing;
  double low_us = kMissing;  // 95 %, paired over prompts
  double high_us = kMissing;
};

// A kernel or an op of one arm, a round.
struct ArmTimeRow {
  std::string what;         // launch and part
  std::string part;         // what it works on: figures and tables of several arms sum by it; empty: by `what`
  double us = kMissing;     // completion intervals: the rows of an arm add up to busy_us
  double bytes = kMissing;  // declared
};

// One launch of one round, microseconds from the round's first begin. It ran from begin to end; from `alone_us` on
// nothing before it was unfinished, so that these last parts do not overlap.
struct RoundSpan {
  double begin_us = 0;
  double alone_us = 0;
  double end_us = 0;
};
struct RoundLane {
  std::string what;  // as in ArmTimeRow
  std::string part;
  std::vector<RoundSpan> spans;
};

// timed = kernels or ops + idle + host; from a twin launch under a collector. Host is what of the timed round the
// twin's kernels and gaps do not cover, so it holds the collector's cost too (as time that is missing).
struct ArmTimes {
  std::string arm;
  std::string fault;   // why there are none; empty when there are
  std::string source;  // "kernels", "ops"
  std::int64_t prompts = 0;
  double timed_us = kMissing;
  double busy_us = kMissing;
  double idle_us = kMissing;
  double host_us = kMissing;
  double profiled_us = kMissing;      // the round under the collector
  std::vector<ArmTimeRow> rows = {};  // most time first
  std::vector<RoundLane> round = {};  // of one round of median span; empty: not recorded
  std::string round_of = {};          // the prompt that it is of
};

struct TimeDifference {
  std::string arm;  // less the baseline
  std::int64_t prompts = 0;
  std::vector<TimeRow> rows;  // largest difference first
  // timed = rows + idle + host + stalls + residual. Host is the twin's own: its round less its kernels and gaps; stalls
  // are what the timed rounds lost to rounds that something held up (missing: not told apart); the residual is the rest
  // of the timed round less the twin's.
  TimeRow idle, host, stalls, residual, timed;
  double explained_share = kMissing;       // of the timed difference, by all but the residual
  bool adds_up = true;                     // the residual is at most 5 % of the difference or 0.5 % of a round
  bool stalled = false;                    // stalls are more than both
  std::vector<std::string> only_baseline;  // what just one of the two launches
  std::vector<std::string> only_arm;
  // Prompts of which both arms would have emitted the same tokens, by the digests of their natural choices.
  std::int64_t outputs_equal = 0;
  std::int64_t outputs_compared = 0;  // 0: not known
};

struct Times {
  std::vector<ArmTimes> arms;  // empty: nothing was profiled
  std::vector<TimeDifference> differences;
  double read_gb_per_s = kMissing;  // measured read rate of the memory that the weights stream from
  std::string read_rate_source;     // how it was measured: "tare ceiling, 2 threads"
};

// ---- rounds with drafts ---------------------------------------------------------------------------------------------

// Of draft position i = 1, 2, ...; forced/acceptance.h has the definitions.
struct DraftPosition {
  std::int64_t reached = 0;
  std::int64_t tried = 0;
  std::int64_t accepted = 0;
};
struct CategoryRounds {
  std::string category;
  std::int64_t rounds = 0;
  std::int64_t tokens = 0;
};
struct RoundPhase {
  std::string name;      // "draft", "tree", "verify", "accept", "commit"
  double us = kMissing;  // mean a round, by the host's clock, over all counted runs
};
// One run over all texts: the rounds of the others are the same, or there is a warning.
struct ArmRounds {
  std::size_t arm = 0;
  std::int64_t rounds = 0;
  std::int64_t tokens = 0;
  std::int64_t nodes = 0;
  std::int64_t cut = 0;  // rounds that the text's end cut short
  double by_rounds = kMissing;
  double by_texts = kMissing;
  double by_categories = kMissing;
  double round_us = kMissing;  // mean over all counted runs
  std::vector<CategoryRounds> categories;
  std::vector<DraftPosition> positions;
  std::vector<RoundPhase> phases;  // empty: not told
};

// ---- fidelity -------------------------------------------------------------------------------------------------------

// How far an arm is from the FP32 reference, measured apart from its speed (tare fidelity).
struct ArmFidelity {
  std::size_t arm = 0;
  double divergence = kMissing;  // KL64 with the tail, nats, all kinds of text
  double low = kMissing;         // of its interval over windows
  double high = kMissing;
  bool on_front = false;  // no arm is at least as fast and as faithful, and better in one
};

}  // namespace tare::reports
