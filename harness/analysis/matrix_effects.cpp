#include "harness/analysis/matrix_effects.h"

#include <fmt/format.h>

#include <vector>

#include "base/text.h"
#include "harness/analysis/intervals.h"
#include "stats/contrasts.h"
#include "stats/multiplicity.h"

namespace tare::harness {
namespace {

// Interval and p of one contrast; an estimate without enough units counts in its family with p = 1, as a verdict does.
template <class AnyEffect>
double estimate_into(AnyEffect& effect, const stats::Estimate& estimate, const stats::Analysis& analysis,
                     double level) {
  effect.interval = interval_of(estimate, estimate.interval, run_level_method(analysis) + ", contrast", level);
  effect.p = estimate.p_value.value_or(reports::kMissing);
  return estimate.conclusive && estimate.p_value ? *estimate.p_value : 1.0;
}

template <class AnyEffect>
void adjust_family(std::vector<AnyEffect>& effects, const std::vector<double>& p, const stats::DecisionRule& rule) {
  const std::vector<double> adjusted = stats::adjust(rule.multiplicity, p);
  for (std::size_t i = 0; i < effects.size(); ++i) {
    effects[i].p_adjusted = adjusted[i];
    effects[i].shown = adjusted[i] < rule.alpha;
  }
}

void warn_of_interactions(reports::Findings& findings) {
  std::vector<std::string> shown;
  for (const reports::Interaction& interaction : findings.matrix.interactions) {
    if (!interaction.shown) continue;
    const reports::Factor& factor = findings.matrix.factors[interaction.factor];
    const reports::Factor& other = findings.matrix.factors[interaction.other_factor];
    shown.push_back(fmt::format("{} {} with {} {}", factor.name, factor.levels[interaction.level], other.name,
                                other.levels[interaction.other_level]));
  }
  if (shown.empty()) return;
  findings.warnings.push_back(
      {reports::Severity::kNote, "factors_interact",
       fmt::format(
           "what a factor does depends on another one ({}): a main effect is then a mean over combinations that "
           "differ",
           join(shown, "; ")),
       ""});
}

}  // namespace

void add_matrix_effects(const Experiment& experiment, const stats::Observations& observations,
                        const stats::Analysis& analysis, const stats::AnalysisOptions& options,
                        reports::Findings& findings) {
  stats::ArmLevels levels;
  for (const Arm& arm : experiment.arms) levels.push_back(arm.levels);
  const auto estimate = [&](const std::vector<double>& weights) {
    return stats::contrast_estimate(observations, analysis, options.granularity, weights, options.level);
  };
  std::vector<double> p;
  for (const stats::FactorContrast& contrast : stats::factor_contrasts(levels)) {
    reports::FactorEffect effect;
    effect.factor = contrast.factor;
    effect.level = contrast.level;
    effect.combinations = contrast.combinations;
    p.push_back(estimate_into(effect, estimate(contrast.weights), analysis, options.level));
    findings.matrix.effects.push_back(std::move(effect));
  }
  adjust_family(findings.matrix.effects, p, options.decision);
  p.clear();
  for (const stats::InteractionContrast& contrast : stats::interaction_contrasts(levels)) {
    reports::Interaction interaction;
    interaction.factor = contrast.factor;
    interaction.level = contrast.level;
    interaction.other_factor = contrast.other_factor;
    interaction.other_level = contrast.other_level;
    interaction.combinations = contrast.combinations;
    p.push_back(estimate_into(interaction, estimate(contrast.weights), analysis, options.level));
    findings.matrix.interactions.push_back(std::move(interaction));
  }
  adjust_family(findings.matrix.interactions, p, options.decision);
  warn_of_interactions(findings);
}

}  // namespace tare::harness
