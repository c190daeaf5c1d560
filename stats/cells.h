// Log rates of the cells prompt x run, linearised so that their mean over prompts is the log rate of the run's totals:
//   c_ir = ln rate_r + P (N_ir / N_r - D_ir / D_r)
// N_r, D_r the run's totals over its P prompts. Long prompts weigh as much as they do in the effect. What two-way
// clustering and the split of the variance are made of.
#pragma once

#include <cstddef>
#include <vector>

#include "stats/observations.h"

namespace tare::stats {

// A rectangle prompts x columns; a column is a run, or a difference of two runs of a block.
struct LogRateCells {
  std::size_t prompts = 0;
  std::size_t columns = 0;
  std::vector<double> value = {};  // row = prompt

  [[nodiscard]] double operator()(std::size_t prompt, std::size_t column) const {
    return value[prompt * columns + column];
  }
  [[nodiscard]] double row_mean(std::size_t prompt) const;
};

// Cells of the given runs (indices into observations.runs).
[[nodiscard]] LogRateCells linearised_cells(const Observations& observations, const std::vector<std::size_t>& runs);

// Indices of the runs of one arm, in their order.
[[nodiscard]] std::vector<std::size_t> runs_of_arm(const Observations& observations, int arm);

// Differences arm - baseline within blocks, a column a block that has a run of both.
[[nodiscard]] LogRateCells block_difference_cells(const Observations& observations, int arm);

// Sum of squares after row and column means are taken out; (prompts - 1)(columns - 1) degrees of freedom.
[[nodiscard]] double interaction_squares(const LogRateCells& cells);

}  // namespace tare::stats
