// Where the scatter comes from, what a design buys with it, and several sittings as one.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/error.h"
#include "base/philox.h"
#include "stats/distributions.h"
#include "stats/planning.h"
#include "stats/pooling.h"
#include "stats/simulation.h"
#include "stats/stored_baseline.h"
#include "stats/variance_split.h"

namespace tare::stats {
namespace {

ClockModel clock_of(double launch_sd, double reaction_sd, double noise_sd) {
  ClockModel model;
  model.log_effects = {0, 0.003};
  model.base_spread = 0;
  model.launch_sd = launch_sd;
  model.reaction_sd = reaction_sd;
  model.noise_sd = noise_sd;
  return model;
}

// Mean variances over simulated experiments.
VarianceSplit mean_split(const ClockModel& model, Granularity granularity, int blocks, int repetitions) {
  double prompt = 0;
  double launch = 0;
  double residual = 0;
  double unit = 0;
  for (int repetition = 0; repetition < repetitions; ++repetition) {
    const auto seed = static_cast<std::uint64_t>(repetition);
    const Schedule schedule =
        granularity == Granularity::kRun ? make_schedule(2, blocks, seed) : make_resident_schedule(2, blocks, seed);
    const VarianceSplit split =
        split_variance(simulate(model, schedule, granularity, 24, seed).observations, 1, granularity);
    prompt += split.prompt_sd * split.prompt_sd / repetitions;
    launch += split.launch_sd * split.launch_sd / repetitions;
    residual += split.residual_sd * split.residual_sd / repetitions;
    unit += split.unit_sd * split.unit_sd / repetitions;
  }
  return {.granularity = granularity,
          .prompts = 24,
          .prompt_sd = std::sqrt(prompt),
          .launch_sd = std::sqrt(launch),
          .residual_sd = std::sqrt(residual),
          .unit_sd = std::sqrt(unit)};
}

TEST(VarianceSplit, FindsThePartsThatWereSimulated) {
  const VarianceSplit split = mean_split(clock_of(0.002, 0.004, 0.005), Granularity::kRun, 2, 300);
  EXPECT_NEAR(split.launch_sd, 0.002, 0.0001);
  EXPECT_NEAR(split.prompt_sd, 0.004, 0.0002);
  EXPECT_NEAR(split.residual_sd, 0.005, 0.0001);
  EXPECT_NEAR(split.unit_sd, std::sqrt(0.002 * 0.002 + 0.005 * 0.005 / 24), 0.0001);
}

TEST(VarianceSplit, PartsOfResidentBlocksAreOfDifferences) {
  const VarianceSplit split = mean_split(clock_of(0.002, 0.004, 0.005), Granularity::kPrompt, 8, 300);
  EXPECT_NEAR(split.launch_sd, 0.002 * std::sqrt(2.0), 0.00015);
  EXPECT_NEAR(split.prompt_sd, 0.004, 0.0002);
  EXPECT_NEAR(split.residual_sd, 0.005 * std::sqrt(2.0), 0.0001);
}

TEST(VarianceSplit, DriftIsAPartOfItsOwnAndNotOfTheLaunches) {
  ClockModel model = clock_of(0.0005, 0, 0.001);
  model.drift = DriftKind::kLinear;
  model.drift_size = 0.05;
  const VarianceSplit split = split_variance(
      simulate(model, make_schedule(2, 2, 1), Granularity::kRun, 24, 1).observations, 1, Granularity::kRun);
  EXPECT_NEAR(split.drift_sd, 0.05 / std::sqrt(12.0), 0.003);  // a straight line of that range
  EXPECT_LT(split.launch_sd, 0.001);
}

TEST(VarianceSplit, TheVarianceOfADesignIsWhatItsExperimentsScatterBy) {
  const ClockModel model = clock_of(0.002, 0.004, 0.005);
  std::vector<double> effects;
  for (std::uint64_t seed = 0; seed < 600; ++seed) {
    const SimulatedExperiment experiment = simulate(model, make_schedule(2, 2, seed), Granularity::kRun, 24, seed);
    effects.push_back(regress_runs(experiment.observations.runs, run_log_rates(experiment.observations), 2, 3)
                          .estimates[0]
                          .log_effect);
  }
  const VarianceSplit split{
      .granularity = Granularity::kRun, .prompts = 24, .prompt_sd = 0.004, .launch_sd = 0.002, .residual_sd = 0.005};
  const double scatter = moments(effects).standard_deviation;
  EXPECT_NEAR(std::sqrt(effect_variance(split, 8, 24).prompts_like_these()), scatter, 0.1 * scatter);
  EXPECT_LT(std::sqrt(effect_variance(split, 8, 24).this_suite()), 0.85 * scatter);
}

TEST(VarianceSplit, RefusesWhatCannotBeSplit) {
  const auto one_prompt = simulate(clock_of(0.001, 0, 0.001), make_schedule(2, 1, 1), Granularity::kRun, 1, 1);
  EXPECT_THROW((void)split_variance(one_prompt.observations, 1, Granularity::kRun), Error);
  const auto fine = simulate(clock_of(0.001, 0, 0.001), make_schedule(2, 1, 1), Granularity::kRun, 4, 1);
  EXPECT_THROW((void)split_variance(fine.observations, 2, Granularity::kRun), Error);
}

Estimate sitting(double effect, double standard_error) {
  Estimate estimate;
  estimate.log_effect = effect;
  estimate.standard_error = standard_error;
  estimate.degrees_of_freedom = 10;
  estimate.conclusive = true;
  return estimate;
}

TEST(Pooling, GoldenVectorOfFourSittings) {
  // By the definitions, computed elsewhere in exact fractions.
  const std::vector<Estimate> sittings = {sitting(0.0031, 0.0004), sitting(0.0042, 0.0005), sitting(0.0024, 0.0006),
                                          sitting(0.0050, 0.0005)};
  const PooledEffect pooled = pool_sittings(sittings);
  EXPECT_NEAR(pooled.heterogeneity_q, 14.702920065252854, 1e-9);
  EXPECT_NEAR(pooled.between_sitting_sd, 0.0009714342781143799, 1e-12);
  EXPECT_NEAR(pooled.estimate.log_effect, 0.0036901835738531374, 1e-12);
  EXPECT_NEAR(pooled.estimate.standard_error, 0.000568559644757751, 1e-12);
  EXPECT_EQ(*pooled.estimate.degrees_of_freedom, 3);
  EXPECT_LT(pooled.heterogeneity_p, 0.01);
  EXPECT_TRUE(pooled.estimate.conclusive);
}

TEST(Pooling, SittingsThatAgreeHaveNothingBetweenThemAndAreNotNarrowerThanTheirErrors) {
  const std::vector<Estimate> sittings(3, sitting(0.003, 0.0006));
  const PooledEffect pooled = pool_sittings(sittings);
  EXPECT_EQ(pooled.between_sitting_sd, 0);
  EXPECT_NEAR(pooled.estimate.standard_error, 0.0006 / std::sqrt(3.0), 1e-12);
}

TEST(Pooling, TwoSittingsAreInconclusive) {
  const std::vector<Estimate> sittings(2, sitting(0.003, 0.0006));
  EXPECT_FALSE(pool_sittings(sittings).estimate.conclusive);
  EXPECT_THROW((void)pool_sittings(std::vector<Estimate>{sittings[0]}), Error);
  EXPECT_THROW((void)pool_sittings(std::vector<Estimate>{sittings[0], sitting(0.003, 0)}), Error);
}

TEST(Pooling, HoldsTheMeanOverSittingsWhereOneSittingDoesNot) {
  // Sittings scatter by 0.1 %, a sitting's own error is 0.02 %.
  int pooled_held = 0;
  int one_held = 0;
  constexpr int kRepetitions = 1000;
  for (int repetition = 0; repetition < kRepetitions; ++repetition) {
    const Philox random(static_cast<std::uint64_t>(repetition), 5);
    std::vector<Estimate> sittings;
    for (std::uint64_t s = 0; s < 5; ++s) {
      sittings.push_back(sitting(0.001 * random.normal_at(2 * s) + 0.0002 * random.normal_at(2 * s + 1), 0.0002));
    }
    pooled_held += pool_sittings(sittings).estimate.interval->holds(0) ? 1 : 0;
    one_held += t_interval(sittings[0].log_effect, 0.0002, 10, 0.95).holds(0) ? 1 : 0;
  }
  EXPECT_NEAR(pooled_held / double{kRepetitions}, 0.95, 0.025);
  EXPECT_LT(one_held / double{kRepetitions}, 0.5);
}

TEST(StoredBaseline, WelchOfKnownNumbersWithTheSpreadBetweenSittingsAdded) {
  // Means 0.02 and 0.05, variances 0.0001 (n 3) and 0.0004 (n 5): SE^2 = 1/30000 + 1/12500 without, df by
  // Satterthwaite.
  const std::vector<double> there = {0.01, 0.02, 0.03};
  const std::vector<double> here = {0.03, 0.05, 0.07, 0.05 + 0.02 * std::sqrt(2.0), 0.05 - 0.02 * std::sqrt(2.0)};
  const double a = 0.0001 / 3;
  const double b = (2 * 0.0004 + 2 * 0.0008) / 4 / 5;
  const Estimate plain = against_stored(there, here, 0);
  EXPECT_NEAR(plain.log_effect, 0.03, 1e-15);
  EXPECT_NEAR(plain.standard_error, std::sqrt(a + b), 1e-15);
  EXPECT_NEAR(*plain.degrees_of_freedom, (a + b) * (a + b) / (a * a / 2 + b * b / 4), 1e-9);
  const Estimate widened = against_stored(there, here, 0.02);
  EXPECT_NEAR(widened.standard_error, std::sqrt(a + b + 0.0004), 1e-15);
  EXPECT_GT(*widened.degrees_of_freedom, *plain.degrees_of_freedom);
  EXPECT_FALSE(against_stored(std::vector<double>{0.01, 0.02}, here, 0.02).conclusive);
  EXPECT_THROW((void)against_stored(std::vector<double>{}, here, 0.02), Error);
  EXPECT_THROW((void)against_stored(there, here, -1), Error);
}

TEST(StoredBaseline, HoldsTheTruthOnlyWithTheSpreadBetweenSittings) {
  // The machine is 1 % faster or slower in another sitting; runs scatter by 0.2 %.
  int with = 0;
  int without = 0;
  constexpr int kRepetitions = 1000;
  for (int repetition = 0; repetition < kRepetitions; ++repetition) {
    const Philox random(static_cast<std::uint64_t>(repetition), 6);
    std::vector<double> there;
    std::vector<double> here;
    for (std::uint64_t r = 0; r < 8; ++r) {
      there.push_back(0.01 * random.normal_at(0) + 0.002 * random.normal_at(10 + r));
      here.push_back(0.01 * random.normal_at(1) + 0.002 * random.normal_at(30 + r));
    }
    with += against_stored(there, here, 0.01 * std::sqrt(2.0)).interval->holds(0) ? 1 : 0;
    without += against_stored(there, here, 0).interval->holds(0) ? 1 : 0;
  }
  EXPECT_NEAR(with / double{kRepetitions}, 0.95, 0.025);
  EXPECT_LT(without / double{kRepetitions}, 0.3);
}

TEST(Planning, SixteenRunsOfADesign) {
  // Two arms, two blocks: 16 runs, degree 3, df 11, SE = sd / 2; (t.975(11) + t.8(11)) / 2 = (2.200985 + 0.875530) / 2.
  const DesignPower design = power_of_design({.unit_sd = 0.001}, 2);
  EXPECT_EQ(design.runs, 16);
  EXPECT_EQ(design.degrees_of_freedom, 11);
  EXPECT_NEAR(design.detectable, 0.001 * (2.200985160 + 0.875529978) / 2, 1e-9);
  EXPECT_TRUE(design.conclusive);
  // Eight resident blocks, df 6.
  const DesignPower blocks = power_of_design({.granularity = Granularity::kPrompt, .unit_sd = 0.001}, 8);
  EXPECT_EQ(blocks.degrees_of_freedom, 6);
  EXPECT_NEAR(blocks.detectable, 0.001 * (2.446911851 + 0.905703285) / std::sqrt(8.0), 1e-9);
}

TEST(Planning, TheSmallestDesignDetectsAndTheOneBeforeDoesNot) {
  for (const Granularity granularity : {Granularity::kRun, Granularity::kPrompt}) {
    for (const double effect : {0.01, 0.001, 0.0002}) {
      const DesignQuestion question{.granularity = granularity, .arms = 3, .unit_sd = 0.001};
      const std::optional<DesignPower> design = smallest_design(question, effect);
      ASSERT_TRUE(design.has_value());
      EXPECT_LE(design->detectable, effect);
      if (design->blocks == 1) continue;
      const DesignPower smaller = power_of_design(question, design->blocks - 1);
      EXPECT_TRUE(smaller.detectable > effect || !smaller.conclusive) << effect;
    }
  }
  EXPECT_FALSE(smallest_design({.unit_sd = 10}, 1e-6).has_value());
}

TEST(Planning, TheDetectableEffectIsDetectedAsOftenAsPromised) {
  // 80 % power: simulated experiments of that very effect.
  ClockModel model = clock_of(0.001, 0, 0);
  const DesignPower design = power_of_design({.unit_sd = 0.001}, 2);
  model.log_effects = {0, design.detectable};
  int shown = 0;
  constexpr int kRepetitions = 1000;
  for (std::uint64_t seed = 0; seed < kRepetitions; ++seed) {
    const SimulatedExperiment experiment = simulate(model, make_schedule(2, 2, seed), Granularity::kRun, 2, seed);
    shown +=
        *regress_runs(experiment.observations.runs, run_log_rates(experiment.observations), 2, 3).estimates[0].p_value <
                0.05
            ? 1
            : 0;
  }
  EXPECT_NEAR(shown / double{kRepetitions}, 0.8, 0.04);
}

TEST(Planning, RepetitionsByLevelOfKnownVariances) {
  // S = 9 (iterations, 10 a launch), 4.9 (launches, 5 a build), 2.98 (builds): T = 9, 4, 2. Costs 1, 16, 100:
  // r_1 = sqrt(16 * 9/4) = 6, r_2 = sqrt(100/16 * 4/2) = 3.54 -> 4.
  const std::vector<NestedLevel> levels = {{9, 10, 1}, {4.9, 5, 16}, {2.98, 3, 100}};
  EXPECT_EQ(repetitions_by_level(levels), (std::vector<int>{6, 4}));
  // Launches that add nothing: iterations are all there is to repeat; a level without variance is taken once.
  EXPECT_EQ(repetitions_by_level(std::vector<NestedLevel>{{9, 10, 1}, {0.9, 5, 16}}), (std::vector<int>{0}));
  EXPECT_EQ(repetitions_by_level(std::vector<NestedLevel>{{0, 10, 1}, {0.9, 5, 16}}), (std::vector<int>{1}));
  EXPECT_THROW((void)repetitions_by_level(std::vector<NestedLevel>{{9, 10, 1}}), Error);
}

}  // namespace
}  // namespace tare::stats
