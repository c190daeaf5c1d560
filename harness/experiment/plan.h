// What a schedule amounts to: which launches happen, which runs, in which order; and what that costs (--dry-run).
//
// The orders come from stats/schedule.h. A run is named by (block, slot, warmup). Granularity `run`: slot is the place
// in the block's balanced order, and every run has a launch of its own; one warm-up run, with the arm of the first
// slot, precedes the first block that is measured. Granularity `prompt`: a block has one run an arm, slot is the place
// in which the block's workers are started (other from block to block), the runs of a block go on at the same time, and
// which arm replays a prompt first alternates by arm_order(); every worker warms up once a block.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "harness/experiment/experiment.h"

namespace tare::harness {

struct PlannedRun {
  int block = 0;
  int slot = 0;
  std::size_t arm = 0;  // index into Experiment::arms
  bool warmup = false;
};

struct PlannedBlock {
  int block = 0;
  std::vector<PlannedRun>
      warmups;                   // to be run before `runs`; granularity run: only when the block is the first measured
  std::vector<PlannedRun> runs;  // by slot
  std::string order;             // "ABBABAAB": arms by letter, A the baseline
};

struct Plan {
  Granularity granularity = Granularity::kRun;
  std::vector<PlannedBlock> blocks;

  [[nodiscard]] std::size_t run_count() const;  // without warm-ups
  [[nodiscard]] std::size_t warmup_count() const;
  [[nodiscard]] std::size_t launch_count() const;
};

// Every block has `warmups` filled for the case that it is the first one measured in a sitting; for granularity run the
// driver runs them for that block only, and the counts above take the first block's.
[[nodiscard]] Plan plan(const Experiment& experiment);

// Granularity prompt: the order in which the resident arms replay the prompt_index-th prompt of a block, every arm once
// (stats::prompt_visit_order).
[[nodiscard]] std::vector<std::size_t> arm_order(const Experiment& experiment, int block, std::size_t prompt_index);

// Granularity prompt: texts that a resident worker replays as its warm-up run.
inline constexpr std::size_t kWarmupTexts = 8;
// The share of a run that a warm-up takes, by granularity.
[[nodiscard]] double warmup_share(Granularity granularity, std::size_t texts);
// Walks of a text that a block takes: every run over all texts, and its warm-ups over those that they take.
[[nodiscard]] std::size_t text_walks(const PlannedBlock& block, Granularity granularity, std::size_t texts,
                                     bool with_warmups);

struct PlanEstimate {
  std::size_t runs = 0;
  std::size_t warmups = 0;
  std::size_t launches = 0;
  double seconds = 0;
  std::uint64_t ledger_bytes = 0;
};

// What one unit costs, measured by the caller (`--dry-run` times one run) or guessed.
struct UnitCost {
  double run_seconds = 0;     // one arm over all prompts
  double launch_seconds = 0;  // start of a worker to ready
  double warmup_share = 1;    // of a run that a warm-up takes
  std::int64_t prompts = 0;
  std::int64_t tokens_per_prompt = 0;
};

[[nodiscard]] PlanEstimate estimate(const Plan& plan, const UnitCost& cost);

}  // namespace tare::harness
