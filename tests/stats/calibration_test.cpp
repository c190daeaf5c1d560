// The calibration in small: what docs/results/calibration records with 10,000 experiments a scenario, and that it would
// see a method that does not hold.
#include "stats/calibration.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/error.h"

namespace tare::stats {
namespace {

CalibrationScenario scenario_of(const std::string& name) {
  for (CalibrationScenario& scenario : calibration_scenarios())
    if (scenario.name == name) return scenario;
  throw internal_error("no scenario " + name);
}

TEST(Calibration, EveryClaimedScenarioHoldsWithinItsMonteCarloError) {
  // 400 experiments: one standard deviation is 1.1 %. Four of them around the band.
  constexpr double kSlack = 4 * 0.011;
  std::set<std::string> names;
  for (const CalibrationScenario& scenario : calibration_scenarios()) {
    EXPECT_TRUE(names.insert(scenario.name).second) << scenario.name;
    const CalibrationRow row = calibrate(scenario, {.experiments = 400, .resamples = 100});
    RecordProperty(scenario.name, std::to_string(row.verdict_holds));
    if (!row.claimed()) continue;
    EXPECT_GT(row.verdict_holds, kLeastCoverage - kSlack) << scenario.name;
    EXPECT_LT(row.verdict_holds, kMostCoverage + kSlack) << scenario.name;
    EXPECT_LT(row.false_claims, 0.05 + kSlack) << scenario.name;
  }
}

TEST(Calibration, SeesIntervalsThatAreTooNarrow) {
  // The positive control: launches that differ by 0.3 % make every interval fail that does not know launches.
  const CalibrationRow row = calibrate(scenario_of("launches 0.3 %, prompts 0 %"), {.experiments = 400});
  EXPECT_LT(row.prompts_hold, 0.40);
  EXPECT_LT(row.naive_holds, 0.40);
  EXPECT_GT(row.verdict_holds, 0.91);
  // And the verdict's own, where it is told beforehand that it does not hold.
  const CalibrationRow cubic = calibrate(scenario_of("cubic drift, 12 sd, 1 block"), {.experiments = 400});
  EXPECT_FALSE(cubic.claimed());
  EXPECT_LT(cubic.verdict_holds, 0.92);
  CalibrationRow claimed = cubic;
  claimed.outside.clear();
  EXPECT_FALSE(claimed.holds());
}

TEST(Calibration, TheNaiveIntervalIsRightWhereNothingBreaksIt) {
  const CalibrationRow row = calibrate(scenario_of("launches 0 %, prompts 0 %"), {.experiments = 400});
  EXPECT_GT(row.naive_holds, 0.91);
  EXPECT_GT(row.prompts_hold, 0.91);
}

TEST(Calibration, AnInjectedEffectIsRecoveredAndShown) {
  const CalibrationRow row =
      calibrate(scenario_of("injected 1 %, 2 blocks, linear drift"), {.experiments = 300, .resamples = 100});
  EXPECT_NEAR(row.recovered, 1, 0.01);
  EXPECT_EQ(row.difference_shown, 1);
  EXPECT_NEAR(row.true_percent, -1, 1e-9);
}

TEST(Calibration, TheSameTableForAnyNumberOfThreads) {
  const CalibrationScenario scenario = scenario_of("launches 0.1 %, prompts 0.3 %");
  const CalibrationRow one = calibrate(scenario, {.experiments = 50, .threads = 1});
  const CalibrationRow three = calibrate(scenario, {.experiments = 50, .threads = 3});
  EXPECT_EQ(one.verdict_holds, three.verdict_holds);
  EXPECT_EQ(one.half_width_percent, three.half_width_percent);
  EXPECT_EQ(one.recovered, three.recovered);
  EXPECT_NE(one.half_width_percent, calibrate(scenario, {.experiments = 50, .seed = 2}).half_width_percent);
  EXPECT_THROW((void)calibrate(scenario, {.experiments = 0}), Error);
}

}  // namespace
}  // namespace tare::stats
