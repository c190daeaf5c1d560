// Everything a report says, as plain values. harness/analysis fills it from the ledger and the statistics; the writers
// of this folder turn it into pages, tables and figures and know nothing else.
//
// Conventions
// - An effect is ln(value of the arm / value of the baseline) of one measure; percent is derived by percent_of_log, so
//   a number has one home. A positive log means "the arm's value is larger"; better or worse follows from the measure.
// - kMissing (NaN) marks a number that was not measured or cannot be computed; an empty string one that was not
//   readable. A report prints "not available" for both, never 0.
// - `arm`, `measure` and `launch` are indices into Findings::arms, Findings::measures and so on. arms[0] is the
//   baseline.
// - Every string may hold anything (names come from users); the writers escape, the filler does not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace tare::reports {

inline constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();

// 100 (exp(log) - 1): the percent by which the arm's value lies above the baseline's. NaN stays NaN.
[[nodiscard]] double percent_of_log(double log);

// ---- warnings -------------------------------------------------------------------------------------------------------

enum class Severity {
  kNote,     // worth knowing; shown in the section it belongs to and at the end of the list on top
  kWarning,  // weakens a number; shown on top
  kInvalid,  // the experiment cannot be compared; shown on top, in the first place
};

struct Warning {
  Severity severity = Severity::kWarning;
  std::string code;   // stable word for machines: "few_prompts", "texts_repeat", "mixed_builds"
  std::string text;   // one sentence for people, with its numbers
  std::string about;  // what it is about: an arm, a measure, a prompt, a run; empty: the experiment
};

// ---- the instrument -------------------------------------------------------------------------------------------------

// Where a forced replay first left its text.
struct FirstDifference {
  std::string prompt;          // prompt id
  std::int64_t position = -1;  // token position within the text, from 0
  std::string wanted;          // token or round boundary that the text has
  std::string got;             // and what the engine chose
};

// Something known to be bad that validation must catch.
struct PositiveControl {
  std::string name;  // "off-by-one forcing"
  bool caught = false;
  std::string detail;  // where it was caught: "prompt 1, position 0: wanted 17, got 203"
};

// The host's clock inside the engine against the harness's from outside, over all requests.
struct ClockAgreement {
  std::size_t compared = 0;       // requests compared
  double worst_share = kMissing;  // largest |inner - outer| / outer
  double worst_ns = kMissing;     // largest |inner - outer|
  bool agreed = false;            // every request within 0.2 % or 1 ms
};

struct Validity {
  bool valid = false;                 // false: no verdict may be read from this report
  std::size_t prompts_validated = 0;  // N of
  std::size_t prompts_total = 0;      // N
  std::size_t tokens_validated = 0;
  std::size_t rounds_validated = 0;
  std::optional<FirstDifference> first_difference;
  std::vector<PositiveControl> controls;
  std::optional<ClockAgreement> clock;
  std::string why_invalid;  // one sentence when not valid for a reason other than first_difference
};

// ---- what was compared ----------------------------------------------------------------------------------------------

struct Build {
  std::string version;   // "tare 0.1.0"
  std::string commit;    // hash; with "+changes" when the tree was not clean
  std::string compiler;  // "g++ 12.2.0"
  std::string flags;
  std::string type;  // "RelWithDebInfo"
};

struct Checkpoint {
  std::string name;    // as the experiment names it
  std::string digest;  // 32 hexadecimal digits
};

struct Arm {
  std::string name;                    // as in the experiment, the key in every table
  std::string display_name;            // what figures print; empty: name
  std::string program;                 // worker command line; empty: tare's own worker
  std::string options_json;            // every option, JSON text
  std::string options_differing_json;  // those that differ from the baseline's, JSON text; "{}" for none
  Build build;
  Checkpoint checkpoint;
  std::size_t launch_count = 0;         // finished launches whose runs are counted
  double peak_memory_bytes = kMissing;  // largest resident set of any of its launches
  // Of a matrix, one a factor of Findings::matrix: index of the arm's level; empty: no factors.
  std::vector<std::size_t> levels = {};
};

// A quantity that is measured for every arm.
struct Measure {
  std::string key;   // "decode_speed", as in the ledger and verdict.json
  std::string name;  // "decode speed"
  std::string unit;  // "tok/s", "ms", "bytes"; bytes are printed as kB, MB, GB
  bool higher_is_better = true;
  std::string definition;  // how it is computed: "tokens over seconds of decode rounds, all counted runs"
};

