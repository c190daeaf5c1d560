#include "stats/contrasts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/error.h"
#include "base/philox.h"
#include "stats/schedule.h"
#include "stats/simulation.h"

namespace tare::stats {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;

// Weights format (q8, q4) x threads (1, 2) in the order of a full design.
const ArmLevels kTwoByTwo = {{0, 0}, {0, 1}, {1, 0}, {1, 1}};

// One run of every slot of a schedule with exact rates: log_effects per arm, a drift and small known residuals.
Observations observations_of(const Schedule& schedule, const std::vector<double>& log_effects, double noise) {
  std::vector<Run> runs;
  std::vector<double> tokens;
  std::vector<double> seconds;
  Philox random(7, 1);
  for (std::size_t i = 0; i < schedule.slots.size(); ++i) {
    const Slot& slot = schedule.slots[i];
    runs.push_back({.arm = slot.arm, .block = slot.block, .slot = slot.slot});
    const double position = static_cast<double>(i);
    const double residual = noise * random.normal();
    tokens.push_back(100);
    seconds.push_back(100 / std::exp(4 + log_effects[static_cast<std::size_t>(slot.arm)] + 1e-3 * position + residual));
  }
  return speed_observations(schedule.arms, 1, std::move(runs), std::move(tokens), std::move(seconds));
}

TEST(Contrasts, OfAFullDesignAverageOverTheOtherFactor) {
  const std::vector<FactorContrast> effects = factor_contrasts(kTwoByTwo);
  ASSERT_EQ(effects.size(), 2U);
  EXPECT_EQ(effects[0].factor, 0U);
  EXPECT_EQ(effects[0].level, 1U);
  EXPECT_EQ(effects[0].combinations, 2U);
  EXPECT_THAT(effects[0].weights, ElementsAre(-0.5, -0.5, 0.5, 0.5));
  EXPECT_THAT(effects[1].weights, ElementsAre(-0.5, 0.5, -0.5, 0.5));
  const std::vector<InteractionContrast> interactions = interaction_contrasts(kTwoByTwo);
  ASSERT_EQ(interactions.size(), 1U);
  EXPECT_THAT(interactions[0].weights, ElementsAre(1, -1, -1, 1));
}

TEST(Contrasts, OfOneFactorAtATimeAreSimpleEffectsWithoutInteractions) {
  const ArmLevels levels = {{0, 0}, {1, 0}, {2, 0}, {0, 1}};
  const std::vector<FactorContrast> effects = factor_contrasts(levels);
  ASSERT_EQ(effects.size(), 3U);
  EXPECT_THAT(effects[0].weights, ElementsAre(-1, 1, 0, 0));
  EXPECT_THAT(effects[2].weights, ElementsAre(-1, 0, 0, 1));
  EXPECT_EQ(effects[2].combinations, 1U);
  EXPECT_TRUE(interaction_contrasts(levels).empty());
}

TEST(Contrasts, OfAnIncompleteDesignMatchOnlyCellsThatAreThere) {
  // The cell (1, 1) is excluded; (2, .) is whole.
  const ArmLevels levels = {{0, 0}, {0, 1}, {1, 0}, {2, 0}, {2, 1}};
  const std::vector<FactorContrast> effects = factor_contrasts(levels);
  ASSERT_EQ(effects.size(), 3U);
  EXPECT_THAT(effects[0].weights, ElementsAre(-1, 0, 1, 0, 0));
  EXPECT_THAT(effects[1].weights, ElementsAre(-0.5, -0.5, 0, 0.5, 0.5));
  const std::vector<InteractionContrast> interactions = interaction_contrasts(levels);
  ASSERT_EQ(interactions.size(), 1U);
  EXPECT_EQ(interactions[0].level, 2U);
}

TEST(Contrasts, RefuseArmsWithTheSameLevels) {
  EXPECT_THROW((void)factor_contrasts({{0, 0}, {0, 0}}), Error);
}

TEST(Contrasts, RecoverFactorsAndTheirInteractionAtBothGranularities) {
  // q4 +5 %, two threads +60 %, together 3 % less than the sum.
  const std::vector<double> log_effects = {0, 0.60, 0.05, 0.62};
  for (const Granularity granularity : {Granularity::kRun, Granularity::kPrompt}) {
    const Schedule schedule =
        granularity == Granularity::kRun ? make_schedule(4, 2, 3) : make_resident_schedule(4, 8, 3);
    const Observations observations = observations_of(schedule, log_effects, 1e-3);
    AnalysisOptions options;
    options.granularity = granularity;
    options.resamples = 100;
    const Analysis analysis = analyse(observations, options);
    const auto estimate = [&](const std::vector<double>& weights) {
      return contrast_estimate(observations, analysis, granularity, weights);
    };
    const Estimate weights_format = estimate(factor_contrasts(kTwoByTwo)[0].weights);
    const Estimate threads = estimate(factor_contrasts(kTwoByTwo)[1].weights);
    const Estimate both = estimate(interaction_contrasts(kTwoByTwo)[0].weights);
    ASSERT_TRUE(weights_format.interval && threads.interval && both.interval);
    EXPECT_TRUE(weights_format.interval->holds(0.035)) << weights_format.log_effect;
    EXPECT_TRUE(threads.interval->holds(0.585)) << threads.log_effect;
    EXPECT_TRUE(both.interval->holds(-0.03)) << both.log_effect;
    EXPECT_FALSE(both.interval->holds(0)) << both.interval->low << " " << both.interval->high;
    EXPECT_TRUE(both.conclusive);
    if (granularity == Granularity::kRun) {  // twice the runs on either side of the difference
      EXPECT_NEAR(weights_format.standard_error * std::sqrt(2.0), analysis.comparisons[0].runs.standard_error,
                  0.02 * weights_format.standard_error);
    }
  }
}

TEST(Contrasts, OfOneArmAndTheBaselineAreTheArmsOwnEstimate) {
  const Observations observations = observations_of(make_schedule(3, 2, 5), {0, 0.01, 0.02}, 2e-3);
  AnalysisOptions options;
  options.resamples = 100;
  const Analysis analysis = analyse(observations, options);
  const std::vector<double> weights = {-1, 0, 1};
  const Estimate contrast = contrast_estimate(observations, analysis, Granularity::kRun, weights);
  EXPECT_THAT(contrast.log_effect, DoubleNear(analysis.comparisons[1].runs.log_effect, 1e-12));
  EXPECT_THAT(contrast.standard_error, DoubleNear(analysis.comparisons[1].runs.standard_error, 1e-12));
  EXPECT_THROW((void)contrast_estimate(observations, analysis, Granularity::kRun, std::vector<double>{0, 0, 1}), Error);
}

// Interaction 0: the share of intervals that hold it, launches and drift and all.
TEST(Contrasts, IntervalsOfInteractionsHoldTheTruth) {
  int held = 0;
  constexpr int kExperiments = 400;
  for (int experiment = 0; experiment < kExperiments; ++experiment) {
    ClockModel clock;
    clock.log_effects = {0, 0.1, 0.02, 0.12};
    clock.launch_sd = 0.003;
    clock.noise_sd = 0.005;
    clock.drift = DriftKind::kQuadratic;
    clock.drift_size = 0.02;
    const auto seed = static_cast<std::uint64_t>(experiment);
    const SimulatedExperiment simulated = simulate(clock, make_schedule(4, 2, seed), Granularity::kRun, 4, seed);
    AnalysisOptions options;
    options.resamples = 100;
    const Analysis analysis = analyse(simulated.observations, options);
    const Estimate estimate = contrast_estimate(simulated.observations, analysis, Granularity::kRun,
                                                interaction_contrasts(kTwoByTwo)[0].weights);
    held += estimate.interval->holds(0) ? 1 : 0;
  }
  EXPECT_GE(held, 364);  // 91 %; 95 expected, binomial sd 1.1
  EXPECT_LE(held, 394);
}

}  // namespace
}  // namespace tare::stats
