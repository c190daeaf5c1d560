#include "stats/two_way.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "stats/block_effects.h"
#include "stats/regression.h"
#include "stats/simulation.h"
#include "stats/two_way_bootstrap.h"

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

TEST(TwoWayBootstrap, ItsSpreadIsThatOfTheTwoWayFormula) {
  // Launches and reactions dominate the cell noise, so that counting it too often does not show.
  ClockModel model;
  model.log_effects = {0, 0.002};
  model.launch_sd = 0.002;
  model.reaction_sd = 0.008;
  model.noise_sd = 0.0005;
  double bootstrap = 0;
  double formula = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const Observations clock = simulate(model, make_schedule(2, 2, seed), Granularity::kRun, 40, seed).observations;
    const Estimate run_level = regress_runs(clock.runs, run_log_rates(clock), 2, 3).estimates[0];
    bootstrap += two_way_bootstrap(clock, 1, false, {.resamples = 500}).standard_error;
    formula += two_way_estimate(clock, 1, run_level, false).standard_error;
  }
  EXPECT_NEAR(bootstrap / formula, 0.98, 0.06);  // a bootstrap over 8 runs is sqrt(7/8) too narrow in its run part
}

TEST(TwoWayBootstrap, FewLaunchesAreTooNarrowAndSayIt) {
  ClockModel model;
  model.log_effects = {0, 0};
  model.launch_sd = 0.003;
  model.noise_sd = 0.0005;  // so that counting it twice hides nothing
  int held = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const Observations clock = simulate(model, make_schedule(2, 1, seed), Granularity::kRun, 20, seed).observations;
    const Estimate estimate = two_way_bootstrap(clock, 1, false, {.resamples = 200});
    EXPECT_FALSE(estimate.conclusive);
    held += estimate.interval->holds(0) ? 1 : 0;
  }
  EXPECT_LT(held, 275);  // 91.7 %: nominal is 95 %
  EXPECT_GT(held, 220);
}

TEST(TwoWayBootstrap, BlocksAreDrawnWithBothOfTheirRuns) {
  // A drift of 20 % between blocks is common to both arms of a block and must not widen the interval.
  ClockModel model;
  model.log_effects = {0, 0.004};
  model.drift = DriftKind::kLinear;
  model.drift_size = 0.2;
  model.noise_sd = 0.0005;
  const Observations clock = simulate(model, make_resident_schedule(2, 8, 1), Granularity::kPrompt, 30, 1).observations;
  const Estimate paired = two_way_bootstrap(clock, 1, true);
  EXPECT_TRUE(paired.conclusive);
  EXPECT_TRUE(paired.interval->holds(0.004));
  EXPECT_LT(paired.standard_error, 0.0005);
  EXPECT_GT(two_way_bootstrap(clock, 1, false).standard_error, 0.01);  // drawn apart the drift is in it
}

TEST(TwoWayBootstrap, SameBitsForEveryThreadCount) {
  ClockModel model;
  model.log_effects = {0, 0.004};
  const Observations clock = simulate(model, make_schedule(2, 2, 1), Granularity::kRun, 30, 1).observations;
  const Estimate one = two_way_bootstrap(clock, 1, false, {.threads = 1});
  const Estimate three = two_way_bootstrap(clock, 1, false, {.threads = 3});
  EXPECT_EQ(one.interval->low, three.interval->low);
  EXPECT_EQ(one.interval->high, three.interval->high);
  EXPECT_EQ(one.standard_error, three.standard_error);
  EXPECT_THROW((void)two_way_bootstrap(clock, 2, false), Error);
}

}  // namespace
}  // namespace tare::stats
