// What a run says about the next one: how far its launches and prompts scatter, and what a block of it takes.
#pragma once

#include <string>

#include "harness/analysis/gathered.h"
#include "stats/variance_split.h"

namespace tare::harness {

struct MeasuredSpread {
  std::string arm;             // of the split: the one that scatters most
  int arms = 2;                // of the experiment
  int blocks = 0;              // measured
  stats::VarianceSplit split;  // of decode speed
  double block_seconds = 0;    // from the first launch of a block to the end of its last run, mean
};

// Throws Error (invalid): rows that may not be compared, or too few of them to know a spread.
[[nodiscard]] MeasuredSpread measured_spread(const Gathered& gathered);

}  // namespace tare::harness
