// Several run directories side by side, on simulated clocks.
#include "harness/compare/compare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/harness/analysed.h"

namespace tare::harness {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class Compare : public testing::Test {
 protected:
  FreshFolder fresh_;
  int directories_ = 0;

  // Measured at another hour: other launches of the same experiment.
  static SimulatedRun base() {
    SimulatedRun run;
    run.arms = {"a", "b", "c"};
    run.blocks = 2;
    run.clock = restless_clock({0, 0.02, 0});
    return run;
  }
  std::filesystem::path write(SimulatedRun run) {
    ++directories_;
    run.clock_seed = 100 + static_cast<std::uint64_t>(directories_);
    run.begun_s = 3600 * directories_;
    const std::filesystem::path directory = fresh_.path() / ("run" + std::to_string(directories_));
    std::filesystem::create_directories(directory);
    (void)write_simulated_ledger(run, directory);
    return directory;
  }
  static std::string refusal(const std::vector<std::filesystem::path>& directories, ErrorKind kind) {
    try {
      (void)compare_runs(directories);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), kind) << error.what();
      return error.what();
    }
    return "not refused";
  }
};

TEST_F(Compare, PoolsRunsThatAgree) {
  const std::vector<std::filesystem::path> runs = {write(base()), write(base()), write(base())};
  const Comparison comparison = compare_runs(runs);
  EXPECT_EQ(comparison.baseline, "a");
  EXPECT_TRUE(comparison.differences.empty()) << comparison.differences.front().text;
  ASSERT_EQ(comparison.arms.size(), 2U);
  const ComparedArm& arm = comparison.arms[0];
  ASSERT_TRUE(arm.pooled);
  EXPECT_TRUE(arm.agree);
  EXPECT_EQ(arm.units.size(), 3U);
  EXPECT_TRUE(arm.pooled->estimate.conclusive);
  EXPECT_TRUE(arm.pooled->estimate.interval->holds(0.02)) << arm.pooled->estimate.log_effect;
  EXPECT_FALSE(arm.pooled->estimate.interval->holds(0));
  const std::string text = comparison_text(comparison);
  EXPECT_THAT(text, AllOf(HasSubstr("pooled over 3 sittings"), HasSubstr("they agree")));
  const Json json = to_json(comparison);
  EXPECT_EQ(json["arms"][0]["units"].size(), 3U);
  EXPECT_TRUE(json["arms"][0]["agree"]);
  EXPECT_TRUE(json["arms"][0]["pooled"]["between_sd_percent"].is_number());
}

TEST_F(Compare, SaysWhereRunsDisagree) {
  SimulatedRun other = base();
  other.sitting_log_effects = {0.05};  // of arm c, in its only sitting
  const Comparison comparison = compare_runs({write(base()), write(other), write(base())});
  EXPECT_TRUE(comparison.arms[0].agree);
  EXPECT_FALSE(comparison.arms[1].agree);
  EXPECT_GT(comparison.arms[1].pooled->between_sitting_sd, 0.015);
  EXPECT_THAT(comparison_text(comparison), HasSubstr("DISAGREE"));
}

TEST_F(Compare, TwoRunsArePooledWithoutAVerdict) {
  const Comparison comparison = compare_runs({write(base()), write(base())});
  ASSERT_TRUE(comparison.arms[0].pooled);
  EXPECT_FALSE(comparison.arms[0].pooled->estimate.conclusive);
  EXPECT_THAT(comparison_text(comparison), HasSubstr("too few for a verdict"));
}

TEST_F(Compare, SittingsOfADirectoryAreUnits) {
  SimulatedRun resumed = base();
  resumed.blocks = 4;
  resumed.blocks_per_sitting = 2;
  const Comparison comparison = compare_runs({write(resumed), write(resumed)});
  EXPECT_TRUE(comparison.directories[0].split);
  EXPECT_EQ(comparison.arms[0].units.size(), 4U);
  EXPECT_THAT(comparison.arms[0].units[1].name, HasSubstr(", sitting 2"));
}

