#include "engine/decode/sampling.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/philox.h"
#include "engine/backend/argmax.h"
#include "engine/decode/token_policy.h"

namespace tare::engine {
namespace {

TEST(Argmax, TiesGoToTheLowestId) {
  for (const std::size_t size : {1, 2, 15, 16, 17, 31, 100}) {
    std::vector<float> logits(size, -2.0F);
    logits[size / 2] = 3.0F;
    logits[size - 1] = 3.0F;
    EXPECT_EQ(argmax(logits), static_cast<std::int32_t>(size / 2));
  }
  EXPECT_EQ(argmax(std::vector<float>(40, 1.0F)), 0);
  EXPECT_THROW((void)argmax({}), Error);
}

TEST(Argmax, RefusesNothingButNaN) {
  EXPECT_THROW((void)argmax(std::vector<float>(3, std::numeric_limits<float>::quiet_NaN())), Error);
  EXPECT_EQ(argmax(std::vector<float>{-INFINITY, -INFINITY}), 0);
}

TEST(ExpNonpositive, IsAccurateToSinglePrecision) {
  for (int i = 0; i <= 8700; ++i) {
    const float x = -0.01F * static_cast<float>(i);
    const double exact = std::exp(static_cast<double>(x));
    EXPECT_NEAR(static_cast<double>(exp_nonpositive(x)) / exact, 1.0, 3e-7) << x;
  }
  EXPECT_EQ(exp_nonpositive(0.0F), 1.0F);
  EXPECT_EQ(exp_nonpositive(-200.0F), 0.0F);
  EXPECT_EQ(exp_nonpositive(-INFINITY), 0.0F);
}

// Double-precision inversion of the cumulative distribution in id order.
std::int32_t oracle_draw(const std::vector<float>& logits, double temperature, double uniform) {
  double top = -INFINITY;
  for (const float logit : logits) top = std::max(top, static_cast<double>(logit));
  double total = 0;
  for (const float logit : logits) total += std::exp((static_cast<double>(logit) - top) / temperature);
  double reached = 0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    reached += std::exp((static_cast<double>(logits[i]) - top) / temperature);
    if (reached > uniform * total) return static_cast<std::int32_t>(i);
  }
  return static_cast<std::int32_t>(logits.size()) - 1;
}

TEST(Draw, AgreesWithTheDoublePrecisionOracle) {
  const Philox numbers(3);
  std::vector<float> scratch;
  int different = 0;
  for (std::uint64_t trial = 0; trial < 2000; ++trial) {
    std::vector<float> logits(137);
    for (std::size_t i = 0; i < logits.size(); ++i)
      logits[i] = static_cast<float>(3.0 * numbers.normal_at(trial * 1000 + i));
    const double uniform = numbers.uniform_at(trial * 1000 + 999);
    different += draw(logits, 0.8, uniform, scratch) == oracle_draw(logits, 0.8, uniform) ? 0 : 1;
  }
  // A draw can differ only where the target falls within rounding of a boundary: about 1e-6 a token.
  EXPECT_LE(different, 1);
}

TEST(Draw, FollowsTheDistribution) {
  const std::vector<float> logits = {0.0F, std::log(2.0F), std::log(5.0F)};
  std::vector<float> scratch;
  std::vector<int> counts(3, 0);
  Philox numbers(17);
  for (int i = 0; i < 80'000; ++i) ++counts[static_cast<std::size_t>(draw(logits, 1.0, numbers.uniform(), scratch))];
  EXPECT_NEAR(counts[0], 10'000, 5 * 94);
  EXPECT_NEAR(counts[1], 20'000, 5 * 123);
  EXPECT_NEAR(counts[2], 50'000, 5 * 137);
}

TEST(Draw, NeverChoosesATokenWithoutWeight) {
  std::vector<float> logits(300, -INFINITY);
  logits[40] = 0.0F;
  std::vector<float> scratch;
  EXPECT_EQ(draw(logits, 1.0, 0.0, scratch), 40);
  EXPECT_EQ(draw(logits, 1.0, std::nextafter(1.0, 0.0), scratch), 40);
}

TEST(RoundMantissa, RoundsToNearestEven) {
  EXPECT_EQ(round_mantissa(1.0F + 0.25F, 1), 1.0F);  // halfway between 1.0 and 1.5: even mantissa
  EXPECT_EQ(round_mantissa(1.0F + 0.75F, 1), 2.0F);  // halfway between 1.5 and 2.0: even mantissa
  EXPECT_EQ(round_mantissa(1.0F + 0.26F, 1), 1.5F);
  EXPECT_EQ(round_mantissa(-1.3F, 23), -1.3F);
  EXPECT_TRUE(std::isinf(round_mantissa(INFINITY, 4)));
}

TEST(SampledPolicy, DrawsByPromptAndPositionOnly) {
  std::vector<float> flat(1000, 0.0F);
  const auto first = make_sampled_policy(1.0, 9, "12");
  const auto second = make_sampled_policy(1.0, 9, "12");
  const auto other = make_sampled_policy(1.0, 9, "13");
  const std::int32_t at_5 = first->choose({0, flat}, 0, 5).natural;
  (void)second->choose({0, flat}, 0, 77);
  EXPECT_EQ(second->choose({0, flat}, 1, 5).natural, at_5);
  EXPECT_NE(first->choose({0, flat}, 1, 6).natural, at_5);
  EXPECT_NE(other->choose({0, flat}, 0, 5).natural, at_5);
  EXPECT_THROW((void)make_sampled_policy(0.0, 1, "x"), Error);
}

}  // namespace
}  // namespace tare::engine
