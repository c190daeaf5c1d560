// From an experiment to a full ledger: texts, validation, every slot of every block. Call it again on the same
// directory and it goes on at the edge of the first block that is not finished.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "harness/experiment/experiment.h"

namespace tare::harness {

// What a long run tells while it goes. `done` of `total` units of the phase; seconds_left < 0 when not yet known.
struct Progress {
  std::string phase;  // "texts", "validation", "warm-up", "measurement"
  std::string what;   // "block 2 of 5, slot 3 of 8: q4"
  std::int64_t done = 0;
  std::int64_t total = 0;
  double seconds_left = -1;
};
using ProgressCallback = std::function<void(const Progress&)>;

struct RunSettings {
  std::filesystem::path directory;                 // made when absent
  std::filesystem::path own_program;               // this program, for arms without a program of their own
  ProgressCallback progress;                       // may be empty
  const std::atomic<bool>* interrupted = nullptr;  // set by a signal handler; looked at between prompts
};

struct RunSummary {
  std::int64_t prompts = 0;          // texts that are measured
  std::int64_t blocks_measured = 0;  // in this call
  std::int64_t blocks_total = 0;
  bool went_on = false;  // there was something in the directory before
  // A twin launched what its arm must not, or did not launch what it must: nothing was measured after that block, and
  // nothing will be. Empty: none did.
  std::string other_path;
};

// Throws Error: input (experiment, another experiment's directory, locked directory), invalid (validation failed, a
// control was not caught, no text can be measured), environment (a worker died or hung: last words), interrupted.
// What was finished before is in the ledger in every case.
[[nodiscard]] RunSummary run_experiment(const Experiment& experiment, const RunSettings& settings);

}  // namespace tare::harness
