#include "stats/bootstrap.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "base/philox.h"
#include "stats/distributions.h"

namespace tare::stats {
namespace {

// The exhaustive golden vector: five prompts, tokens equal in both arms.
const std::vector<double> kTokens = {100, 100, 100, 100, 100};
const PromptTotals kBaseline{.numerator = kTokens, .denominator = {0.8533, 0.8127, 0.9014, 0.6508, 0.8720}};
const PromptTotals kArm{.numerator = kTokens, .denominator = {0.8491, 0.8110, 0.8935, 0.6475, 0.8716}};

// `count` prompts whose arm is faster by `effect`, with a spread of reactions.
PromptTotals prompts(std::size_t count, double effect, double spread, std::uint64_t seed) {
  const Philox base(1, 0);
  const Philox reaction(seed, 1);
  PromptTotals totals;
  for (std::size_t i = 0; i < count; ++i) {
    totals.numerator.push_back(128);
    totals.denominator.push_back(std::exp(0.5 * base.normal_at(i) - effect + spread * reaction.normal_at(i)));
  }
  return totals;
}

bool has(const Estimate& estimate, WarningCode code) {
  for (const Warning& warning : estimate.warnings) {
    if (warning.code == code) return true;
  }
  return false;
}

TEST(Bootstrap, ExhaustiveGoldenVector) {
  const BootstrapResult result = bootstrap_ratio(kBaseline, kArm, {});
  ASSERT_TRUE(result.exhaustive);
  EXPECT_EQ(result.resamples, 3125U);
  EXPECT_NEAR(std::exp(result.estimate.log_effect), 1.004296904, 5.1e-10);
  EXPECT_NEAR(std::exp(result.estimate.interval->low), 1.001749441, 1e-9);
  EXPECT_NEAR(std::exp(result.estimate.interval->high), 1.006934042, 1e-9);
  EXPECT_NEAR(result.acceleration, 0.023914570, 5.1e-9);
  // The table counts ties by float equality in one summation order; ours counts sums of the same terms as ties.
  EXPECT_NEAR(result.bias_z0, 0.020455513, 0.03);
  EXPECT_NEAR(std::exp(result.estimate.bca->low), 1.001869066, 3e-5);
  EXPECT_NEAR(std::exp(result.estimate.bca->high), 1.007211378, 1.5e-4);
  EXPECT_NEAR(result.estimate.standard_error, 0.001354677, 2e-6);  // the table's is on the ratio's scale
  EXPECT_TRUE(has(result.estimate, WarningCode::kFewPrompts));
}

TEST(Bootstrap, DeltaMethodGoldenVector) {
  const Estimate delta = delta_ratio(kBaseline, kArm);
  EXPECT_NEAR(delta.standard_error, 0.001532616, 5.1e-10);
  EXPECT_NEAR(std::exp(delta.interval->low), 1.000032474, 1e-9);
  EXPECT_NEAR(std::exp(delta.interval->high), 1.008579518, 1e-9);
}

TEST(Bootstrap, RandomResamplesAgreeWithTheExhaustiveOnes) {
  // Six prompts: 46,656 resamples are enumerated when asked for that many, drawn at random with fewer.
  const PromptTotals a = prompts(6, 0, 0.02, 1);
  const PromptTotals b = prompts(6, 0.01, 0.02, 2);
  const BootstrapResult all = bootstrap_ratio(a, b, {.resamples = 46'656});
  const BootstrapResult drawn = bootstrap_ratio(a, b, {.resamples = 40'000});
  ASSERT_TRUE(all.exhaustive);
  ASSERT_FALSE(drawn.exhaustive);
  const double se = all.estimate.standard_error;
  EXPECT_NEAR(drawn.estimate.standard_error, se, 0.02 * se);
  EXPECT_NEAR(drawn.estimate.interval->low, all.estimate.interval->low, 0.06 * se);  // Monte Carlo error is 0.015 se
  EXPECT_NEAR(drawn.estimate.interval->high, all.estimate.interval->high, 0.06 * se);
  EXPECT_NEAR(drawn.estimate.bca->low, all.estimate.bca->low, 0.06 * se);
  EXPECT_NEAR(drawn.bias_z0, all.bias_z0, 0.03);
  EXPECT_EQ(drawn.acceleration, all.acceleration);
}

TEST(Bootstrap, SameBitsForEveryThreadCount) {
  const PromptTotals a = prompts(64, 0, 0.01, 1);
  const PromptTotals b = prompts(64, 0.01, 0.01, 2);
  const Estimate one = bootstrap_ratio(a, b, {.threads = 1}).estimate;
  for (const int threads : {2, 3, 5}) {
    const Estimate many = bootstrap_ratio(a, b, {.threads = threads}).estimate;
    EXPECT_EQ(one.interval->low, many.interval->low);
    EXPECT_EQ(one.interval->high, many.interval->high);
    EXPECT_EQ(one.bca->low, many.bca->low);
    EXPECT_EQ(one.standard_error, many.standard_error);
  }
  const Estimate other_seed = bootstrap_ratio(a, b, {.seed = 2}).estimate;
  EXPECT_NE(one.interval->low, other_seed.interval->low);
  EXPECT_NEAR(one.interval->low, other_seed.interval->low, 0.1 * one.standard_error);
}

TEST(Bootstrap, PairingTakesOutWhatPromptsHaveInCommon) {
  // Prompts differ by half in length; both arms see the same draw, so only the reactions (1 %) are left.
  const std::size_t count = 400;
  const Estimate estimate = bootstrap_ratio(prompts(count, 0, 0, 1), prompts(count, 0.01, 0.01, 2), {}).estimate;
  EXPECT_LT(estimate.standard_error, 0.001);
  EXPECT_NEAR(estimate.standard_error,
              delta_ratio(prompts(count, 0, 0, 1), prompts(count, 0.01, 0.01, 2)).standard_error,
              0.03 * estimate.standard_error);
}

TEST(Bootstrap, ManyPromptsAreDrawnEvenly) {
  // Above 4,096 prompts another path draws the indices.
  const PromptTotals a = prompts(5000, 0, 0.01, 1);
  const PromptTotals b = prompts(5000, 0.01, 0.01, 2);
  const double delta = delta_ratio(a, b).standard_error;
  EXPECT_NEAR(bootstrap_ratio(a, b, {.resamples = 2000}).estimate.standard_error, delta, 0.07 * delta);
}

TEST(Bootstrap, TokensThatDifferEnterTheRatio) {
  PromptTotals more = kArm;
  for (double& tokens : more.numerator) tokens *= 1.1;
  EXPECT_NEAR(bootstrap_ratio(kBaseline, more, {}).estimate.log_effect,
              bootstrap_ratio(kBaseline, kArm, {}).estimate.log_effect + std::log(1.1), 1e-12);
}

TEST(Bootstrap, EqualRatiosGiveAFlaggedPoint) {
  PromptTotals faster = kBaseline;
  for (double& seconds : faster.denominator) seconds /= 1.25;
  const BootstrapResult result = bootstrap_ratio(kBaseline, faster, {});
  EXPECT_NEAR(result.estimate.log_effect, std::log(1.25), 1e-12);
  EXPECT_NEAR(result.estimate.interval->half_width(), 0, 1e-12);
  EXPECT_TRUE(has(result.estimate, WarningCode::kDegenerate));
}

TEST(Bootstrap, OnePromptHasNoInterval) {
  const PromptTotals one{.numerator = {10}, .denominator = {1}};
  const PromptTotals other{.numerator = {10}, .denominator = {2}};
  const Estimate estimate = bootstrap_ratio(one, other, {}).estimate;
  EXPECT_DOUBLE_EQ(estimate.log_effect, std::log(0.5));
  EXPECT_FALSE(estimate.interval.has_value());
  EXPECT_FALSE(estimate.conclusive);
}

TEST(Bootstrap, RefusesOptionsOutOfRange) {
  EXPECT_THROW((void)bootstrap_ratio(kBaseline, kArm, {.resamples = 99}), Error);
  EXPECT_THROW((void)bootstrap_ratio(kBaseline, kArm, {.threads = 0}), Error);
  EXPECT_THROW((void)bootstrap_ratio(kBaseline, kArm, {.level = 1}), Error);
  EXPECT_THROW((void)bootstrap_ratio(kBaseline, prompts(6, 0, 0, 1), {}), Error);
}

}  // namespace
}  // namespace tare::stats
