// The whole analysis of one measure of one experiment: three intervals an arm, each for its own question, the drift
// that was fitted, and the verdicts of the family. `harness/analysis` calls this and nothing below it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "stats/block_effects.h"
#include "stats/effect.h"
#include "stats/observations.h"
#include "stats/regression.h"
#include "stats/verdict.h"

namespace tare::stats {

enum class Granularity {
  kRun,     // a launch per slot; the unit is the run
  kPrompt,  // resident launches per block, prompts alternate; the unit is the block
};

struct AnalysisOptions {
  Granularity granularity = Granularity::kRun;
  double level = 0.95;
  int resamples = 10'000;
  std::uint64_t seed = 1;  // of the bootstrap; stored with the result
  int threads = 1;         // results do not depend on it
  DriftVariable drift_variable = DriftVariable::kSlot;
  std::optional<int> drift_degree = {};  // by rule when absent: 2 for one block, 3 from two blocks on
  DecisionRule decision = {};            // direction, margins, alpha
};

struct ArmComparison {
  int arm = 0;                         // against arm 0
  Estimate prompts = {};               // per-prompt paired bootstrap: these prompts, these launches
  Estimate runs = {};                  // run-level regression or block effects: this suite, any launch; the verdict's
  Estimate two_way = {};               // prompts like these
  std::optional<Estimate> pairs = {};  // neighbouring runs, t: robustness line; granularity run only
  std::vector<double> prompt_log_ratios = {};
  VerdictResult verdict = {};
};

struct Analysis {
  std::vector<ArmComparison> comparisons = {};  // one per arm 1..arms-1
  std::vector<double> run_log_rates = {};       // per run, in the order of Observations::runs
  std::vector<double> arm_covariance = {};      // of the run-level estimates; granularity run only (regression.h)
  std::optional<DriftFit> drift = {};           // granularity run only
  std::vector<Warning> warnings = {};           // about the measurement as a whole
};

// The verdicts' estimates alone, per arm 1..arms-1: this suite, any launch. Without bootstraps, so cheap enough to be
// looked at after every block. Throws as analyse does.
[[nodiscard]] std::vector<Estimate> verdict_estimates(const Observations& observations, Granularity granularity,
                                                      double level = 0.95);
// The widest half width (log) of the verdicts' intervals; nothing while one of them is not conclusive. What stopping on
// precision looks at: never where an interval lies.
[[nodiscard]] std::optional<double> widest_half_width(const std::vector<Estimate>& estimates);

// Throws Error (invalid) when the observations cannot be compared (check_observations says how), Error (input) for
// options out of range. Too few units is no error: the estimates say so and the verdict is inconclusive.
[[nodiscard]] Analysis analyse(const Observations& observations, const AnalysisOptions& options);

}  // namespace tare::stats
