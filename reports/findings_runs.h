// Findings (findings.h has the conventions): runs, prompts and texts, and the conditions that they were measured under.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "reports/findings_effects.h"

namespace tare::reports {

// ---- runs and prompts -----------------------------------------------------------------------------------------------

enum class RunState { kCounted, kWarmUp, kInterrupted, kExcluded, kFailed };

// One arm over all prompts once.
struct Run {
  std::size_t block = 0;  // from 0
  std::size_t slot = 0;   // within the block, from 0
  std::size_t arm = 0;
  std::string launch;            // name of the worker's life it belongs to, unique in the experiment
  std::size_t launch_order = 0;  // place of that launch among all launches, from 0
  std::string start_utc;         // "2026-11-29T15:04:05.123Z"
  double start_s = kMissing;     // seconds since the first run's start
  double decode_s = kMissing;    // seconds of decode rounds
  std::int64_t tokens = 0;       // committed in those seconds
  std::vector<double> values;    // one a measure, in the order of Findings::measures; kMissing where not measured
  // Of the run-level regression on the effect's measure (Findings::effect_measure), for counted runs:
  double fitted = kMissing;     // fitted value in the measure's unit (arm's level times drift)
  double drift_log = kMissing;  // the drift polynomial here, centred over the counted runs
  RunState state = RunState::kCounted;
  std::string note;  // why it is not counted
};

struct Drift {
  int degree = 0;                  // of the polynomial; 0: no drift term was fitted
  std::string regressor;           // "slot" or "mid-time"
  double per_slot_log = kMissing;  // linear part, a slot
  double per_slot_low_log = kMissing;
  double per_slot_high_log = kMissing;
  double residual_sd_log = kMissing;  // of runs around the fit
  double arm_correlation = kMissing;  // largest |correlation| of an arm column with a drift column
  double width_inflation = kMissing;  // by how much the drift columns widen an arm's interval, at most; 1: not at all
};

// One prompt over all counted runs. Vectors have one entry an arm.
struct Prompt {
  std::string id;
  std::string category;
  std::int64_t tokens = 0;        // decoded tokens a run; the same in every arm (the text is forced)
  std::vector<double> seconds;    // decode seconds a run, mean over the arm's counted runs
  std::vector<double> log_ratio;  // ln(speed of the arm / speed of the baseline); 0 for the baseline itself
};

struct OutcomeCount {
  std::string outcome;  // "length limit", "end of text", ...
  std::size_t prompts = 0;
};

// The forced texts that every arm replays.
struct Texts {
  std::string mode;  // "sampled", "greedy" or "given"
  double temperature = kMissing;
  std::uint64_t seed = 0;
  std::string digest;
  std::size_t texts = 0;
  std::int64_t tokens = 0;
  double shortest_tokens = kMissing;
  double median_tokens = kMissing;
  double longest_tokens = kMissing;
  std::string repetition_definition;    // "share of 4-token windows seen before in the same text"
  double repetition_median = kMissing;  // share in [0, 1]
  double repetition_highest = kMissing;
  std::string most_repetitive_prompt;
  std::vector<OutcomeCount> outcomes;
};

// ---- conditions -----------------------------------------------------------------------------------------------------

// A reading of the environment around the runs.
struct Reading {
  std::string name;          // "load average, 1 min", "CPU pressure, 10 s", "steal", "CPU clock"
  std::string unit;          // "", "%", "MHz"
  double before = kMissing;  // before the first run
  double lowest = kMissing;  // over all readings
  double highest = kMissing;
  double after = kMissing;  // after the last run
};

struct Fact {
  std::string name;
  std::string value;
};

// The machine during one counted run. Means over the sampler's readings, or of those before and after without one.
struct RunConditions {
  std::size_t run = 0;          // index into Findings::runs
  double clock_mhz = kMissing;  // median; of Conditions::clock_name
  double clock_lowest_mhz = kMissing;
  double clock_highest_mhz = kMissing;
  double temperature_c = kMissing;  // of the GPU
  double power_w = kMissing;
  double energy_j = kMissing;      // by the GPU's counter, from before the run to after it
  double others_cores = kMissing;  // cores' worth of time that other processes used
  double waited_share = kMissing;  // of the run's time in which some task waited for a core
  double load = kMissing;          // average of the last minute
  std::size_t samples = 0;         // the sampler's
};

struct Conditions {
  std::string hostname;
  std::string machine;  // product or virtual machine type
  std::string cpu;
  std::size_t cores_usable = 0;  // 0: not readable
  std::string cores_pinned;      // "0-1", empty: not pinned
  double memory_bytes = kMissing;
  std::string kernel;
  std::string governor;
  std::vector<Reading> readings;
  std::vector<Fact> facts;  // anything else worth stating, in order
  std::string clock_name;   // whose clock RunConditions hold: "CPU clock", "GPU SM clock"
  std::vector<RunConditions> runs;
};

struct ScheduleFacts {
  std::string granularity;                // "run" or "prompt"
  std::size_t blocks = 0;                 // finished ones
  std::vector<std::string> block_orders;  // one string a block, a letter a slot: "ABBABAAB"
  std::string letters;                    // which letter is which arm: "A = q8, B = q4"
  std::uint64_t seed = 0;                 // of the first letter
  bool warm_up = true;
  std::size_t launches = 0;  // all that were started
};

// When the experiment ends, and what ended it.
struct Stop {
  std::string rule = "fixed";            // "fixed", "precision" or "time"
  std::size_t most_blocks = 0;           // all rules end here at the latest
  double half_width_percent = kMissing;  // of precision: what is asked
  double budget_s = kMissing;            // of time
  std::string ended_by;  // "blocks", "precision" or "time"; empty: not ended, or a ledger that does not say
  std::string ended_utc;
  std::size_t ended_blocks = 0;                // complete then
  double ended_half_width_percent = kMissing;  // widest of the verdicts' intervals then
  double ended_seconds = kMissing;             // that the complete blocks took
};

// What the methods paragraph needs beyond the rest.
struct Methods {
  double alpha = 0.05;
  std::string multiplicity =
      "holm";                   // "holm": any false claim; "screen": Benjamini-Hochberg, the share of false claims
  std::size_t family_size = 0;  // verdicts adjusted together
  // Margins set beforehand, as |ln(1 - margin)|; missing: none was set.
  double equivalence_margin_log = kMissing;
  double non_inferiority_margin_log = kMissing;
  std::size_t bootstrap_resamples = 0;
  std::uint64_t bootstrap_seed = 0;
  std::string unit_of_replication;  // "launch" or "block"
};

}  // namespace tare::reports
