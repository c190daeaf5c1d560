// What an experiment would do and cost, from one launch of every arm and a few prompts.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "harness/experiment/experiment.h"
#include "harness/experiment/plan.h"

namespace tare::harness {

struct DryRunArm {
  std::string name;
  double launch_seconds = 0;
  double run_seconds = 0;  // over all prompts, from those that were tried
};

struct DryRun {
  std::vector<DryRunArm> arms;
  std::vector<std::string> block_orders;
  std::size_t prompts = 0;
  std::size_t prompts_tried = 0;
  PlanEstimate estimate;           // its launches are the measured ones, its seconds are of all
  std::int64_t twin_launches = 0;  // under a collector
};

// Checks everything `tare run` checks before it measures, starts every arm and runs a few prompts free. Writes
// nothing. Throws as run_experiment does.
[[nodiscard]] DryRun dry_run(const Experiment& experiment, const std::string& own_program);
[[nodiscard]] Json to_json(const DryRun& plan);

}  // namespace tare::harness
