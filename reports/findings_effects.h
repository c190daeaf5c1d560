// Findings (findings.h has the conventions): warnings, the instrument, what was compared, effects, matrices, sittings.
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

}  // namespace tare::reports
