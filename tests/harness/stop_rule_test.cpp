// When an experiment ends, on simulated clocks; and that the end is a function of the ledger.
#include "harness/analysis/stop_rule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/harness/analysed.h"

namespace tare::harness {
namespace {

SimulatedRun two_arms(const Json& stop, int blocks_measured) {
  SimulatedRun run;
  run.arms = {"a", "b"};
  run.blocks = 6;
  run.blocks_measured = blocks_measured;
  run.clock = restless_clock({0, 0.01});
  run.patch = {{"schedule", {{"stop", stop}}}};
  return run;
}

struct Asked {
  std::optional<StopRecord> stop;
  reports::Findings findings;  // after the stop was stored
};

Asked asked(const SimulatedRun& run) {
  const FreshFolder fresh;
  (void)write_simulated_ledger(run, fresh.path());
  const Experiment experiment = simulated_experiment(run);
  Asked result;
  {
    Ledger ledger = Ledger::open_for_writing(fresh.path() / kLedgerFile,
                                             {experiment_digest(experiment), to_json(experiment), experiment.name});
    result.stop = stop_now(experiment, ledger);
    EXPECT_EQ(stop_now(experiment, ledger).has_value(), result.stop.has_value());
    if (result.stop) {
      ledger.store_stop(*result.stop);
      EXPECT_THROW(ledger.store_stop(*result.stop), Error) << "an experiment ends once";
    }
  }
  result.findings = analyse(Ledger::open_for_reading(fresh.path() / kLedgerFile));
  return result;
}

const Json kFixed = {{"rule", "fixed"}};

Json precision(double percent) {
  return {{"rule", "precision"}, {"half_width_percent", percent}};
}

Json budget(double seconds) {
  return {{"rule", "time"}, {"budget_s", seconds}};
}

TEST(StopRule, FixedEndsWithTheLastBlockAlone) {
  EXPECT_FALSE(asked(two_arms(kFixed, 5)).stop);
  const Asked whole = asked(two_arms(kFixed, 6));
  ASSERT_TRUE(whole.stop);
  EXPECT_EQ(whole.stop->ended_by, "blocks");
  EXPECT_EQ(whole.stop->blocks, 6);
  EXPECT_TRUE(whole.findings.complete);
}

TEST(StopRule, PrecisionEndsWhereEveryIntervalIsNarrowEnough) {
  EXPECT_FALSE(asked(two_arms(precision(40), 1)).stop) << "one block is never enough";
  EXPECT_FALSE(asked(two_arms(precision(0.001), 3)).stop);
  const Asked enough = asked(two_arms(precision(5), 2));
  ASSERT_TRUE(enough.stop);
  EXPECT_EQ(enough.stop->rule, "precision");
  EXPECT_EQ(enough.stop->ended_by, "precision");
  ASSERT_TRUE(enough.stop->half_width_percent);
  EXPECT_LE(*enough.stop->half_width_percent, 5);
  const reports::Findings& findings = enough.findings;
  EXPECT_TRUE(findings.complete);
  EXPECT_FALSE(has_warning(findings.warnings, "incomplete"));
  EXPECT_EQ(findings.stop.ended_by, "precision");
  EXPECT_EQ(findings.stop.ended_blocks, 2U);
  EXPECT_EQ(findings.stop.most_blocks, 6U);
  // The width that it looked at is the width of the verdict's interval.
  const reports::Interval* interval = reports::verdict_interval(findings.effects.front());
  ASSERT_NE(interval, nullptr);
  EXPECT_NEAR(findings.stop.ended_half_width_percent,
              reports::percent_of_log((interval->high_log - interval->low_log) / 2), 1e-9);
}

TEST(StopRule, PrecisionThatIsNeverReachedEndsWithTheLastBlock) {
  const Asked whole = asked(two_arms(precision(0.001), 6));
  ASSERT_TRUE(whole.stop);
  EXPECT_EQ(whole.stop->ended_by, "blocks");
}

// Wherever the effect lies: a huge one ends nothing, none at all ends the same.
TEST(StopRule, PrecisionDoesNotLookAtTheEffect) {
  for (const double effect : {0.0, 0.5}) {
    SimulatedRun run = two_arms(precision(0.001), 3);
    run.clock.log_effects = {0, effect};
    EXPECT_FALSE(asked(run).stop) << effect;
    run.patch = {{"schedule", {{"stop", precision(5)}}}};
    EXPECT_TRUE(asked(run).stop) << effect;
  }
}

TEST(StopRule, PrecisionOfBlocksWaitsForAVerdict) {
  SimulatedRun run = two_arms(precision(40), 4);
  run.granularity = Granularity::kPrompt;
  EXPECT_FALSE(asked(run).stop);
  run.blocks_measured = 5;
  const Asked enough = asked(run);
  ASSERT_TRUE(enough.stop);
  EXPECT_EQ(enough.stop->ended_by, "precision");
}

TEST(StopRule, TimeEndsWhereTheNextBlockWouldNotFit) {
  const Asked first = asked(two_arms(budget(1e6), 1));
  EXPECT_FALSE(first.stop);
  const Asked spent = asked(two_arms(budget(1e-3), 1));
  ASSERT_TRUE(spent.stop) << "the first block is measured, whatever it takes";
  EXPECT_EQ(spent.stop->ended_by, "time");
  const double block = spent.stop->seconds;
  EXPECT_GT(block, 1);
  EXPECT_TRUE(spent.findings.complete);
  // Two and a half blocks: two are measured, the third would not end in time.
  EXPECT_FALSE(asked(two_arms(budget(2.5 * block), 1)).stop);
  const Asked two = asked(two_arms(budget(2.5 * block), 2));
  ASSERT_TRUE(two.stop);
  EXPECT_EQ(two.stop->blocks, 2);
  EXPECT_GT(two.stop->seconds, 1.5 * block);
  EXPECT_LT(two.stop->seconds, 2 * block) << "the warm-up belongs to the first";
}

TEST(StopRule, NothingMeasuredIsNoEnd) {
  const FreshFolder fresh;
  const SimulatedRun run = two_arms(budget(1), 0);
  (void)write_simulated_ledger(run, fresh.path());
  EXPECT_FALSE(stop_now(simulated_experiment(run), Ledger::open_for_reading(fresh.path() / kLedgerFile)));
}

// ---- sittings -------------------------------------------------------------------------------------------------------

TEST(Sittings, OfOneDirectoryAreShownAndPooled) {
  SimulatedRun run;
  run.arms = {"a", "b"};
  run.blocks = 6;
  run.blocks_per_sitting = 2;
  run.clock = restless_clock({0, 0.02});
  run.sitting_log_effects = {0.0, 0.02, -0.02};
  const reports::Findings findings = analysed(run).findings;
  ASSERT_TRUE(findings.validity.valid) << findings.validity.why_invalid;
  ASSERT_EQ(findings.sittings.size(), 3U);
  EXPECT_EQ(findings.sittings[2].blocks, 2U);
  ASSERT_EQ(findings.pooled.size(), 1U);
  const reports::PooledEffect& pooled = findings.pooled.front();
  ASSERT_EQ(pooled.sittings.size(), 3U);
  EXPECT_NEAR(pooled.sittings[1].interval.estimate_log, 0.04, 0.005);
  EXPECT_NEAR(pooled.sittings[2].interval.estimate_log, 0.00, 0.005);
  EXPECT_NEAR(pooled.between_sd_log, 0.02, 0.008);
  EXPECT_LT(pooled.heterogeneity_p, 1e-3);
  EXPECT_TRUE(pooled.conclusive);
  EXPECT_TRUE(reports::is_known(pooled.interval));
  // What the sittings disagree on is not hidden by pooling: the pooled interval is the wider one.
  const reports::Interval* verdict = reports::verdict_interval(findings.effects.front());
  EXPECT_GT(pooled.interval.high_log - pooled.interval.low_log, verdict->high_log - verdict->low_log);
}

TEST(Sittings, OneIsNotPooledAndFewBlocksAreSaid) {
  SimulatedRun run;
  run.arms = {"a", "b"};
  run.granularity = Granularity::kPrompt;
  run.blocks = 5;
  run.clock = restless_clock({0, 0.02});
  EXPECT_TRUE(analysed(run).findings.pooled.empty());
  run.blocks_per_sitting = 4;  // the second has one block
  const reports::Findings findings = analysed(run).findings;
  ASSERT_EQ(findings.pooled.size(), 1U);
  EXPECT_FALSE(reports::is_known(findings.pooled[0].interval));
  EXPECT_NE(findings.pooled[0].interval.why_missing, "");
  EXPECT_FALSE(reports::is_known(findings.pooled[0].sittings[1].interval));
}

// A curve of the machine is in one palindrome's estimates: such sittings are shown, and not pooled.
TEST(Sittings, OfOnePalindromeAreNotPooled) {
  SimulatedRun run;
  run.arms = {"a", "b", "c", "d", "e", "f"};
  run.blocks = 2;
  run.blocks_per_sitting = 1;
  run.clock = restless_clock({0, 0, 0, 0, 0, 0});
  const reports::Findings findings = analysed(run).findings;
  ASSERT_EQ(findings.pooled.size(), 5U);
  EXPECT_FALSE(reports::is_known(findings.pooled[0].interval));
  run.blocks = 4;
  run.blocks_per_sitting = 2;
  EXPECT_TRUE(reports::is_known(analysed(run).findings.pooled[0].interval));
}

}  // namespace
}  // namespace tare::harness