TEST_F(Compare, NamesTheConditionsThatDiffer) {
  SimulatedRun other = base();
  other.gpus = {"0000:01:00.0"};
  other.change_gpu = [](GpuFacts& gpu) { gpu.driver_version = "580.65"; };
  other.change_launch = [](LaunchRecord& launch) { launch.checkpoint_digest = "another"; };
  other.change_sitting = [](SittingRecord& sitting) {
    sitting.harness_build = {{"version", "0.2.0"}, {"commit", "fedcba9876543210"}, {"dirty", false}};
  };
  const Comparison comparison = compare_runs({write(base()), write(other)});
  std::string texts;
  for (const ConditionDifference& difference : comparison.differences) texts += difference.text + "\n";
  EXPECT_THAT(texts, AllOf(HasSubstr("driver: not known in"), HasSubstr("580.65"), HasSubstr("checkpoint: "),
                           HasSubstr("another"), HasSubstr("harness: "), HasSubstr("0.2.0 fedcba9")));
  EXPECT_THAT(texts, testing::Not(HasSubstr("fedcba98")));
}

TEST_F(Compare, RefusesWhatDoesNotCompare) {
  const std::filesystem::path first = write(base());
  EXPECT_THAT(refusal({first}, ErrorKind::kInput), HasSubstr("at least two"));
  EXPECT_THAT(refusal({first, first}, ErrorKind::kInput), HasSubstr("holds the same runs"));
  EXPECT_THAT(refusal({first, fresh_.path() / "none"}, ErrorKind::kInput), HasSubstr("there is no ledger"));

  SimulatedRun texts = base();
  texts.change_texts = [](std::vector<TextRecord>& records) { records[3].tokens.back() += 1; };
  EXPECT_THAT(refusal({first, write(texts)}, ErrorKind::kInvalid), HasSubstr("replays other texts"));

  SimulatedRun resident = base();
  resident.granularity = Granularity::kPrompt;
  resident.blocks = 5;
  EXPECT_THAT(refusal({first, write(resident)}, ErrorKind::kInvalid), HasSubstr("granularity"));

  SimulatedRun baseline = base();
  baseline.arms = {"b", "a", "c"};
  EXPECT_THAT(refusal({first, write(baseline)}, ErrorKind::kInvalid), HasSubstr("has the baseline 'b'"));

  SimulatedRun options = base();
  options.patch = Json::parse(
      R"({"arms": [{"name": "a"}, {"name": "b", "options": {"weights": {"format": "q4"}}}, {"name": "c"}]})");
  EXPECT_THAT(refusal({first, write(options)}, ErrorKind::kInvalid), HasSubstr("arm 'b' has the options"));

  SimulatedRun strangers = base();
  strangers.arms = {"a", "x"};
  strangers.clock.log_effects = {0, 0};
  EXPECT_THAT(refusal({first, write(strangers)}, ErrorKind::kInvalid), HasSubstr("no arm in common"));

  SimulatedRun invalid = base();
  invalid.change_validations = [](std::vector<ValidationRecord>& records) { records[0].prompts_equal -= 1; };
  EXPECT_THAT(refusal({first, write(invalid)}, ErrorKind::kInvalid), HasSubstr("cannot be compared"));
}

TEST_F(Compare, LeavesOutAnArmThatOneRunAloneHas) {
  SimulatedRun more = base();
  more.arms = {"a", "b", "c", "d"};
  more.clock.log_effects = {0, 0.02, 0, 0};
  const Comparison comparison = compare_runs({write(base()), write(more)});
  EXPECT_EQ(comparison.arms.size(), 2U);
  EXPECT_THAT(comparison.arms_left_out, testing::ElementsAre("d"));
  ASSERT_EQ(comparison.differences.size(), 1U);
  EXPECT_EQ(comparison.differences[0].what, "experiment");
}

}  // namespace
}  // namespace tare::harness
