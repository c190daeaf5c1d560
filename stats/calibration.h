// Do the intervals hold what they say? Many simulated experiments of a scenario with a known truth, and the shares that
// came out. Which truth a scenario is held against is named: "suite" (these prompts, any launch: the verdict's
// question) or "population" (prompts like these: the two-way interval's).
//
// Scenarios that the method does not claim are listed as such before anything is run, with the reason; they are in the
// table like the others. Experiment number i of a scenario is a pure function of (scenario, seed, i): the same table
// for any number of threads.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "stats/simulation.h"

namespace tare::stats {

// A 95 % interval of the verdict has to hold the truth in this share of experiments.
inline constexpr double kLeastCoverage = 0.935;
inline constexpr double kMostCoverage = 0.97;

struct CalibrationScenario {
  std::string name = {};   // "linear drift, 1 block"
  std::string group = {};  // "drift", "launches and prompts", ...
  ClockModel clock = {};
  Granularity granularity = Granularity::kRun;
  int blocks = 1;
  std::size_t prompts = 80;
  std::string outside = {};  // why the method does not claim this one; empty: it does
};

// The scenarios of docs/results/calibration: drift kinds on one block and two, launch and prompt spreads, resident
// workers, three arms, injected effects.
[[nodiscard]] std::vector<CalibrationScenario> calibration_scenarios();

struct CalibrationOptions {
  int experiments = 10'000;
  std::uint64_t seed = 1;
  int threads = 1;
  int resamples = 1000;  // of the per-prompt bootstrap
};

struct CalibrationRow {
  std::string name = {};
  std::string group = {};
  std::string outside = {};
  int experiments = 0;
  double true_percent = 0;      // injected, arm 1
  double verdict_holds = 0;     // share: the run-level interval holds the suite's truth
  double two_way_holds = 0;     // share: the two-way interval holds the population's truth
  double prompts_hold = 0;      // share: the per-prompt interval, conditional on its launches, holds the suite's truth
  double naive_holds = 0;       // share: t over all cells as if each were a sample of its own holds the suite's truth
  double difference_shown = 0;  // share of experiments in which any arm is shown to differ (Holm)
  double false_claims = 0;      // share in which one is whose suite truth is 0, or of the other sign
  double half_width_percent = 0;  // mean, of the verdict's interval
  double recovered = 0;           // mean estimate over the truth; 0 for a null
  // Monte Carlo standard deviation of verdict_holds.
  [[nodiscard]] double holds_sd() const;
  [[nodiscard]] bool claimed() const { return outside.empty(); }
  // In the band, for scenarios that are claimed.
  [[nodiscard]] bool holds() const {
    return !claimed() || (verdict_holds >= kLeastCoverage && verdict_holds <= kMostCoverage);
  }
};

// Throws Error (input) for experiments < 1, threads < 1 or options of the bootstrap out of range.
[[nodiscard]] CalibrationRow calibrate(const CalibrationScenario& scenario, const CalibrationOptions& options);

}  // namespace tare::stats
