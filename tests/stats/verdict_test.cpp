#include "stats/verdict.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/error.h"
#include "stats/distributions.h"
#include "stats/multiplicity.h"

namespace tare::stats {
namespace {

Estimate measured(double log_effect, double standard_error, double df = 5) {
  Estimate estimate;
  estimate.log_effect = log_effect;
  estimate.standard_error = standard_error;
  estimate.degrees_of_freedom = df;
  estimate.interval = t_interval(log_effect, standard_error, df, 0.95);
  estimate.p_value = two_sided_p(log_effect, standard_error, df);
  estimate.conclusive = true;
  return estimate;
}

// The golden regression with a linear drift term: +0.468 %.
Estimate golden() {
  return measured(0.004672651, 0.000150455);
}

VerdictResult alone(const Estimate& estimate, const DecisionRule& rule) {
  return decide(std::vector<Estimate>{estimate}, rule).front();
}

TEST(Multiplicity, HolmAndBenjaminiHochbergGoldenVectors) {
  const std::vector<double> p = {.001, .008, .039, .041, .042, .060, .074, .205, .212, .216};
  const std::vector<double> holm = {.010, .072, .312, .312, .312, .312, .312, .615, .615, .615};
  const std::vector<double> bh = {.010, .040, .084, .084, .084, .100, 0.74 / 7, .216, .216, .216};
  EXPECT_THAT(holm_adjust(p), testing::Pointwise(testing::DoubleNear(1e-12), holm));
  EXPECT_THAT(benjamini_hochberg_adjust(p), testing::Pointwise(testing::DoubleNear(1e-12), bh));
}

TEST(Multiplicity, OrderOfTheFamilyDoesNotMatter) {
  EXPECT_THAT(holm_adjust(std::vector<double>{.04, .01, .03}), testing::ElementsAre(.06, .03, .06));
  EXPECT_THROW((void)holm_adjust(std::vector<double>{std::nan("")}), Error);
  EXPECT_TRUE(holm_adjust(std::vector<double>{}).empty());
}

TEST(Verdict, NonInferiorityGoldenNumbers) {
  const Estimate estimate = golden();
  const double one_sided = estimate.log_effect - student_t_quantile(0.95, 5) * estimate.standard_error;
  EXPECT_NEAR(percent(one_sided), 0.437904, 2e-6);  // the inputs carry six digits
  const double bound = std::log1p(-0.005);
  EXPECT_NEAR((estimate.log_effect - bound) / estimate.standard_error, 64.3727, 2e-4);
  EXPECT_NEAR(p_value_above(estimate.log_effect, estimate.standard_error, 5, bound), 8.56e-9, 1e-11);
}

TEST(Verdict, EquivalenceGoldenNumbers) {
  const EquivalenceTest test = test_equivalence(0.004672651, 0.000150455, 5, -std::log1p(-0.005));
  EXPECT_NEAR(test.p_above_lower, 8.56e-9, 1e-11);
  EXPECT_NEAR(test.p_below_upper, 0.0367179, 2e-6);
  EXPECT_EQ(test.p_value(), test.p_below_upper);
}

TEST(Verdict, EquivalentAndDifferentAtOnce) {
  const VerdictResult result = alone(golden(), {.equivalence_margin = 0.005});
  EXPECT_EQ(result.verdict, Verdict::kEquivalent);
  EXPECT_TRUE(result.difference_shown);
}

TEST(Verdict, DirectionDecidesWhatIsBetter) {
  EXPECT_EQ(alone(golden(), {}).verdict, Verdict::kBetter);
  EXPECT_EQ(alone(golden(), {.direction = Direction::kLowerIsBetter}).verdict, Verdict::kWorse);
  EXPECT_EQ(alone(measured(-0.01, 0.001), {.direction = Direction::kLowerIsBetter}).verdict, Verdict::kBetter);
}

TEST(Verdict, ASmallProvenLossWithinTheMarginIsNonInferiorAndShown) {
  const VerdictResult within = alone(measured(-0.002, 0.0003), {.non_inferiority_margin = 0.005});
  EXPECT_EQ(within.verdict, Verdict::kNonInferior);
  EXPECT_TRUE(within.difference_shown);
  const VerdictResult beyond = alone(measured(-0.006, 0.0003), {.non_inferiority_margin = 0.005});
  EXPECT_EQ(beyond.verdict, Verdict::kWorse);
  const VerdictResult gain = alone(measured(0.002, 0.0003), {.non_inferiority_margin = 0.005});
  EXPECT_EQ(gain.verdict, Verdict::kBetter);
  // For seconds the margin lies above: +0.6 % time is beyond it.
  const DecisionRule seconds{.direction = Direction::kLowerIsBetter, .non_inferiority_margin = 0.005};
  EXPECT_EQ(alone(measured(0.002, 0.0003), seconds).verdict, Verdict::kNonInferior);
  EXPECT_EQ(alone(measured(0.006, 0.0003), seconds).verdict, Verdict::kWorse);
}

TEST(Verdict, WithoutEvidenceItIsInconclusive) {
  const VerdictResult result = alone(measured(0.001, 0.001), {.non_inferiority_margin = 0.001});
  EXPECT_EQ(result.verdict, Verdict::kInconclusive);
  EXPECT_FALSE(result.difference_shown);
}

TEST(Verdict, TooFewUnitsAreInconclusiveHoweverSmallThePIs) {
  Estimate few = measured(0.1, 0.0001, 3);
  few.conclusive = false;
  const VerdictResult result = alone(few, {.equivalence_margin = 0.5});
  EXPECT_EQ(result.verdict, Verdict::kInconclusive);
  EXPECT_FALSE(result.difference_shown);
  EXPECT_LT(*result.p_value, 0.05);
}

TEST(Verdict, NoNumberIsInvalid) {
  Estimate nothing = golden();
  nothing.log_effect = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(alone(nothing, {}).verdict, Verdict::kInvalid);
}

TEST(Verdict, HolmTakesBackWhatOnlyOneOfManyShows) {
  // p about 0.03 alone; among three nulls 0.12.
  const double t = student_t_quantile(1 - 0.015, 10);
  const Estimate weak = measured(t * 0.001, 0.001, 10);
  EXPECT_TRUE(alone(weak, {}).difference_shown);
  const std::vector<Estimate> family = {weak, measured(0.0001, 0.001, 10), measured(-0.0002, 0.001, 10),
                                        measured(0.0003, 0.001, 10)};
  const std::vector<VerdictResult> results = decide(family, DecisionRule{});
  EXPECT_FALSE(results[0].difference_shown);
  EXPECT_EQ(results[0].verdict, Verdict::kInconclusive);
  EXPECT_NEAR(*results[0].adjusted_p_value, 0.12, 1e-9);
  ASSERT_EQ(results[0].warnings.size(), 1U);
  EXPECT_EQ(results[0].warnings[0].code, WarningCode::kHolmChangedVerdict);
  EXPECT_EQ(results[0].family_size, 4);
}

TEST(Verdict, RulesMayDifferWithinAFamily) {
  const std::vector<Estimate> family = {measured(0.01, 0.001), measured(0.01, 0.001)};
  const std::vector<DecisionRule> rules = {{}, {.direction = Direction::kLowerIsBetter}};
  const std::vector<VerdictResult> results = decide(family, rules);
  EXPECT_EQ(results[0].verdict, Verdict::kBetter);
  EXPECT_EQ(results[1].verdict, Verdict::kWorse);
}

TEST(Verdict, RefusesMarginsOutOfRange) {
  EXPECT_THROW((void)alone(golden(), {.non_inferiority_margin = 0.0}), Error);
  EXPECT_THROW((void)alone(golden(), {.equivalence_margin = 1.5}), Error);
  EXPECT_THROW((void)alone(golden(), {.alpha = 0}), Error);
}

// Four of ten comparisons: Holm shows one, a screen shows two; both adjustments are there whichever decides.
TEST(Verdict, AScreenHoldsTheShareOfFalseClaims) {
  std::vector<Estimate> family;
  for (const double p : {.001, .008, .039, .041, .042, .060, .074, .205, .212, .216}) {
    Estimate estimate = measured(0.01, 0.001);
    estimate.p_value = p;
    family.push_back(estimate);
  }
  const std::vector<VerdictResult> holm = decide(family, DecisionRule{});
  const std::vector<VerdictResult> screen =
      decide(family, DecisionRule{.multiplicity = Multiplicity::kBenjaminiHochberg});
  EXPECT_TRUE(holm[0].difference_shown);
  EXPECT_FALSE(holm[1].difference_shown);
  EXPECT_TRUE(screen[1].difference_shown);
  EXPECT_FALSE(screen[2].difference_shown);
  EXPECT_NEAR(*screen[1].adjusted_p_value, .040, 1e-12);
  EXPECT_NEAR(*holm[1].adjusted_p_value, .072, 1e-12);
  for (const auto* results : {&holm, &screen}) {
    EXPECT_NEAR(*(*results)[1].holm_p_value, .072, 1e-12);
    EXPECT_NEAR(*(*results)[1].benjamini_hochberg_p_value, .040, 1e-12);
  }
}

}  // namespace
}  // namespace tare::stats
