// From intervals to words. Margins are given beforehand, never read off the data.
//
// On the benefit scale b = effect (higher is better) or -effect (lower is better), margin m as a fraction, delta = ln(1
// - m):
//   difference shown  adjusted two-sided p < alpha (Holm; Benjamini-Hochberg in a screen)
//   equivalent        both one-sided tests against +-|delta_equivalence| reject at alpha (TOST), adjusted
//   better / worse    difference shown, b > 0 / b < 0
//   non_inferior      b > delta_non_inferiority, one-sided at alpha, adjusted
//   inconclusive      none of these, or too few units
//   invalid           nothing comparable
// In this order: invalid, inconclusive for too few units, equivalent, better, non_inferior, worse, inconclusive. So a
// small proven loss within the margin is "non_inferior, difference shown", and a proven difference inside the
// equivalence margin is "equivalent, difference shown". Each of the three claims has its own family over the
// comparisons given. By Holm the chance of any false claim of a kind is at most alpha; in a screen the expected share
// of false ones among those made is.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "stats/effect.h"
#include "stats/multiplicity.h"

namespace tare::stats {

enum class Verdict { kBetter, kWorse, kNonInferior, kEquivalent, kInconclusive, kInvalid };

struct DecisionRule {
  Direction direction = Direction::kHigherIsBetter;
  double alpha = 0.05;
  std::optional<double> non_inferiority_margin = {};  // fraction, 0.005 for 0.5 %; 0 < m < 1
  std::optional<double> equivalence_margin = {};      // fraction
  Multiplicity multiplicity = Multiplicity::kHolm;    // the same for a whole family
};

struct VerdictResult {
  Verdict verdict = Verdict::kInconclusive;
  bool difference_shown = false;
  std::optional<double> p_value = {};           // two-sided against no difference, alone
  std::optional<double> adjusted_p_value = {};  // over the family, by its multiplicity; the one that decides
  std::optional<double> holm_p_value = {};      // both adjustments, whichever decides
  std::optional<double> benjamini_hochberg_p_value = {};
  std::optional<double> non_inferiority_p_value = {};  // one-sided, adjusted; with a margin only
  std::optional<double> equivalence_p_value = {};      // larger of the two one-sided, adjusted; with a margin only
  int family_size = 0;                                 // comparisons in the family
  std::vector<Warning> warnings = {};
};

// Stable words: "better", "worse", "non_inferior", "equivalent", "inconclusive", "invalid".
[[nodiscard]] std::string_view verdict_name(Verdict verdict);

// One verdict per estimate, as one family. An estimate that is not conclusive (too few units) counts in the family with
// p = 1. Throws Error (input) for a margin or alpha outside (0, 1).
[[nodiscard]] std::vector<VerdictResult> decide(std::span<const Estimate> family, const DecisionRule& rule);

// Families over several measures, each with its own direction and margins: rules[i] belongs to family[i].
[[nodiscard]] std::vector<VerdictResult> decide(std::span<const Estimate> family, std::span<const DecisionRule> rules);

// One-sided test that effect > bound: P(T >= (effect - bound) / se), t with df.
[[nodiscard]] double p_value_above(double effect, double standard_error, double degrees_of_freedom, double bound);

// Two one-sided tests against +-bound (log scale, bound > 0).
struct EquivalenceTest {
  double p_above_lower = 1;  // effect > -bound
  double p_below_upper = 1;  // effect < +bound
  [[nodiscard]] double p_value() const { return p_above_lower > p_below_upper ? p_above_lower : p_below_upper; }
};
[[nodiscard]] EquivalenceTest test_equivalence(double effect, double standard_error, double degrees_of_freedom,
                                               double bound);

}  // namespace tare::stats