// One arm's value of one measure.
struct MeasureValue {
  std::size_t arm = 0;
  std::size_t measure = 0;
  double value = kMissing;       // over all counted runs, by the measure's definition
  double lowest_run = kMissing;  // of the counted runs
  double highest_run = kMissing;
  std::size_t run_count = 0;
};

// ---- effects --------------------------------------------------------------------------------------------------------

// The question an interval answers. Wording: question_of.
enum class Estimand {
  kTheseLaunches,     // these prompts, in exactly these launches (per-prompt bootstrap)
  kAnyLaunch,         // this suite of prompts, in any launch on this machine (run-level regression or block t)
  kPromptsLikeThese,  // prompts like these, in any launch (two-way)
};

struct Interval {
  Estimand estimand = Estimand::kAnyLaunch;
  std::string method;  // short, for a figure's label: "percentile", "BCa", "regression, degree 2", "two-way"
  double estimate_log = kMissing;
  double low_log = kMissing;
  double high_log = kMissing;
  double level = 0.95;
  double degrees_of_freedom = kMissing;  // of the t distribution; missing for bootstraps
  bool of_verdict = false;               // the verdict is read from this one
  bool robustness = false;               // a check beside the others (block pairs), not one of the three
  std::string why_missing;               // when the ends are not numbers: what was lacking
};

// What a handicap really cost, known because the instrument spun for a counted time.
struct KnownTruth {
  double effect_log = kMissing;  // ln of the true ratio
  std::string source;            // "spun 1.204 s of 120.4 s in 8 runs"
};

// One arm against the baseline in one measure.
struct Effect {
  std::size_t arm = 1;
  std::size_t measure = 0;
  double estimate_log = kMissing;
  std::vector<Interval> intervals;
  double p = kMissing;           // two-sided, of the verdict's interval
  double p_adjusted = kMissing;  // within the family, by Methods::multiplicity: decides; missing when not in it
  double p_holm = kMissing;      // both adjustments, whichever decides
  double p_benjamini_hochberg = kMissing;
  bool in_family = false;  // one of the verdicts that share the error rate
  // Word of stats::verdict_name: "better", "worse", "non_inferior", "equivalent", "inconclusive" or "invalid"; empty: a
  // measure without a verdict.
  std::string verdict;
  bool difference_shown = false;
  std::optional<KnownTruth> truth;
  std::vector<Warning> warnings;
};

// ---- matrices -------------------------------------------------------------------------------------------------------

// A factor of a matrix and its levels, in the experiment's order.
struct Factor {
  std::string name;
  std::vector<std::string> levels;
  std::size_t reference = 0;  // the baseline's level
};

// Of one level against the baseline's, in the effect's measure: mean over the combinations of the other factors that
// have both (stats/contrasts.h). Factor and level are indices into Matrix::factors.
struct FactorEffect {
  std::size_t factor = 0;
  std::size_t level = 0;
  std::size_t combinations = 0;  // averaged over; 1: the simple effect, beside the baseline's other levels
  Interval interval;             // this suite, any launch
  double p = kMissing;           // two-sided
  double p_adjusted = kMissing;  // over all factor effects of the matrix, by Methods::multiplicity
  bool shown = false;            // p_adjusted < alpha
};

// By how much the effect of one level differs (log) where another factor is at another level too. 0: the two effects
// add up. There are none of designs with one factor at a time.
struct Interaction {
  std::size_t factor = 0;
  std::size_t level = 0;
  std::size_t other_factor = 0;
  std::size_t other_level = 0;
  std::size_t combinations = 0;
  Interval interval;
  double p = kMissing;
  double p_adjusted = kMissing;  // over all interactions of the matrix
  bool shown = false;
};

struct Matrix {
  std::string design;                 // "one_at_a_time", "full" or "listed"; empty: no factors
  std::vector<Factor> factors;        // every arm has a level of each (Arm::levels)
  std::vector<std::string> excluded;  // combinations left out, as written: "weights q3, kv int8"
  std::vector<FactorEffect> effects;  // empty until there is something to compare
  std::vector<Interaction> interactions;
};

// ---- sittings -------------------------------------------------------------------------------------------------------

// One stretch of time on one machine; here those with counted runs.
struct Sitting {
  std::string name;  // "sitting 1"
  std::string started_utc;
  std::size_t blocks = 0;  // complete ones that were measured in it
};

