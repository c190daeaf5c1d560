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
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "reports/findings_effects.h"
#include "reports/findings_rounds.h"
#include "reports/findings_runs.h"

namespace tare::reports {

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
