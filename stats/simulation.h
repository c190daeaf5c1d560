// A clock with a known truth, for tests and calibration. Seconds of prompt i in run r of arm a:
//   ln s = ln base_i - effect_a - reaction_ai + launch_r + drift(position_r) + noise_ir
// base_i: lognormal around base_seconds; reaction_ai: prompt x arm, fixed for the experiment; launch_r: one draw a
// launch; noise: one a cell. All from Philox by (seed, what, index): asking twice gives the same.
#pragma once

#include <cstdint>
#include <vector>

#include "stats/analysis.h"
#include "stats/observations.h"
#include "stats/schedule.h"

namespace tare::stats {

enum class DriftKind {
  kNone,
  kLinear,
  kQuadratic,
  kCubic,
  kExponential,     // start-up, time constant two slots
  kStep,            // at a random slot
  kRandomWalk,      // standard deviation of one step: size / sqrt(slots)
  kAutoregressive,  // AR(1), rho = 0.7, stationary sd = size
  kOneSlowRun,      // one random run slower by size, in half of the experiments
};

struct ClockModel {
  double base_seconds = 1.0;
  double base_spread = 0.5;              // sd of ln base over prompts
  double tokens = 128;                   // of every prompt
  std::vector<double> log_effects = {};  // per arm, [0] = 0: ln speed against the baseline
  double reaction_sd = 0;                // prompt x arm
  double launch_sd = 0;                  // per run (granularity run) or per launch of a block (granularity prompt)
  double noise_sd = 0.005;               // per cell
  DriftKind drift = DriftKind::kNone;
  double drift_size = 0;       // of ln seconds from first to last slot, or as the kind says
  double cold_first_slot = 0;  // ln seconds added to the very first run
  double start_order = 0;      // granularity prompt: ln seconds of "started last" over "started first"
};

struct SimulatedExperiment {
  Observations observations = {};
  std::vector<double> suite_truth = {};       // per arm: log effect on these prompts, any launch
  std::vector<double> population_truth = {};  // per arm: log effect on prompts drawn as these were
};

// `schedule` from make_schedule (granularity run) or make_resident_schedule (granularity prompt; drift then acts
// between blocks and, as within a block the arms alternate, on all arms of a block alike).
[[nodiscard]] SimulatedExperiment simulate(const ClockModel& model, const Schedule& schedule, Granularity granularity,
                                           std::size_t prompts, std::uint64_t seed);

}  // namespace tare::stats
