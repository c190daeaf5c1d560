// Ledgers of experiments that ran on a simulated clock (stats/simulation.h): the whole chain from rows to verdict can
// be tested with a known truth, no live clock in it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "harness/experiment/experiment.h"
#include "harness/ledger/ledger.h"
#include "stats/simulation.h"

namespace tare::harness {

struct SimulatedRun {
  std::string title;              // for messages
  std::vector<std::string> arms;  // names, the baseline first
  Granularity granularity = Granularity::kRun;
  int blocks = 1;
  std::size_t prompts = 24;
  std::uint64_t seed = 1;              // of the schedule and of the clock
  stats::ClockModel clock;             // log_effects is filled with zeros up to the number of arms
  std::vector<double> handicap_share;  // per arm: spun on top of each round, as a share of it; empty: none
  Json patch = Json::object();         // laid over the experiment (RFC 7396)

  // Changes on the way into the ledger; empty: none.
  std::function<void(std::vector<TextRecord>&)> change_texts;
  std::function<void(std::vector<ValidationRecord>&)> change_validations;
  std::function<void(const RunRecord&, RunEnd&)> change_run;
  std::function<void(LaunchRecord&)> change_launch;  // what the worker said: options, build, checkpoint_digest, peak
  std::vector<std::string> gpus;  // PCI bus ids that the ledger knows; readings of them are change_run's
  std::function<void(GpuFacts&)> change_gpu;
  std::function<void(SittingRecord&)> change_sitting;
  int blocks_measured = -1;                 // -1: all
  int blocks_per_sitting = 0;               // 0: all in one
  std::uint64_t clock_seed = 0;             // other launches of the same schedule; 0: `seed`
  std::vector<double> sitting_log_effects;  // per sitting: added to the last arm's speed there; empty: nothing
  std::int64_t begun_s = 0;                 // seconds after the simulation's usual first moment
};

// What the simulation knows.
struct SimulatedTruth {
  std::vector<double> log_effects;  // per arm: ln speed against the baseline on these prompts, handicap included
};

[[nodiscard]] Experiment simulated_experiment(const SimulatedRun& run);
// Writes DIRECTORY/ledger.sqlite: texts, a validation that passed with two controls that were caught, warm-ups (three
// times as slow as the rest, so that counting one would show), and all runs of the schedule.
SimulatedTruth write_simulated_ledger(const SimulatedRun& run, const std::filesystem::path& directory);

}  // namespace tare::harness