// One arm's effect in one sitting by itself.
struct SittingEffect {
  std::size_t sitting = 0;  // index into Findings::sittings
  Interval interval;        // why_missing: too few blocks for one
  double standard_error_log = kMissing;
};

// One arm over all sittings that have an interval: random effects (stats/pooling.h). The verdict is not read from it.
struct PooledEffect {
  std::size_t arm = 1;
  Interval interval;                    // why_missing: fewer than two sittings
  double between_sd_log = kMissing;     // standard deviation of the effect between sittings
  double heterogeneity_p = kMissing;    // small: the sittings disagree beyond their own errors
  bool conclusive = false;              // three sittings or more
  std::vector<SittingEffect> sittings;  // one a sitting
};

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

// ---- the whole ------------------------------------------------------------------------------------------------------

// Whether arms are hidden. Reports of blind findings hold nothing that tells one from another but what is judged.
struct Blinding {
  bool blind = false;
  std::string unblinded_utc;    // when the analysis was frozen; empty: it was never blind
  std::string findings_digest;  // of the findings then
  bool changed = false;         // these findings are others
};

struct Findings {
  std::string title;        // "q8 against q4 and itself"
  std::string description;  // the experiment's own words
  std::string experiment;   // name
  std::string experiment_digest;
  std::string experiment_json;  // normalised form, for the appendix
  std::string created_utc;      // when the analysis was made: "2026-11-29T15:04:05Z"
  std::string command;          // what repeats it: "tare run experiments/quickstart.json --out DIR"
  std::string harness_version;  // "tare 0.1.0 (455353a)"
  Blinding blinding;
  bool complete = true;  // false: slots of the schedule are still to be measured

  std::vector<Warning> warnings;  // of the whole; those of effects are in the effects
  Validity validity;
  std::vector<Arm> arms;
  std::vector<Measure> measures;
  std::size_t effect_measure = 0;  // the measure the verdicts are about: decode speed
  std::vector<MeasureValue> values;
  std::vector<Effect> effects;
  Matrix matrix;
  std::vector<Sitting> sittings;
  std::vector<PooledEffect> pooled;  // of the effect's measure, one an arm but the baseline; empty for one sitting
  Drift drift;
  std::vector<Run> runs;  // in the order in which they started, whatever their state
  std::vector<Prompt> prompts;
  Texts texts;
  Conditions conditions;
  Times times;
  std::vector<ArmRounds> rounds;      // of every arm when one of them drafts; else empty
  std::vector<ArmFidelity> fidelity;  // of arms that were scored; empty: not given
  std::string fidelity_source;        // "decoding in rounds of 16"
  ScheduleFacts schedule;
  Stop stop;
  Methods methods;
};

// ---- small questions about findings, asked by every writer ----------------------------------------------------------

// The one-line question an interval answers: "this suite, any launch".
[[nodiscard]] std::string question_of(Estimand estimand);
// "these-launches", "any-launch", "prompts-like-these": the word in CSV and JSON.
[[nodiscard]] std::string word_of(Estimand estimand);
// "counted", "warm-up", "interrupted", "excluded", "failed".
[[nodiscard]] std::string word_of(RunState state);
[[nodiscard]] std::string word_of(Severity severity);
// The interval the verdict is read from; null when there is none.
[[nodiscard]] const Interval* verdict_interval(const Effect& effect);
// All intervals in the order in which they are shown: the verdict's first, checks last, the rest as they are.
[[nodiscard]] std::vector<Interval> ordered_intervals(const Effect& effect);
// Valid, and every positive control that was run was caught: else no verdict may be read.
[[nodiscard]] bool is_trusted(const Validity& validity);
// True when both ends are numbers.
[[nodiscard]] bool is_known(const Interval& interval);
// Whether the interval holds the known truth; absent without a truth or without ends.
[[nodiscard]] std::optional<bool> holds_truth(const Interval& interval, const KnownTruth& truth);
// display_name, or name where that is empty.
[[nodiscard]] const std::string& shown_name(const Arm& arm);
// The effect of an arm in a measure; null when there is none.
[[nodiscard]] const Effect* find_effect(const Findings& findings, std::size_t arm, std::size_t measure);
// "weights q4, threads 2": the arm's levels; empty without factors.
[[nodiscard]] std::string levels_text(const Findings& findings, const Arm& arm);
// The value of an arm in a measure; null when there is none.
[[nodiscard]] const MeasureValue* find_value(const Findings& findings, std::size_t arm, std::size_t measure);

}  // namespace tare::reports
