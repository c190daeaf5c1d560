#include "harness/analysis/effects.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "harness/analysis/intervals.h"
#include "harness/analysis/matrix_effects.h"
#include "harness/analysis/measured_values.h"
#include "harness/analysis/sittings.h"
#include "stats/analysis.h"
#include "stats/handicap.h"

namespace tare::harness {
namespace {

using reports::kMissing;
using reports::Severity;

constexpr int kResamples = 10'000;  // of the per-prompt bootstrap: its own error is then below 1 % of the half width
constexpr double kPercent = 100;

// Remarks on a number that is right as it stands are notes; all other warnings weaken one.
Severity severity_of(stats::WarningCode code) {
  switch (code) {
    case stats::WarningCode::kOneBlock:
    case stats::WarningCode::kBcaFellBack:
    case stats::WarningCode::kPromptSpreadDominates:
    case stats::WarningCode::kLaunchSpreadDominates:
    case stats::WarningCode::kTwoWayFloor:
    case stats::WarningCode::kZerosDropped:
      return Severity::kNote;
    default:
      return Severity::kWarning;
  }
}

// Each warning once: several intervals may say the same.
void add_warnings(const std::vector<stats::Warning>& from, std::vector<reports::Warning>& to) {
  for (const stats::Warning& warning : from) {
    const std::string code(stats::warning_name(warning.code));
    const bool known = std::any_of(to.begin(), to.end(), [&](const reports::Warning& other) {
      return other.code == code && other.text == warning.text;
    });
    if (!known) to.push_back({severity_of(warning.code), code, warning.text, ""});
  }
}

std::vector<reports::Interval> intervals_of(const stats::Analysis& analysis, const stats::ArmComparison& comparison,
                                            bool by_prompt, double level) {
  std::vector<reports::Interval> intervals;
  const double estimate = comparison.runs.log_effect;
  if (by_prompt) {
    intervals.push_back(interval_of(comparison.prompts, comparison.prompts.interval, "percentile", level));
    intervals.push_back(interval_of(comparison.prompts, comparison.prompts.bca, "BCa", level));
  } else {
    intervals.push_back(missing_interval(reports::Estimand::kTheseLaunches, "percentile", estimate, level,
                                         "one value a launch: there are no prompts to resample"));
  }
  intervals.push_back(interval_of(comparison.runs, comparison.runs.interval, run_level_method(analysis), level));
  intervals.back().of_verdict = true;
  if (by_prompt) {
    intervals.push_back(interval_of(comparison.two_way, comparison.two_way.interval, "two-way", level));
  } else {
    intervals.push_back(missing_interval(reports::Estimand::kPromptsLikeThese, "two-way", estimate, level,
                                         "one value a launch: prompts have no part in it"));
  }
  if (comparison.pairs) {
    intervals.push_back(interval_of(*comparison.pairs, comparison.pairs->interval, "block pairs", level));
    intervals.back().robustness = true;
  }
  return intervals;
}

// What the handicap of an arm really cost in the counted runs, against the baseline's own.
std::optional<reports::KnownTruth> known_truth(const Gathered& gathered, std::size_t arm) {
  std::int64_t spun_ns = 0;
  std::int64_t total_ns = 0;
  std::size_t runs_of_arm = 0;
  std::vector<std::vector<stats::HandicapRun>> runs(gathered.experiment.arms.size());
  for (const CountedRun& run : gathered.counted) {
    stats::HandicapRun spent;
    for (const PromptResult& result : run.results) {
      for (const std::int64_t spun : result.rounds.spun_ns) spent.spun_ns += spun;
      spent.total_ns += result.decode_ns;
    }
    runs[run.arm].push_back(spent);
    if (run.arm != arm) continue;
    spun_ns += spent.spun_ns;
    total_ns += spent.total_ns;
    ++runs_of_arm;
  }
  const auto spun = [](const stats::HandicapRun& run) { return run.spun_ns > 0; };
  const bool anything = spun_ns > 0 || std::any_of(runs.front().begin(), runs.front().end(), spun);
  if (!anything) return std::nullopt;
  return reports::KnownTruth{
      stats::handicap_truth(runs[arm]) - stats::handicap_truth(runs.front()),
      fmt::format("spun {:.3f} s of {:.3f} s of decode in {} runs", static_cast<double>(spun_ns) * 1e-9,
                  static_cast<double>(total_ns) * 1e-9, runs_of_arm)};
}

reports::Effect effect_of(const stats::Analysis& analysis, const stats::ArmComparison& comparison, bool by_prompt,
                          double level) {
  reports::Effect effect;
  effect.arm = static_cast<std::size_t>(comparison.arm);
  effect.estimate_log = comparison.runs.log_effect;
  effect.intervals = intervals_of(analysis, comparison, by_prompt, level);
  effect.p = comparison.runs.p_value.value_or(kMissing);
  add_warnings(comparison.runs.warnings, effect.warnings);
  if (!by_prompt) return effect;
  add_warnings(comparison.prompts.warnings, effect.warnings);
  add_warnings(comparison.two_way.warnings, effect.warnings);
  return effect;
}

void add_verdict(const stats::VerdictResult& verdict, reports::Effect& effect) {
  effect.p_adjusted = verdict.adjusted_p_value.value_or(kMissing);
  effect.p_holm = verdict.holm_p_value.value_or(kMissing);
  effect.p_benjamini_hochberg = verdict.benjamini_hochberg_p_value.value_or(kMissing);
  effect.in_family = true;
  effect.verdict = std::string(stats::verdict_name(verdict.verdict));
  effect.difference_shown = verdict.difference_shown;
  add_warnings(verdict.warnings, effect.warnings);
}

std::optional<double> fraction_of(const std::optional<double>& percent) {
  if (!percent) return std::nullopt;
  return *percent / kPercent;
}

stats::AnalysisOptions options_of(const Experiment& experiment, const MeasureDescription& measure) {
  stats::AnalysisOptions options;
  options.granularity = granularity_of(experiment);
  options.level = 1 - experiment.analysis.alpha;
  options.resamples = kResamples;
  options.seed = experiment.schedule.seed;
  options.decision.alpha = experiment.analysis.alpha;
  options.decision.multiplicity = multiplicity_of(experiment);
  options.decision.direction = direction_of(measure.measure);
  if (measure.measure == Measure::kDecodeSpeed) {
    options.decision.equivalence_margin = fraction_of(experiment.analysis.equivalence_margin_percent);
    options.decision.non_inferiority_margin = fraction_of(experiment.analysis.non_inferiority_margin_percent);
  }
  return options;
}

// The report's row of a counted run.
reports::Run& row_of(reports::Findings& findings, const Gathered& gathered, const CountedRun& run) {
  for (std::size_t i = 0; i < gathered.runs.size(); ++i)
    if (gathered.runs[i].id == run.record.id) return findings.runs.at(i);
  throw internal_error("a counted run is not among the runs");
}

void add_values(const Gathered& gathered, const stats::Observations& observations, const std::vector<double>& log_rates,
                std::size_t measure, reports::Findings& findings) {
  for (std::size_t arm = 0; arm < gathered.experiment.arms.size(); ++arm) {
    reports::MeasureValue value;
    value.arm = arm;
    value.measure = measure;
    value.value = arm_value(observations, static_cast<int>(arm));
    for (std::size_t i = 0; i < gathered.counted.size(); ++i) {
      if (gathered.counted[i].arm != arm) continue;
      const double of_run = std::exp(log_rates[i]);
      value.lowest_run = value.run_count == 0 ? of_run : std::min(value.lowest_run, of_run);
      value.highest_run = value.run_count == 0 ? of_run : std::max(value.highest_run, of_run);
      ++value.run_count;
      row_of(findings, gathered, gathered.counted[i]).values[measure] = of_run;
    }
    findings.values.push_back(value);
  }
}

void add_drift(const Gathered& gathered, const stats::Analysis& analysis, reports::Findings& findings) {
  if (!analysis.drift) return;
  const stats::DriftFit& fit = *analysis.drift;
  findings.drift.degree = fit.degree;
  findings.drift.regressor = fit.variable == stats::DriftVariable::kSlot ? "slot" : "mid-time";
  findings.drift.per_slot_log = fit.per_slot;
  if (fit.per_slot_interval) {
    findings.drift.per_slot_low_log = fit.per_slot_interval->low;
    findings.drift.per_slot_high_log = fit.per_slot_interval->high;
  }
  findings.drift.residual_sd_log = fit.residual_sd;
  double largest = 0;
  for (const std::vector<double>& of_arm : fit.treatment_correlation)
    for (const double correlation : of_arm) largest = std::max(largest, std::abs(correlation));
  findings.drift.arm_correlation = largest;
  if (!fit.width_inflation.empty())
    findings.drift.width_inflation = *std::max_element(fit.width_inflation.begin(), fit.width_inflation.end());
  for (std::size_t i = 0; i < gathered.counted.size(); ++i) {
    reports::Run& row = row_of(findings, gathered, gathered.counted[i]);
    row.fitted = std::exp(analysis.run_log_rates[i] - fit.residual[i]);
    row.drift_log = fit.drift[i];
  }
}

void add_prompts(const Gathered& gathered, const stats::Analysis& analysis, reports::Findings& findings) {
  const std::size_t arms = gathered.experiment.arms.size();
  for (std::size_t i = 0; i < gathered.measured.size(); ++i) {
    const TextRecord& text = gathered.texts[gathered.measured[i]];
    reports::Prompt prompt;
    prompt.id = text.prompt_id;
    prompt.category = text.category;
    prompt.tokens = gathered.counted.front().results[i].decode_tokens;
    std::vector<double> runs_of_arm(arms, 0);
    prompt.seconds.assign(arms, 0);
    for (const CountedRun& run : gathered.counted) {
      prompt.seconds[run.arm] += static_cast<double>(run.results[i].decode_ns) * 1e-9;
      runs_of_arm[run.arm] += 1;
    }
    for (std::size_t arm = 0; arm < arms; ++arm) prompt.seconds[arm] /= runs_of_arm[arm];
    prompt.log_ratio.push_back(0);
    for (const stats::ArmComparison& comparison : analysis.comparisons)
      prompt.log_ratio.push_back(comparison.prompt_log_ratios[i]);
    findings.prompts.push_back(std::move(prompt));
  }
}

void add_measures(const Experiment& experiment, reports::Findings& findings) {
  for (const Measure measure : experiment.measures) {
    const MeasureDescription& entry = describe(measure);
    findings.measures.push_back({entry.name, entry.title, entry.unit, entry.higher_is_better, entry.meaning});
  }
  findings.effect_measure = 0;  // decode speed is the first of the table
}

void add_methods(const Experiment& experiment, reports::Findings& findings) {
  const auto margin_log = [](const std::optional<double>& percent) {
    return percent ? -std::log1p(-*percent / kPercent) : kMissing;
  };
  findings.methods.alpha = experiment.analysis.alpha;
  findings.methods.multiplicity = to_text(experiment.analysis.multiplicity);
  findings.methods.family_size = experiment.arms.size() - 1;
  findings.methods.equivalence_margin_log = margin_log(experiment.analysis.equivalence_margin_percent);
  findings.methods.non_inferiority_margin_log = margin_log(experiment.analysis.non_inferiority_margin_percent);
  findings.methods.bootstrap_resamples = kResamples;
  findings.methods.bootstrap_seed = experiment.schedule.seed;
  findings.methods.unit_of_replication = experiment.schedule.granularity == Granularity::kRun ? "launch" : "block";
}

// The statistics name runs by number; people know arms by name and count from one.
void name_outliers(const Gathered& gathered, const stats::Observations& observations,
                   std::vector<stats::Warning>& warnings) {
  for (stats::Warning& warning : warnings) {
    if (warning.code != stats::WarningCode::kOutlierRun) continue;
    const stats::Run& run = observations.runs[static_cast<std::size_t>(warning.numbers[0].second)];
    warning.text = fmt::format("the run of {} in block {}, slot {} lies {:+.1f} % from the fit; it is kept",
                               gathered.experiment.arms[static_cast<std::size_t>(run.arm)].name, run.block + 1,
                               run.slot + 1, warning.numbers[1].second);
  }
}

void add_measure(const Gathered& gathered, std::size_t index, reports::Findings& findings) {
  const MeasureDescription& entry = describe(gathered.experiment.measures[index]);
  const bool is_effect = index == findings.effect_measure;
  const MeasuredValues values = measured_values(gathered, entry.measure);
  if (!values.why_missing.empty()) {
    findings.warnings.push_back({Severity::kWarning, "not_measured",
                                 fmt::format("{} has no values: {}", entry.title, values.why_missing), entry.name});
    return;
  }
  const stats::AnalysisOptions options = options_of(gathered.experiment, entry);
  stats::Analysis analysis = stats::analyse(values.observations, options);
  name_outliers(gathered, values.observations, analysis.warnings);
  if (is_effect) add_warnings(analysis.warnings, findings.warnings);
  add_values(gathered, values.observations, analysis.run_log_rates, index, findings);
  for (const stats::ArmComparison& comparison : analysis.comparisons) {
    const auto arm = static_cast<std::size_t>(comparison.arm);
    reports::Effect effect = effect_of(analysis, comparison, values.by_prompt, options.level);
    effect.measure = index;
    // Launches that need the same memory to the page are what one expects, not a fault of the measurement.
    if (!values.by_prompt)
      for (reports::Warning& warning : effect.warnings)
        if (warning.code == stats::warning_name(stats::WarningCode::kDegenerate)) warning.severity = Severity::kNote;
    if (is_effect) {
      add_verdict(comparison.verdict, effect);
      effect.truth = known_truth(gathered, arm);
    }
    findings.effects.push_back(std::move(effect));
  }
  if (!is_effect) return;
  if (!findings.matrix.factors.empty())
    add_matrix_effects(gathered.experiment, values.observations, analysis, options, findings);
  add_sittings(gathered, values.observations, options.level, findings);
  add_drift(gathered, analysis, findings);
  add_prompts(gathered, analysis, findings);
}

}  // namespace

void add_effects(const Gathered& gathered, reports::Findings& findings) {
  add_measures(gathered.experiment, findings);
  add_methods(gathered.experiment, findings);
  for (reports::Run& run : findings.runs) run.values.assign(findings.measures.size(), kMissing);
  for (const CountedRun& run : gathered.counted) {
    reports::Run& row = row_of(findings, gathered, run);
    row.decode_s = 0;
    for (const PromptResult& result : run.results) {
      row.decode_s += static_cast<double>(result.decode_ns) * 1e-9;
      row.tokens += result.decode_tokens;
    }
  }
  for (std::size_t i = 0; i < gathered.experiment.measures.size(); ++i) add_measure(gathered, i, findings);
}

void add_invalid_effects(const Gathered& gathered, reports::Findings& findings) {
  add_measures(gathered.experiment, findings);
  add_methods(gathered.experiment, findings);
  for (reports::Run& run : findings.runs) run.values.assign(findings.measures.size(), kMissing);
  for (std::size_t arm = 1; arm < gathered.experiment.arms.size(); ++arm) {
    reports::Effect effect;
    effect.arm = arm;
    effect.measure = findings.effect_measure;
    effect.in_family = true;
    effect.verdict = std::string(stats::verdict_name(stats::Verdict::kInvalid));
    findings.effects.push_back(std::move(effect));
  }
}

}  // namespace tare::harness
