#include "stats/two_way.h"

#include <gtest/gtest.h>

#include <cmath>

#include "stats/block_effects.h"
#include "stats/regression.h"

namespace tare::stats {
namespace {

// Four prompts of different length, one block ABBABAAB. The expected numbers were computed apart from this code, with
// 40 digits, from the formulas in the header.
Observations four_prompts() {
  const std::vector<int> order = {0, 1, 1, 0, 1, 0, 0, 1};
  std::vector<stats::Run> runs;
  for (int i = 0; i < 8; ++i) runs.push_back({.arm = order[static_cast<std::size_t>(i)], .block = 0, .slot = i});
  std::vector<double> tokens;
  for (const double of_prompt : {100.0, 250.0, 400.0, 160.0}) tokens.insert(tokens.end(), 8, of_prompt);
  return speed_observations(2, 4, runs, tokens, {0.81, 0.79, 0.80, 0.82, 0.78, 0.81, 0.83, 0.79,  //
                                                 2.10, 2.09, 2.11, 2.12, 2.08, 2.13, 2.10, 2.07,  //
                                                 3.30, 3.21, 3.22, 3.31, 3.20, 3.28, 3.33, 3.24,  //
                                                 1.25, 1.26, 1.25, 1.24, 1.27, 1.26, 1.25, 1.24});
}

TEST(TwoWay, ByRunMatchesTheOracle) {
  const Observations observations = four_prompts();
  Estimate runs = regress_runs(observations.runs, run_log_rates(observations), 2, /*degree=*/0).estimates[0];
  runs.standard_error = 0.005;  // launches that differ more than these eight
  const Estimate two_way = two_way_estimate(observations, 1, runs, /*paired_by_block=*/false);
  EXPECT_NEAR(two_way.log_effect, 0.018201039786279, 1e-14);
  EXPECT_NEAR(two_way.standard_error, 0.00792174512709812, 1e-14);
  EXPECT_NEAR(*two_way.degrees_of_freedom, 4.81757182314911, 1e-9);
  EXPECT_NEAR(two_way.interval->low, -0.00239658682343083, 1e-11);
  EXPECT_NEAR(two_way.interval->high, 0.0387986663959889, 1e-11);
  EXPECT_EQ(two_way.estimand, Estimand::kPromptsLikeThese);
  EXPECT_FALSE(two_way.conclusive);  // four prompts
}

TEST(TwoWay, VarianceBelowThePromptPartIsRaisedToIt) {
  const Observations observations = four_prompts();
  const Estimate runs = regress_runs(observations.runs, run_log_rates(observations), 2, 0).estimates[0];
  const Estimate two_way = two_way_estimate(observations, 1, runs, false);
  EXPECT_NEAR(two_way.standard_error, 0.00679202065673184, 1e-14);
  EXPECT_EQ(*two_way.degrees_of_freedom, 3);
}

TEST(TwoWay, ByBlockMatchesTheOracle) {
  Observations observations = four_prompts();
  // The same numbers as four resident blocks of one baseline and one arm launch each.
  const std::vector<int> blocks = {0, 0, 1, 1, 2, 2, 3, 3};
  for (std::size_t r = 0; r < 8; ++r) {
    observations.runs[r].block = blocks[r];
    observations.runs[r].slot = static_cast<int>(r % 2);
  }
  const Estimate runs = block_effects(observations, 1).estimate;
  const Estimate two_way = two_way_estimate(observations, 1, runs, /*paired_by_block=*/true);
  EXPECT_NEAR(two_way.log_effect, 0.018201039786279, 1e-14);
  EXPECT_NEAR(two_way.standard_error, 0.00685850499438769, 1e-14);
  EXPECT_NEAR(*two_way.degrees_of_freedom, 3.09001810876849, 1e-9);
}

TEST(TwoWay, VarianceBelowItsPartsIsRaisedToTheLargerPart) {
  // Cells scatter by 1 % but average out over the runs of each arm and over prompts: only V_cell is left of the
  // formula.
  Observations steady = four_prompts();
  const std::vector<double> of_run = {+1, +1, -1, -1, +1, +1, -1, -1};
  for (std::size_t i = 0; i < 4; ++i) {
    for (std::size_t r = 0; r < 8; ++r) {
      steady.numerator[steady.at(i, r)] = 100;
      steady.denominator[steady.at(i, r)] = 1 + 0.01 * (i % 2 == 0 ? 1 : -1) * of_run[r];
    }
  }
  Estimate runs = regress_runs(steady.runs, run_log_rates(steady), 2, 0).estimates[0];
  runs.standard_error = 1e-4;
  const Estimate two_way = two_way_estimate(steady, 1, runs, false);
  ASSERT_EQ(two_way.warnings.size(), 2U);  // few prompts is the other
  EXPECT_EQ(two_way.warnings[1].code, WarningCode::kTwoWayFloor);
  EXPECT_DOUBLE_EQ(two_way.standard_error, 1e-4);
  EXPECT_EQ(two_way.degrees_of_freedom, runs.degrees_of_freedom);
}

TEST(TwoWay, OnePromptHasNoInterval) {
  Observations one = four_prompts();
  one.prompts = 1;
  one.numerator.resize(8);
  one.denominator.resize(8);
  const Estimate runs = regress_runs(one.runs, run_log_rates(one), 2, 0).estimates[0];
  EXPECT_FALSE(two_way_estimate(one, 1, runs, false).interval.has_value());
}

}  // namespace
}  // namespace tare::stats
