#include "stats/analysis.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/error.h"
#include "stats/bootstrap.h"
#include "stats/two_way.h"

namespace tare::stats {
namespace {

// Standard errors of two levels must differ by this much before one is said to dominate: less is within their own
// noise.
constexpr double kDominates = 2;

int count_blocks(const std::vector<Run>& runs) {
  std::set<int> blocks;
  for (const Run& run : runs) blocks.insert(run.block);
  return static_cast<int>(blocks.size());
}

void warn_of_tokens(const Observations& observations, std::vector<Warning>& warnings) {
  const auto& denominator = observations.denominator;
  const bool amounts = std::all_of(denominator.begin(), denominator.end(), [](double value) { return value == 1; });
  if (amounts) return;  // seconds or bytes stand in the numerators: they differ by nature
  std::size_t differing = 0;
  for (std::size_t prompt = 0; prompt < observations.prompts; ++prompt) {
    bool equal = true;
    for (std::size_t r = 1; r < observations.runs.size(); ++r) {
      equal = equal &&
              observations.numerator[observations.at(prompt, r)] == observations.numerator[observations.at(prompt, 0)];
    }
    differing += equal ? 0U : 1U;
  }
  if (differing == 0) return;
  warnings.push_back(
      {.code = WarningCode::kTokensDiffer,
       .text = fmt::format("{} of {} prompts gave different token counts in different runs: the text was "
                           "not forced, and its difference is in the effect",
                           differing, observations.prompts),
       .numbers = {{"prompts_differing", static_cast<double>(differing)}}});
}

// The launches against the prompts, and the prompts against the launches.
void warn_of_dominance(ArmComparison& comparison) {
  Estimate& prompts = comparison.prompts;
  Estimate& runs = comparison.runs;
  const Estimate& two_way = comparison.two_way;
  if (prompts.interval && runs.conclusive && runs.standard_error > kDominates * prompts.standard_error) {
    prompts.warnings.push_back(
        {.code = WarningCode::kLaunchSpreadDominates,
         .text = fmt::format("launches differ {:.1f} times as much as the prompts explain: this interval is too narrow "
                             "for any claim beyond these launches",
                             runs.standard_error / std::max(prompts.standard_error, 1e-300)),
         .numbers = {{"run_standard_error", runs.standard_error}, {"prompt_standard_error", prompts.standard_error}}});
  }
  if (two_way.interval && runs.conclusive && two_way.standard_error > kDominates * runs.standard_error) {
    runs.warnings.push_back(
        {.code = WarningCode::kPromptSpreadDominates,
         .text = "prompts react differently to this arm: the interval is about this suite, not about other prompts",
         .numbers = {{"run_standard_error", runs.standard_error}, {"two_way_standard_error", two_way.standard_error}}});
  }
}

void check_options(const AnalysisOptions& options) {
  if (!(options.level > 0 && options.level < 1)) throw input_error("analysis.level", "must lie between 0 and 1");
  if (options.drift_degree && *options.drift_degree < 0) {
    throw input_error("analysis.drift_degree", "must not be negative");
  }
}

void analyse_by_run(const Observations& observations, const AnalysisOptions& options, Analysis& analysis) {
  const int blocks = count_blocks(observations.runs);
  const int degree = options.drift_degree.value_or(drift_degree_rule(blocks));
  RegressionResult regression = regress_runs(observations.runs, analysis.run_log_rates, observations.arms, degree,
                                             options.drift_variable, options.level);
  for (ArmComparison& comparison : analysis.comparisons) {
    comparison.runs = std::move(regression.estimates[static_cast<std::size_t>(comparison.arm - 1)]);
    comparison.pairs = block_pair_estimate(observations.runs, analysis.run_log_rates, comparison.arm, options.level);
  }
  analysis.arm_covariance = std::move(regression.arm_covariance);
  analysis.drift = std::move(regression.drift);
  analysis.warnings.insert(analysis.warnings.end(), regression.warnings.begin(), regression.warnings.end());
  if (blocks == 1) {
    analysis.warnings.push_back({.code = WarningCode::kOneBlock,
                                 .text = "one block: strong cubic drift is not covered; two blocks cover it",
                                 .numbers = {{"blocks", 1}}});
  }
}

}  // namespace

Analysis analyse(const Observations& observations, const AnalysisOptions& options) {
  check_options(options);
  check_observations(observations);
  Analysis analysis;
  analysis.run_log_rates = run_log_rates(observations);
  for (int arm = 1; arm < observations.arms; ++arm) {
    ArmComparison comparison;
    comparison.arm = arm;
    analysis.comparisons.push_back(std::move(comparison));
  }
  const bool by_run = options.granularity == Granularity::kRun;
  if (by_run) {
    analyse_by_run(observations, options, analysis);
  } else {
    for (ArmComparison& comparison : analysis.comparisons) {
      comparison.runs = block_effects(observations, comparison.arm, options.level).estimate;
    }
  }
  warn_of_tokens(observations, analysis.warnings);

  const PromptTotals baseline = prompt_totals(observations, 0);
  std::vector<Estimate> family;
  for (ArmComparison& comparison : analysis.comparisons) {
    const BootstrapOptions bootstrap{
        .resamples = options.resamples, .seed = options.seed, .threads = options.threads, .level = options.level};
    comparison.prompts = bootstrap_ratio(baseline, prompt_totals(observations, comparison.arm), bootstrap).estimate;
    comparison.two_way = two_way_estimate(observations, comparison.arm, comparison.runs, !by_run, options.level);
    comparison.prompt_log_ratios = prompt_log_ratios(observations, comparison.arm);
    warn_of_dominance(comparison);
    family.push_back(comparison.runs);
  }
  const std::vector<VerdictResult> verdicts = decide(family, options.decision);
  for (std::size_t i = 0; i < verdicts.size(); ++i) analysis.comparisons[i].verdict = verdicts[i];
  return analysis;
}

std::vector<Estimate> verdict_estimates(const Observations& observations, Granularity granularity, double level) {
  check_observations(observations);
  if (granularity == Granularity::kRun)
    return regress_runs(observations.runs, run_log_rates(observations), observations.arms,
                        drift_degree_rule(count_blocks(observations.runs)), DriftVariable::kSlot, level)
        .estimates;
  std::vector<Estimate> estimates;
  for (int arm = 1; arm < observations.arms; ++arm)
    estimates.push_back(block_effects(observations, arm, level).estimate);
  return estimates;
}

std::optional<double> widest_half_width(const std::vector<Estimate>& estimates) {
  std::optional<double> widest;
  for (const Estimate& estimate : estimates) {
    if (!estimate.conclusive || !estimate.interval) return std::nullopt;
    widest = std::max(widest.value_or(0), estimate.interval->half_width());
  }
  return widest;
}

}  // namespace tare::stats
