// The ledger's rows, read once and put in order: which runs count, and everything the analysis needs beside them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/experiment/experiment.h"
#include "harness/experiment/plan.h"
#include "harness/ledger/ledger.h"

namespace tare::harness {

// A run that counts: finished, no warm-up, its block complete.
struct CountedRun {
  RunRecord record;
  std::size_t arm = 0;                // index into the experiment's arms
  std::size_t launch = 0;             // index into Gathered::launches
  std::vector<PromptResult> results;  // one a measured text, in the order of Gathered::measured; empty when one lacks
};

struct Gathered {
  std::string digest;  // of the experiment
  Json experiment_json;
  Experiment experiment;
  Plan plan;
  std::vector<SittingRecord> sittings;
  std::vector<TextRecord> texts;
  std::vector<std::size_t> measured;  // indices into texts: those with at least one decode round
  std::vector<ValidationRecord> validations;
  std::vector<LaunchRecord> launches;
  std::vector<RunRecord> runs;  // all, as they were begun
  std::vector<StoredSample> samples;
  std::vector<GpuRecord> gpus;
  std::vector<ProfileRecord> profiles;
  std::vector<std::int64_t> complete_blocks;
  std::optional<StopRecord> stop;   // the experiment has ended; absent in ledgers before version 6
  std::vector<CountedRun> counted;  // by block and slot
  // What does not fit together: a run of another arm than the plan says, a prompt that lacks, a launch that is unknown.
  std::vector<std::string> misfits;
};

// Every block that the experiment is to have is complete: all of the plan, or those at which it stopped.
[[nodiscard]] bool is_complete(const Gathered& gathered);

[[nodiscard]] Gathered gather(const Ledger& ledger);

}  // namespace tare::harness
