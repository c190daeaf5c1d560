#include "stats/two_way.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "stats/bootstrap.h"
#include "stats/cells.h"
#include "stats/distributions.h"

namespace tare::stats {
namespace {

struct Components {
  double prompt = 0;  // V_prompt
  double cell = 0;    // V_cell
};

double variance_over_prompts(const std::vector<double>& differences) {
  const double deviation = moments(differences).standard_deviation;
  return deviation * deviation / static_cast<double>(differences.size());
}

Components components_by_run(const Observations& observations, int arm) {
  const LogRateCells baseline = linearised_cells(observations, runs_of_arm(observations, 0));
  const LogRateCells treated = linearised_cells(observations, runs_of_arm(observations, arm));
  std::vector<double> differences;
  for (std::size_t i = 0; i < observations.prompts; ++i) {
    differences.push_back(treated.row_mean(i) - baseline.row_mean(i));
  }
  const double prompts = static_cast<double>(observations.prompts);
  const double of_baseline = static_cast<double>(baseline.columns);
  const double of_arm = static_cast<double>(treated.columns);
  const double df = (prompts - 1) * (of_baseline + of_arm - 2);
  const double residual_variance = df > 0 ? (interaction_squares(baseline) + interaction_squares(treated)) / df : 0;
  return {.prompt = variance_over_prompts(differences),
          .cell = residual_variance * (1 / of_baseline + 1 / of_arm) / prompts};
}

Components components_by_block(const Observations& observations, int arm) {
  const LogRateCells difference = block_difference_cells(observations, arm);
  std::vector<double> differences;
  for (std::size_t i = 0; i < observations.prompts; ++i) differences.push_back(difference.row_mean(i));
  const double prompts = static_cast<double>(observations.prompts);
  const double blocks = static_cast<double>(difference.columns);
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
