#include "stats/mcnemar.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "stats/proportions.h"

namespace tare::stats {
namespace {

TEST(McNemar, ExactBelowTwentyFiveDiscordantPairs) {
  // 2 and 8 discordant: 2 P(X <= 2 | 10, 1/2) = 2 * 56 / 1024.
  const McNemarTest test = mcnemar_test({.both = 40, .only_baseline = 2, .only_arm = 8, .neither = 50});
  EXPECT_TRUE(test.exact);
  EXPECT_NEAR(test.p_value, 0.109375, 1e-12);
  EXPECT_NEAR(test.difference, 0.06, 1e-15);
  EXPECT_EQ(test.discordant, 10U);
}

TEST(McNemar, ApproximateBeyondWithContinuityCorrection) {
  // (|121 - 59| - 1)^2 / 180 = 20.6722 against chi-squared(1).
  const McNemarTest test = mcnemar_test({.both = 101, .only_baseline = 121, .only_arm = 59, .neither = 33});
  EXPECT_FALSE(test.exact);
  EXPECT_NEAR(test.p_value, 5.450094825427123e-06, 1e-15);
}

TEST(McNemar, IntervalOfTheDifferenceByNewcombe) {
  // Computed elsewhere from the roots of the score equation.
  const auto interval = [](const PairedOutcomes& outcomes) { return mcnemar_test(outcomes).interval; };
  const Interval few = interval({1, 1, 7, 12});
  EXPECT_NEAR(few.low, 0.025559124164859892, 1e-12);
  EXPECT_NEAR(few.high, 0.5069202266861409, 1e-12);
  const Interval many = interval({101, 121, 59, 33});
  EXPECT_NEAR(many.low, -0.27611642143143383, 1e-12);
  EXPECT_NEAR(many.high, -0.11527301197975001, 1e-12);
  const Interval agreement = interval({480, 12, 4, 16});
  EXPECT_NEAR(agreement.low, -0.0335274297360663, 1e-12);
  EXPECT_NEAR(agreement.high, 0.0005298588990009824, 1e-12);
}

TEST(McNemar, WithoutDiscordantPairsNothingIsShown) {
  const McNemarTest test = mcnemar_test({.both = 0, .only_baseline = 0, .only_arm = 0, .neither = 5});
  EXPECT_EQ(test.p_value, 1);
  EXPECT_NEAR(test.interval.high, 0.43448246478317465, 1e-12);
  EXPECT_THROW((void)mcnemar_test({}), Error);
}

TEST(McNemar, PairingSeesWhatTwoSeparateIntervalsDoNot) {
  // 90.0 % against 88.0 % of 1000 tokens, all but 20 of the differences on one side: the Wilson intervals overlap.
  const PairedOutcomes outcomes{.both = 870, .only_baseline = 30, .only_arm = 10, .neither = 90};
  EXPECT_GT(wilson_interval(880, 1000).high, wilson_interval(900, 1000).low);
  const McNemarTest test = mcnemar_test(outcomes);
  EXPECT_LT(test.p_value, 0.01);
  EXPECT_LT(test.interval.high, 0);
}

}  // namespace
}  // namespace tare::stats
