#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "harness/analysis/measured_values.h"
#include "harness/gate/checks.h"
#include "stats/analysis.h"
#include "stats/stored_baseline.h"

namespace tare::harness {
namespace {

using reports::GateCheck;
using reports::GateOutcome;
using stats::Verdict;

constexpr double kPercent = 100;

// One comparison of the family: an arm in a measure.
struct Compared {
  std::string name;
  SpeedRule rule;
  stats::Estimate estimate;
};

std::string arm_name(const GateSides& sides, std::size_t arm) {
  return sides.here.experiment.arms[arm].name;
}

bool is_measured(const Gathered& gathered, Measure measure) {
  const std::vector<Measure>& measures = gathered.experiment.measures;
  return std::find(measures.begin(), measures.end(), measure) != measures.end();
}

// The regression's or the blocks' estimates of all arms, by arm - 1.
std::vector<stats::Estimate> fresh_estimates(const Gathered& gathered, const stats::Observations& observations,
                                             double level) {
  std::vector<stats::Estimate> estimates;
  stats::AnalysisOptions options;
  options.granularity = granularity_of(gathered.experiment);
  options.level = level;
  options.seed = gathered.experiment.schedule.seed;
  for (const stats::ArmComparison& comparison : stats::analyse(observations, options).comparisons)
    estimates.push_back(comparison.runs);
  return estimates;
}

// Log rates of an arm's runs.
std::vector<double> log_rates_of(const stats::Observations& observations, std::size_t arm) {
  const std::vector<double> all = stats::run_log_rates(observations);
  std::vector<double> rates;
  for (std::size_t r = 0; r < all.size(); ++r)
    if (observations.runs[r].arm == static_cast<int>(arm)) rates.push_back(all[r]);
  return rates;
}

// Why the texts of two runs are not the same; empty when they are.
std::string texts_fault(const Gathered& here, const Gathered& baseline) {
  if (baseline.measured.empty()) return "the baseline measured no text";
  if (here.measured.size() != baseline.measured.size())
    return fmt::format("{} texts here, {} in the baseline", here.measured.size(), baseline.measured.size());
  for (std::size_t i = 0; i < here.measured.size(); ++i) {
    const TextRecord& ours = here.texts[here.measured[i]];
    const TextRecord& theirs = baseline.texts[baseline.measured[i]];
    if (ours.prompt_id != theirs.prompt_id || ours.digest != theirs.digest ||
        ours.prompt_digest != theirs.prompt_digest)
      return fmt::format("text {} ('{}') is another in the baseline ('{}')", i, ours.prompt_id, theirs.prompt_id);
  }
  return {};
}

bool satisfies(Verdict verdict, Requirement requirement) {
  switch (requirement) {
    case Requirement::kNonInferior:
      return verdict == Verdict::kBetter || verdict == Verdict::kEquivalent || verdict == Verdict::kNonInferior;
    case Requirement::kBetter:
      return verdict == Verdict::kBetter;
    case Requirement::kEquivalent:
      return verdict == Verdict::kEquivalent;
    case Requirement::kNotWorse:
      return verdict != Verdict::kWorse;
  }
  return false;
}

GateOutcome outcome_of(Verdict verdict, Requirement requirement) {
  if (verdict == Verdict::kInvalid) return GateOutcome::kInvalid;
  if (satisfies(verdict, requirement)) return GateOutcome::kPass;
  return verdict == Verdict::kInconclusive ? GateOutcome::kInconclusive : GateOutcome::kFail;
}

std::optional<double> fraction_of(const std::optional<double>& percent) {
  if (!percent) return std::nullopt;
  return *percent / kPercent;
}

stats::DecisionRule decision_of(const SpeedRule& rule, double alpha) {
  return {.direction = direction_of(rule.measure),
          .alpha = alpha,
          .non_inferiority_margin = fraction_of(rule.non_inferiority_margin_percent),
          .equivalence_margin = fraction_of(rule.equivalence_margin_percent)};
}

std::string sentence(const Compared& compared, const stats::VerdictResult& verdict) {
  const stats::Estimate& estimate = compared.estimate;
  std::string text = fmt::format("{:+.3f} %", stats::percent(estimate.log_effect));
  if (estimate.interval)
    text += fmt::format(" [{:+.3f}, {:+.3f}]", stats::percent(estimate.interval->low),
                        stats::percent(estimate.interval->high));
  text += verdict.difference_shown ? ", difference shown" : ", no difference shown";
  const SpeedRule& rule = compared.rule;
  if (rule.non_inferiority_margin_percent)
    text += fmt::format("; may be {} % worse", *rule.non_inferiority_margin_percent);
  if (rule.equivalence_margin_percent) text += fmt::format("; equal within {} %", *rule.equivalence_margin_percent);
  text += fmt::format("; must be {}", to_text(rule.require));
  if (!estimate.conclusive && !estimate.warnings.empty()) text += "; " + estimate.warnings.front().text;
  return text;
}

// Estimates of every arm in one measure, or a check that says why there are none.
void compare(const GateSides& sides, const GatePolicy& policy, const SpeedRule& rule, std::vector<Compared>& family,
             std::vector<GateCheck>& checks) {
  const std::string measure = describe(rule.measure).name;
  const auto cannot = [&](const std::string& why) { checks.push_back(not_seen("speed", measure, why)); };
  if (!is_measured(sides.here, rule.measure)) return cannot("the experiment does not measure it");
  const MeasuredValues here = measured_values(sides.here, rule.measure);
  if (!here.why_missing.empty()) return cannot(here.why_missing);
  const double level = 1 - policy.alpha;
  const auto name = [&](std::size_t arm) { return fmt::format("{} of {}", measure, arm_name(sides, arm)); };
  if (!sides.stored) {
    const std::vector<stats::Estimate> estimates = fresh_estimates(sides.here, here.observations, level);
    for (const std::size_t arm : sides.arms) family.push_back({name(arm), rule, estimates.at(arm - 1)});
    return;
  }
  if (!policy.between_sittings_percent)
    return cannot("a stored baseline needs \"between_sittings_percent\": what two sittings of one program differ by");
  const std::string fault = texts_fault(sides.here, sides.baseline);
  if (!fault.empty()) return cannot(fault);
  const MeasuredValues there = measured_values(sides.baseline, rule.measure);
  if (!is_measured(sides.baseline, rule.measure) || !there.why_missing.empty())
    return cannot("the baseline did not measure it");
  const std::vector<double> baseline = log_rates_of(there.observations, sides.baseline_arm);
  const double between = stats::log_effect_of_percent(*policy.between_sittings_percent);
  for (const std::size_t arm : sides.arms)
    family.push_back(
        {name(arm), rule, stats::against_stored(baseline, log_rates_of(here.observations, arm), between, level)});
}

}  // namespace

void check_speed(const GateSides& sides, const GatePolicy& policy, std::vector<GateCheck>& checks) {
  std::vector<Compared> family;
  for (const SpeedRule& rule : policy.speed) compare(sides, policy, rule, family, checks);
  std::vector<stats::Estimate> estimates;
  std::vector<stats::DecisionRule> rules;
  for (const Compared& compared : family) {
    estimates.push_back(compared.estimate);
    rules.push_back(decision_of(compared.rule, policy.alpha));
  }
  if (family.empty()) return;
  const std::vector<stats::VerdictResult> verdicts = stats::decide(estimates, rules);
  for (std::size_t i = 0; i < family.size(); ++i) {
    const stats::Estimate& estimate = family[i].estimate;
    GateCheck check{.section = "speed",
                    .name = family[i].name,
                    .verdict = verdicts[i].verdict,
                    .outcome = outcome_of(verdicts[i].verdict, family[i].rule.require),
                    .text = sentence(family[i], verdicts[i]),
                    .numbers = {{"effect_percent", fmt::format("{:.6f}", stats::percent(estimate.log_effect))}}};
    if (estimate.interval) {
      check.numbers.emplace_back("low_percent", fmt::format("{:.6f}", stats::percent(estimate.interval->low)));
      check.numbers.emplace_back("high_percent", fmt::format("{:.6f}", stats::percent(estimate.interval->high)));
    }
    checks.push_back(std::move(check));
  }
}

}  // namespace tare::harness
