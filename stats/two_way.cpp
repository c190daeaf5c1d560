#include "stats/two_way.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/error.h"
#include "stats/bootstrap.h"
#include "stats/distributions.h"

namespace tare::stats {
namespace {

// A rectangle prompts x columns of linearised log rates (or of their differences within blocks).
struct Cells {
  std::size_t prompts = 0;
  std::size_t columns = 0;
  std::vector<double> value;  // row = prompt

  [[nodiscard]] double operator()(std::size_t prompt, std::size_t column) const {
    return value[prompt * columns + column];
  }
  [[nodiscard]] double row_mean(std::size_t prompt) const {
    double sum = 0;
    for (std::size_t c = 0; c < columns; ++c) sum += (*this)(prompt, c);
    return sum / static_cast<double>(columns);
  }
};

// c_ir = ln rate_r + P (N_ir / N_r - D_ir / D_r) for the given runs.
Cells linearised_cells(const Observations& observations, const std::vector<std::size_t>& runs) {
  Cells cells{.prompts = observations.prompts,
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

// Sum of squares after row and column means are taken out; (P-1)(columns-1) degrees of freedom.
double interaction_squares(const Cells& cells) {
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

struct Components {
  double prompt = 0;  // V_prompt
  double cell = 0;    // V_cell
};

double variance_over_prompts(const std::vector<double>& differences) {
  const double deviation = moments(differences).standard_deviation;
  return deviation * deviation / static_cast<double>(differences.size());
}

Components components_by_run(const Observations& observations, int arm) {
  std::vector<std::size_t> baseline_runs;
  std::vector<std::size_t> arm_runs;
  for (std::size_t r = 0; r < observations.runs.size(); ++r) {
    if (observations.runs[r].arm == 0) baseline_runs.push_back(r);
    if (observations.runs[r].arm == arm) arm_runs.push_back(r);
  }
  const Cells baseline = linearised_cells(observations, baseline_runs);
  const Cells treated = linearised_cells(observations, arm_runs);
  std::vector<double> differences;
  for (std::size_t i = 0; i < observations.prompts; ++i) {
    differences.push_back(treated.row_mean(i) - baseline.row_mean(i));
  }
  const double prompts = static_cast<double>(observations.prompts);
  const double of_baseline = static_cast<double>(baseline_runs.size());
  const double of_arm = static_cast<double>(arm_runs.size());
  const double df = (prompts - 1) * (of_baseline + of_arm - 2);
  const double residual_variance = df > 0 ? (interaction_squares(baseline) + interaction_squares(treated)) / df : 0;
  return {.prompt = variance_over_prompts(differences),
          .cell = residual_variance * (1 / of_baseline + 1 / of_arm) / prompts};
}

Components components_by_block(const Observations& observations, int arm) {
  std::map<int, std::size_t> baseline_of_block;
  std::map<int, std::size_t> arm_of_block;
  for (std::size_t r = 0; r < observations.runs.size(); ++r) {
    if (observations.runs[r].arm == 0) baseline_of_block[observations.runs[r].block] = r;
    if (observations.runs[r].arm == arm) arm_of_block[observations.runs[r].block] = r;
  }
  std::vector<std::size_t> baseline_runs;
  std::vector<std::size_t> arm_runs;
  for (const auto& [block, run] : arm_of_block) {
    arm_runs.push_back(run);
    baseline_runs.push_back(baseline_of_block.at(block));
  }
  Cells difference = linearised_cells(observations, arm_runs);
  const Cells baseline = linearised_cells(observations, baseline_runs);
  for (std::size_t k = 0; k < difference.value.size(); ++k) difference.value[k] -= baseline.value[k];
  std::vector<double> differences;
  for (std::size_t i = 0; i < observations.prompts; ++i) differences.push_back(difference.row_mean(i));
  const double prompts = static_cast<double>(observations.prompts);
  const double blocks = static_cast<double>(arm_runs.size());
  const double df = (prompts - 1) * (blocks - 1);
  const double residual_variance = df > 0 ? interaction_squares(difference) / df : 0;
  return {.prompt = variance_over_prompts(differences), .cell = residual_variance / (prompts * blocks)};
}

}  // namespace

Estimate two_way_estimate(const Observations& observations, int arm, const Estimate& run_level, bool paired_by_block,
                          double level) {
  if (!run_level.degrees_of_freedom) throw internal_error("two_way_estimate: the run-level estimate has no df");
  Estimate estimate;
  estimate.estimand = Estimand::kPromptsLikeThese;
  estimate.method = Method::kTwoWay;
  estimate.log_effect = run_level.log_effect;
  estimate.method_text = fmt::format("two-way clustering over {} prompts and {}", observations.prompts,
                                     paired_by_block ? "blocks" : "runs");
  const double df_run = *run_level.degrees_of_freedom;
  const double df_prompt = static_cast<double>(observations.prompts) - 1;
  if (observations.prompts < static_cast<std::size_t>(kFewPrompts)) {
    estimate.warnings.push_back(
        {.code = WarningCode::kFewPrompts,
         .text = fmt::format("{} prompts say little about prompts like these", observations.prompts),
         .numbers = {{"prompts", static_cast<double>(observations.prompts)}}});
  }
  if (df_prompt < 1 || df_run < 1) return estimate;

  const Components parts =
      paired_by_block ? components_by_block(observations, arm) : components_by_run(observations, arm);
  const double run_variance = run_level.standard_error * run_level.standard_error;
  double variance = parts.prompt + run_variance - parts.cell;
  double df = 0;
  if (variance >= std::max(parts.prompt, run_variance)) {
    df = variance > 0 ? variance * variance /
                            (parts.prompt * parts.prompt / df_prompt + run_variance * run_variance / df_run +
                             parts.cell * parts.cell / (df_run * df_prompt))
                      : df_run;
  } else {
    variance = std::max(parts.prompt, run_variance);
    df = parts.prompt > run_variance ? df_prompt : df_run;
    estimate.warnings.push_back(
        {.code = WarningCode::kTwoWayFloor,
         .text = "the two-way variance came out below one of its parts; the larger part is used",
         .numbers = {
             {"prompt_variance", parts.prompt}, {"run_variance", run_variance}, {"cell_variance", parts.cell}}});
  }
  estimate.standard_error = std::sqrt(variance);
  if (estimate.standard_error < kNoSpread) estimate.standard_error = 0;
  estimate.degrees_of_freedom = df;
  estimate.method_text += fmt::format("; t with {:.1f} degrees of freedom (Satterthwaite)", df);
  estimate.interval = t_interval(estimate.log_effect, estimate.standard_error, df, level);
  estimate.p_value = two_sided_p(estimate.log_effect, estimate.standard_error, df);
  estimate.conclusive = run_level.conclusive && observations.prompts >= static_cast<std::size_t>(kFewPrompts);
  return estimate;
}

}  // namespace tare::stats
