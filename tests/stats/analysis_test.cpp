#include "stats/analysis.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "stats/simulation.h"

namespace tare::stats {
namespace {

ClockModel clock_of(std::vector<double> effects) {
  ClockModel model;
  model.log_effects = std::move(effects);
  model.launch_sd = 0.001;
  return model;
}

bool has(const std::vector<Warning>& warnings, WarningCode code) {
  for (const Warning& warning : warnings) {
    if (warning.code == code) return true;
  }
  return false;
}

TEST(Analysis, ThreeArmsGiveThreeNamedIntervalsEach) {
  const SimulatedExperiment experiment =
      simulate(clock_of({0, 0.02, 0}), make_schedule(3, 2, 4), Granularity::kRun, 40, 1);
  const Analysis analysis = analyse(experiment.observations, {});
  ASSERT_EQ(analysis.comparisons.size(), 2U);
  EXPECT_EQ(analysis.run_log_rates.size(), 36U);
  ASSERT_TRUE(analysis.drift.has_value());
  EXPECT_EQ(analysis.drift->degree, 3);
  for (const ArmComparison& comparison : analysis.comparisons) {
    const double truth = experiment.suite_truth[static_cast<std::size_t>(comparison.arm)];
    EXPECT_TRUE(comparison.runs.interval->holds(truth));
    EXPECT_TRUE(comparison.two_way.interval->holds(truth));
    EXPECT_EQ(comparison.prompts.estimand, Estimand::kThesePromptsTheseLaunches);
    EXPECT_EQ(comparison.runs.estimand, Estimand::kThesePromptsAnyLaunch);
    EXPECT_EQ(comparison.two_way.estimand, Estimand::kPromptsLikeThese);
    EXPECT_EQ(comparison.prompt_log_ratios.size(), 40U);
    EXPECT_TRUE(comparison.pairs.has_value());
    EXPECT_NEAR(comparison.prompts.log_effect, comparison.runs.log_effect, 1e-4);
  }
  EXPECT_EQ(analysis.comparisons[0].verdict.verdict, Verdict::kBetter);
  EXPECT_EQ(analysis.comparisons[1].verdict.verdict, Verdict::kInconclusive);
  EXPECT_EQ(analysis.comparisons[1].verdict.family_size, 2);
}

TEST(Analysis, ResidentBlocksUseTheBlockAsUnit) {
  const SimulatedExperiment experiment =
      simulate(clock_of({0, -0.01}), make_resident_schedule(2, 8, 4), Granularity::kPrompt, 40, 1);
  const Analysis analysis = analyse(experiment.observations, {.granularity = Granularity::kPrompt});
  const ArmComparison& comparison = analysis.comparisons[0];
  EXPECT_EQ(comparison.runs.method, Method::kBlockEffects);
  EXPECT_EQ(*comparison.runs.degrees_of_freedom, 6);
  EXPECT_TRUE(comparison.runs.interval->holds(-0.01));
  EXPECT_EQ(comparison.verdict.verdict, Verdict::kWorse);
  EXPECT_FALSE(analysis.drift.has_value());
  EXPECT_FALSE(comparison.pairs.has_value());
}

TEST(Analysis, FourResidentBlocksAreInconclusive) {
  const SimulatedExperiment experiment =
      simulate(clock_of({0, -0.05}), make_resident_schedule(2, 4, 4), Granularity::kPrompt, 40, 1);
  const Analysis analysis = analyse(experiment.observations, {.granularity = Granularity::kPrompt});
  EXPECT_EQ(analysis.comparisons[0].verdict.verdict, Verdict::kInconclusive);
}

TEST(Analysis, WarnsOfOneBlockAndOfLaunchesThatDiffer) {
  ClockModel model = clock_of({0, 0});
  model.launch_sd = 0.01;
  const Analysis analysis = analyse(simulate(model, make_schedule(2, 1, 1), Granularity::kRun, 80, 3).observations, {});
  EXPECT_TRUE(has(analysis.warnings, WarningCode::kOneBlock));
  EXPECT_TRUE(has(analysis.comparisons[0].prompts.warnings, WarningCode::kLaunchSpreadDominates));
}

TEST(Analysis, WarnsOfPromptsThatReactDifferently) {
  ClockModel model = clock_of({0, 0});
  model.launch_sd = 0.0002;
  model.reaction_sd = 0.03;
  const Analysis analysis = analyse(simulate(model, make_schedule(2, 2, 1), Granularity::kRun, 80, 3).observations, {});
  EXPECT_TRUE(has(analysis.comparisons[0].runs.warnings, WarningCode::kPromptSpreadDominates));
}

TEST(Analysis, WarnsOfTextThatWasNotForced) {
  SimulatedExperiment experiment = simulate(clock_of({0, 0}), make_schedule(2, 1, 1), Granularity::kRun, 20, 1);
  EXPECT_FALSE(has(analyse(experiment.observations, {}).warnings, WarningCode::kTokensDiffer));
  experiment.observations.numerator[3] += 1;
  EXPECT_TRUE(has(analyse(experiment.observations, {}).warnings, WarningCode::kTokensDiffer));
  const Observations seconds =
      amount_observations(2, 20, experiment.observations.runs, experiment.observations.denominator);
  EXPECT_FALSE(has(analyse(seconds, {}).warnings, WarningCode::kTokensDiffer));
}

TEST(Analysis, OneRowMeasuresHaveARunLevelIntervalOnly) {
  // Peak memory: one number a run.
  Observations memory = amount_observations(2, 1, {}, {});
  for (const Slot& slot : make_schedule(2, 1, 1).slots) {
    memory.runs.push_back({.arm = slot.arm, .block = slot.block, .slot = slot.slot});
    memory.numerator.push_back(slot.arm == 0 ? 500e6 : 300e6);
    memory.denominator.push_back(1);
  }
  const Analysis analysis = analyse(memory, {.decision = {.direction = Direction::kLowerIsBetter}});
  const ArmComparison& comparison = analysis.comparisons[0];
  EXPECT_EQ(comparison.verdict.verdict, Verdict::kBetter);
  EXPECT_TRUE(has(comparison.runs.warnings, WarningCode::kDegenerate));
  EXPECT_FALSE(comparison.prompts.interval.has_value());
  EXPECT_FALSE(comparison.two_way.interval.has_value());
}

TEST(Analysis, SameBitsWhateverTheThreads) {
  const SimulatedExperiment experiment =
      simulate(clock_of({0, 0.01}), make_schedule(2, 2, 4), Granularity::kRun, 40, 1);
  const Analysis one = analyse(experiment.observations, {.threads = 1});
  const Analysis two = analyse(experiment.observations, {.threads = 2});
  EXPECT_EQ(one.comparisons[0].prompts.bca->low, two.comparisons[0].prompts.bca->low);
  EXPECT_EQ(one.comparisons[0].runs.interval->high, two.comparisons[0].runs.interval->high);
}

TEST(Analysis, RefusesWhatIsNotComparable) {
  Observations empty;
  EXPECT_THROW((void)analyse(empty, {}), Error);
  const SimulatedExperiment experiment = simulate(clock_of({0, 0}), make_schedule(2, 1, 1), Granularity::kRun, 20, 1);
  EXPECT_THROW((void)analyse(experiment.observations, {.level = 1.0}), Error);
  EXPECT_THROW((void)analyse(experiment.observations, {.drift_degree = -1}), Error);
}

}  // namespace
}  // namespace tare::stats
