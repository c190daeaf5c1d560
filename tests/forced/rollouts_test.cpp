#include "forced/rollouts.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "base/error.h"

namespace tare::forced {
namespace {

std::vector<std::int32_t> rising(std::int32_t count) {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(count));
  std::iota(tokens.begin(), tokens.end(), 1);
  return tokens;
}

TEST(Rollouts, TellLoopsRunsAndEndsApart) {
  std::vector<std::int32_t> loop = rising(20);
  for (int i = 0; i < 10; ++i)
    for (const std::int32_t token : {7, 8, 9}) loop.push_back(token);
  std::vector<std::int32_t> run = rising(40);
  run.insert(run.end(), 10, 5);
  const std::vector<Rollout> rollouts = {describe_rollout(rising(40), true), describe_rollout(loop, false),
                                         describe_rollout(run, false)};
  EXPECT_EQ(rollouts[0].repetition.longest_run, 1);
  EXPECT_EQ(rollouts[0].repetition.distinct_tokens, 40);
  EXPECT_EQ(rollouts[1].repetition.periodic_suffix_tokens, 30);
  EXPECT_EQ(rollouts[1].repetition.period, 3);
  EXPECT_EQ(rollouts[2].repetition.longest_run, 10);
  const RolloutSummary summary = summarise_rollouts(rollouts);
  EXPECT_EQ(summary.texts, 3);
  EXPECT_EQ(summary.ended, 1);
  EXPECT_EQ(summary.looping, 1) << "the loop; ten of fifty are no quarter";
  EXPECT_EQ(summary.longest_run, 10);
  EXPECT_NEAR(summary.tokens, 140.0 / 3, 1e-12);
  EXPECT_NEAR(summary.distinct_share, (1 + 20.0 / 50 + 40.0 / 50) / 3, 1e-12);
  EXPECT_NEAR(summary.dominant_share, (1.0 / 40 + 11.0 / 50 + 11.0 / 50) / 3, 1e-12);
  EXPECT_NEAR(summary.periodic_share, (0 + 30.0 / 50 + 10.0 / 50) / 3, 1e-12);
  EXPECT_THROW((void)summarise_rollouts({}), Error);
}

}  // namespace
}  // namespace tare::forced
