// The readings of the machine around and during each counted run.
#pragma once

#include <cstddef>
#include <vector>

#include "harness/analysis/gathered.h"
#include "harness/environment/rules.h"

namespace tare::harness {

struct ReadingsOfRuns {
  std::vector<RunReadings> runs;
  std::vector<std::size_t> rows;  // of each: its place in Gathered::runs
};

// Of every counted run that has a reading before it and one after it, in the order in which runs were begun.
[[nodiscard]] ReadingsOfRuns readings_of_runs(const Gathered& gathered);

}  // namespace tare::harness
