#include "stats/block_effects.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"

namespace tare::stats {
namespace {

// One prompt, baseline at rate 1, arm at exp(effect) in each block; `reversed[j]`: the arm was started first.
Observations resident(const std::vector<double>& effects, const std::vector<bool>& reversed) {
  std::vector<stats::Run> runs;
  std::vector<double> seconds;
  for (std::size_t j = 0; j < effects.size(); ++j) {
    runs.push_back({.arm = 0, .block = static_cast<int>(j), .slot = reversed[j] ? 1 : 0});
    runs.push_back({.arm = 1, .block = static_cast<int>(j), .slot = reversed[j] ? 0 : 1});
    seconds.push_back(1);
    seconds.push_back(std::exp(-effects[j]));
  }
  return speed_observations(2, 1, runs, std::vector<double>(seconds.size(), 1.0), seconds);
}

const std::vector<double> kEffects = {0.0101, 0.0079, 0.0112, 0.0084, 0.0098, 0.0071, 0.0105};
const std::vector<bool> kReversed = {false, true, false, true, false, true, false};

bool has(const Estimate& estimate, WarningCode code) {
  for (const Warning& warning : estimate.warnings) {
    if (warning.code == code) return true;
  }
  return false;
}

TEST(BlockEffects, SevenBlocksFitTheStartOrder) {
  // Expected numbers by a separate computation with 40 digits.
  const BlockEffects result = block_effects(resident(kEffects, kReversed), 1);
  EXPECT_NEAR(result.estimate.log_effect, 0.0091, 1e-14);
  EXPECT_NEAR(*result.order_effect, 0.0026, 1e-14);
  EXPECT_NEAR(result.estimate.standard_error, 0.000239095517872391, 1e-14);
  EXPECT_NEAR(result.estimate.interval->half_width(), 0.000614614595224825, 1e-13);
  EXPECT_EQ(*result.estimate.degrees_of_freedom, 5);
  EXPECT_TRUE(result.estimate.conclusive);
}

TEST(BlockEffects, FiveBlocksTakeThePlainMeanAndSayWhatIsLeftOfTheOrder) {
  const BlockEffects result =
      block_effects(resident({kEffects.begin(), kEffects.begin() + 5}, {kReversed.begin(), kReversed.begin() + 5}), 1);
  EXPECT_NEAR(result.estimate.log_effect, 0.00948, 1e-14);
  EXPECT_NEAR(result.estimate.standard_error, 0.000596154342431555, 1e-14);
  EXPECT_EQ(*result.estimate.degrees_of_freedom, 4);
  EXPECT_TRUE(result.estimate.conclusive);
  EXPECT_FALSE(result.order_effect.has_value());
  EXPECT_TRUE(has(result.estimate, WarningCode::kStartOrderUnbalanced));
}

TEST(BlockEffects, FourBlocksAreInconclusive) {
  const BlockEffects result = block_effects(resident({0.01, 0.011, 0.009, 0.01}, {false, true, false, true}), 1);
  EXPECT_FALSE(result.estimate.conclusive);
  EXPECT_TRUE(has(result.estimate, WarningCode::kFewBlocks));
  EXPECT_TRUE(result.estimate.interval.has_value());
}

TEST(BlockEffects, AnOrderThatNeverChangesIsCalledConfounded) {
  const BlockEffects result = block_effects(resident(kEffects, std::vector<bool>(7, false)), 1);
  EXPECT_TRUE(has(result.estimate, WarningCode::kStartOrderConfounded));
  EXPECT_FALSE(result.order_effect.has_value());
  EXPECT_EQ(*result.estimate.degrees_of_freedom, 6);
}

TEST(BlockEffects, ABlockWithoutAPartnerIsAnError) {
  Observations broken = resident(kEffects, kReversed);
  broken.runs.back().block = 99;
  EXPECT_THROW((void)block_effects(broken, 1), Error);
}

TEST(BlockPairs, NeighboursOfABlockAreCompared) {
  // ABBABAAB: pairs (0,1) (3,2) (5,4) (6,7).
  const std::vector<int> order = {0, 1, 1, 0, 1, 0, 0, 1};
  std::vector<stats::Run> runs;
  for (int i = 0; i < 8; ++i) runs.push_back({.arm = order[static_cast<std::size_t>(i)], .block = 0, .slot = i});
  const std::vector<double> y = {1.00, 1.01, 1.02, 1.00, 1.03, 1.01, 1.00, 1.02};
  const Estimate pairs = block_pair_estimate(runs, y, 1);
  EXPECT_NEAR(pairs.log_effect, (0.01 + 0.02 + 0.02 + 0.02) / 4, 1e-14);
  EXPECT_EQ(*pairs.degrees_of_freedom, 3);
  EXPECT_FALSE(pairs.conclusive);
  EXPECT_NEAR(pairs.standard_error, 0.005 / 2, 1e-14);
  EXPECT_NEAR(pairs.interval->half_width(), 3.182446305284263 * 0.0025, 1e-12);
}

}  // namespace
}  // namespace tare::stats
