#include "stats/cells.h"

#include <cmath>
#include <map>

namespace tare::stats {

double LogRateCells::row_mean(std::size_t prompt) const {
  double sum = 0;
  for (std::size_t c = 0; c < columns; ++c) sum += (*this)(prompt, c);
  return sum / static_cast<double>(columns);
}

LogRateCells linearised_cells(const Observations& observations, const std::vector<std::size_t>& runs) {
  LogRateCells cells{.prompts = observations.prompts,
                     .columns = runs.size(),
                     .value = std::vector<double>(observations.prompts * runs.size())};
  const double count = static_cast<double>(observations.prompts);
  for (std::size_t c = 0; c < runs.size(); ++c) {
    double numerators = 0;
    double denominators = 0;
    for (std::size_t i = 0; i < observations.prompts; ++i) {
      numerators += observations.numerator[observations.at(i, runs[c])];
      denominators += observations.denominator[observations.at(i, runs[c])];
    }
    const double log_rate = std::log(numerators / denominators);
    for (std::size_t i = 0; i < observations.prompts; ++i) {
      const std::size_t cell = observations.at(i, runs[c]);
      cells.value[i * runs.size() + c] = log_rate + count * (observations.numerator[cell] / numerators -
                                                             observations.denominator[cell] / denominators);
    }
  }
  return cells;
}

std::vector<std::size_t> runs_of_arm(const Observations& observations, int arm) {
  std::vector<std::size_t> runs;
  for (std::size_t r = 0; r < observations.runs.size(); ++r) {
    if (observations.runs[r].arm == arm) runs.push_back(r);
  }
  return runs;
}

LogRateCells block_difference_cells(const Observations& observations, int arm) {
  std::map<int, std::size_t> baseline_of_block;
  std::map<int, std::size_t> arm_of_block;
  for (std::size_t r = 0; r < observations.runs.size(); ++r) {
    if (observations.runs[r].arm == 0) baseline_of_block[observations.runs[r].block] = r;
    if (observations.runs[r].arm == arm) arm_of_block[observations.runs[r].block] = r;
  }
  std::vector<std::size_t> baseline_runs;
  std::vector<std::size_t> arm_runs;
  for (const auto& [block, run] : arm_of_block) {
    const auto partner = baseline_of_block.find(block);
    if (partner == baseline_of_block.end()) continue;
    arm_runs.push_back(run);
    baseline_runs.push_back(partner->second);
  }
  LogRateCells difference = linearised_cells(observations, arm_runs);
  const LogRateCells baseline = linearised_cells(observations, baseline_runs);
  for (std::size_t k = 0; k < difference.value.size(); ++k) difference.value[k] -= baseline.value[k];
  return difference;
}

double interaction_squares(const LogRateCells& cells) {
  std::vector<double> column_mean(cells.columns, 0);
  double grand_mean = 0;
  for (std::size_t i = 0; i < cells.prompts; ++i) {
    for (std::size_t c = 0; c < cells.columns; ++c) column_mean[c] += cells(i, c) / static_cast<double>(cells.prompts);
  }
  for (const double mean : column_mean) grand_mean += mean / static_cast<double>(cells.columns);
  double squares = 0;
  for (std::size_t i = 0; i < cells.prompts; ++i) {
    const double row_mean = cells.row_mean(i);
    for (std::size_t c = 0; c < cells.columns; ++c) {
      const double residual = cells(i, c) - row_mean - column_mean[c] + grand_mean;
      squares += residual * residual;
    }
  }
  return squares;
}

}  // namespace tare::stats
