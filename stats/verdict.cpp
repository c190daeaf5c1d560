#include "stats/verdict.h"

#include <fmt/format.h>

#include <cmath>

#include "base/error.h"
#include "stats/distributions.h"
#include "stats/multiplicity.h"

namespace tare::stats {
namespace {

void check_rule(const DecisionRule& rule) {
  const auto require = [](const char* where, double value) {
    if (!(value > 0 && value < 1)) throw input_error(where, "must lie between 0 and 1");
  };
  require("decision.alpha", rule.alpha);
  if (rule.non_inferiority_margin) require("decision.non_inferiority_margin", *rule.non_inferiority_margin);
  if (rule.equivalence_margin) require("decision.equivalence_margin", *rule.equivalence_margin);
}

double benefit(const Estimate& estimate, Direction direction) {
  return direction == Direction::kHigherIsBetter ? estimate.log_effect : -estimate.log_effect;
}

double log_margin(double margin) {
  return -std::log1p(-margin);
}

bool judged(const Estimate& estimate) {
  return estimate.conclusive && estimate.p_value && estimate.degrees_of_freedom && std::isfinite(estimate.log_effect);
}

// Raw p-values of one claim; 1 where nothing can be claimed. `asked[i]` false takes the comparison out of the family.
struct Claim {
  std::vector<double> p;
  std::vector<bool> asked;

  // Over those asked, put back in place; nothing elsewhere.
  [[nodiscard]] std::vector<std::optional<double>> adjusted(Multiplicity multiplicity) const {
    std::vector<double> family;
    for (std::size_t i = 0; i < p.size(); ++i) {
      if (asked[i]) family.push_back(p[i]);
    }
    const std::vector<double> values = adjust(multiplicity, family);
    std::vector<std::optional<double>> result(p.size());
    std::size_t next = 0;
    for (std::size_t i = 0; i < p.size(); ++i) {
      if (asked[i]) result[i] = values[next++];
    }
    return result;
  }
  void add(bool is_asked, double value) {
    asked.push_back(is_asked);
    p.push_back(value);
  }
};

Verdict choose(const VerdictResult& result, const Estimate& estimate, const DecisionRule& rule) {
  if (!std::isfinite(estimate.log_effect)) return Verdict::kInvalid;
  if (!judged(estimate)) return Verdict::kInconclusive;
  const auto shown = [&](const std::optional<double>& p) { return p && *p < rule.alpha; };
  const bool gains = benefit(estimate, rule.direction) > 0;
  if (shown(result.equivalence_p_value)) return Verdict::kEquivalent;
  if (result.difference_shown && gains) return Verdict::kBetter;
  if (shown(result.non_inferiority_p_value)) return Verdict::kNonInferior;
  if (result.difference_shown) return Verdict::kWorse;
  return Verdict::kInconclusive;
}

}  // namespace

std::string_view verdict_name(Verdict verdict) {
  switch (verdict) {
    case Verdict::kBetter:
      return "better";
    case Verdict::kWorse:
      return "worse";
    case Verdict::kNonInferior:
      return "non_inferior";
    case Verdict::kEquivalent:
      return "equivalent";
    case Verdict::kInconclusive:
      return "inconclusive";
    case Verdict::kInvalid:
      return "invalid";
  }
  return "unknown";
}

double p_value_above(double effect, double standard_error, double degrees_of_freedom, double bound) {
  if (standard_error == 0) return effect > bound ? 0.0 : 1.0;
  return student_t_upper_tail((effect - bound) / standard_error, degrees_of_freedom);
}

EquivalenceTest test_equivalence(double effect, double standard_error, double degrees_of_freedom, double bound) {
  return {.p_above_lower = p_value_above(effect, standard_error, degrees_of_freedom, -bound),
          .p_below_upper = p_value_above(-effect, standard_error, degrees_of_freedom, -bound)};
}

std::vector<VerdictResult> decide(std::span<const Estimate> family, std::span<const DecisionRule> rules) {
  if (family.size() != rules.size()) throw internal_error("decide: one rule per estimate");
  Claim difference;
  Claim non_inferiority;
  Claim equivalence;
  for (std::size_t i = 0; i < family.size(); ++i) {
    const Estimate& estimate = family[i];
    const DecisionRule& rule = rules[i];
    check_rule(rule);
    if (rule.multiplicity != rules.front().multiplicity) throw internal_error("decide: one family, one adjustment");
    const bool usable = judged(estimate);
    const double df = estimate.degrees_of_freedom.value_or(0);
    difference.add(true, usable ? *estimate.p_value : 1.0);
    non_inferiority.add(rule.non_inferiority_margin.has_value(),
                        usable && rule.non_inferiority_margin
                            ? p_value_above(benefit(estimate, rule.direction), estimate.standard_error, df,
                                            -log_margin(*rule.non_inferiority_margin))
                            : 1.0);
    equivalence.add(rule.equivalence_margin.has_value(),
                    usable && rule.equivalence_margin ? test_equivalence(estimate.log_effect, estimate.standard_error,
                                                                         df, log_margin(*rule.equivalence_margin))
                                                            .p_value()
                                                      : 1.0);
  }
  const Multiplicity multiplicity = rules.empty() ? Multiplicity::kHolm : rules.front().multiplicity;
  const auto holm_difference = difference.adjusted(Multiplicity::kHolm);
  const auto screened_difference = difference.adjusted(Multiplicity::kBenjaminiHochberg);
  const auto& adjusted_difference = multiplicity == Multiplicity::kHolm ? holm_difference : screened_difference;
  const auto adjusted_non_inferiority = non_inferiority.adjusted(multiplicity);
  const auto adjusted_equivalence = equivalence.adjusted(multiplicity);

  std::vector<VerdictResult> results;
  for (std::size_t i = 0; i < family.size(); ++i) {
    VerdictResult result;
    result.family_size = static_cast<int>(family.size());
    result.p_value = family[i].p_value;
    result.adjusted_p_value = adjusted_difference[i];
    result.holm_p_value = holm_difference[i];
    result.benjamini_hochberg_p_value = screened_difference[i];
    result.non_inferiority_p_value = adjusted_non_inferiority[i];
    result.equivalence_p_value = adjusted_equivalence[i];
    result.difference_shown = judged(family[i]) && *result.adjusted_p_value < rules[i].alpha;
    result.verdict = choose(result, family[i], rules[i]);
    if (judged(family[i]) && *result.p_value < rules[i].alpha && !result.difference_shown) {
      result.warnings.push_back(
          {.code = WarningCode::kHolmChangedVerdict,
           .text = fmt::format("p = {:.4f} alone, {:.4f} among {} comparisons: the difference is not shown",
                               *result.p_value, *result.adjusted_p_value, family.size()),
           .numbers = {{"p_value", *result.p_value}, {"adjusted_p_value", *result.adjusted_p_value}}});
    }
    results.push_back(std::move(result));
  }
  return results;
}

std::vector<VerdictResult> decide(std::span<const Estimate> family, const DecisionRule& rule) {
  return decide(family, std::vector<DecisionRule>(family.size(), rule));
}

}  // namespace tare::stats
