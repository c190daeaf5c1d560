// The measured part: one block of a plan, at either granularity.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "forced/replay_text.h"
#include "harness/driver/run_experiment.h"
#include "harness/driver/run_watch.h"
#include "harness/experiment/plan.h"
#include "harness/ledger/ledger.h"

namespace tare::harness {

// What all blocks of a sitting share.
struct MeasureContext {
  const Experiment* experiment = nullptr;
  const std::vector<forced::ReplayText>* texts = nullptr;  // measurable ones
  Ledger* ledger = nullptr;
  const RunSettings* settings = nullptr;
  std::int64_t sitting = 0;
  GpusOfSitting* gpus = nullptr;
  // Called after every prompt with its share of the whole plan's prompts, for progress.
  std::function<void(const std::string& what)> prompt_done;
};

// Measures one block. `with_warmups`: the block's warm-up runs go first (stored, flagged). A worker that fails ends the
// block: its run is recorded as failed with the reason, and the Error goes on. At granularity prompt the block's twins
// walk beside its workers (twins.h), and their profiles are stored with it.
void measure_block(const MeasureContext& context, const PlannedBlock& block, bool with_warmups);

}  // namespace tare::harness
