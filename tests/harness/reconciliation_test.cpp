// Reconciling and the launch audit on ledgers whose twins are made up, so that the truth is known.
#include "harness/analysis/reconciliation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <numeric>

#include "base/error.h"
#include "harness/experiment/launch_rules.h"
#include "tests/harness/analysed.h"
#include "tests/harness/ledger_rows.h"
#include "tests/harness/simulated_ledger.h"

namespace tare::harness {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::int64_t kBlocks = 5;
constexpr std::size_t kPrompts = 3;
constexpr std::int64_t kStallNs = 4'000'000;
constexpr double kRounds = 8;  // of a simulated walk

// A round of arm a: product 60, norm 20, gaps 5, host 10; arm b's product is "fast product" with 40. In microseconds.
struct Round {
  double product_us = 60;
  double norm_us = 20;
  double idle_us = 5;
  double host_us = 10;
  [[nodiscard]] double span_us() const { return product_us + norm_us + idle_us; }
  [[nodiscard]] double round_us() const { return span_us() + host_us; }
};

Round round_of(const std::string& arm) {
  Round round;
  if (arm == "b") round.product_us = 40;
  return round;
}

// Everything in block j takes so many times longer.
double slowness(std::int64_t block) {
  return block % 2 == 0 ? 1 : 1.7;
}

class Reconciling : public testing::Test {
 protected:
  Reconciling() {
    run_.arms = {"a", "b"};
    run_.granularity = Granularity::kPrompt;
    run_.blocks = kBlocks;
    run_.prompts = kPrompts;
    run_.clock.base_seconds = 0.05;
    run_.patch = {{"profile", {{"prompts", kPrompts}}}};
    run_.change_run = [this](const RunRecord& record, RunEnd& end) {
      for (PromptResult& result : end.prompts) {
        const double us = (round_of(record.arm).round_us() + more_in_timed_us_[record.arm]) * slowness(record.block);
        const std::int64_t round_ns = std::llround(1e3 * us);
        for (std::int64_t& ns : result.rounds.duration_ns) ns = round_ns;
        if (stalled_arm_ == record.arm) result.rounds.duration_ns[3] += kStallNs;
        result.decode_ns =
            std::accumulate(result.rounds.duration_ns.begin(), result.rounds.duration_ns.end(), std::int64_t{0});
        result.inner_ns = result.time_to_first_token_ns + result.decode_ns;
        result.outer_ns = result.inner_ns;
        result.natural_digest = natural_of_timed_(record, result.prompt_id);
      }
    };
  }

  // The ledger, with a twin of every arm in `twin_blocks`.
  void write(const std::vector<std::int64_t>& twin_blocks) {
    write_simulated_ledger(run_, fresh_.path());
    const Experiment experiment = simulated_experiment(run_);
    Ledger ledger = Ledger::open_for_writing(fresh_.path() / kLedgerFile,
                                             {experiment_digest(experiment), to_json(experiment), experiment.name});
    for (const std::int64_t block : twin_blocks)
      for (const Arm& arm : experiment.arms) ledger.store_profiles(profiles_of(ledger, arm.name, block));
  }

  [[nodiscard]] Gathered gathered() const { return gather(Ledger::open_for_reading(fresh_.path() / kLedgerFile)); }
  [[nodiscard]] reports::Findings findings() const {
    return analyse(Ledger::open_for_reading(fresh_.path() / kLedgerFile));
  }

  SimulatedRun run_;
  std::map<std::string, double> more_in_timed_us_;
  std::string stalled_arm_;  // one round of each of its timed walks takes kStallNs more
  std::function<std::string(const RunRecord&, const std::string& prompt)> natural_of_timed_ =
      [](const RunRecord&, const std::string& prompt) { return "natural of " + prompt; };
  std::function<void(const std::string& arm, std::int64_t block, ProfileRecord&)> change_twin_;

 private:
  FreshFolder fresh_;

  std::vector<ProfileRecord> profiles_of(Ledger& ledger, const std::string& arm, std::int64_t block) const {
    LaunchRecord launch;
    launch.sitting = 1;
    launch.arm = arm;
    launch.purpose = "profile";
    launch.block = block;
    launch.program = {"tare", "worker"};
    const std::int64_t id = ledger.begin_launch(launch);
    ledger.describe_launch(id, {{"weights", {{"format", "bf16"}}}, {"arm", arm}},
                           {{"version", "0.1.0"}, {"commit", "0123456789"}, {"dirty", false}}, "checkpoint", "m");
    const Round round = round_of(arm);
    const double slow = slowness(block);
    std::vector<ProfileRecord> profiles;
    for (std::size_t i = 0; i < kPrompts; ++i) {
      ProfileRecord profile;
      profile.launch_id = id;
      profile.position = static_cast<std::int64_t>(i);
      profile.prompt_id = "p" + std::to_string(i);
      profile.source = "kernels";
      profile.rounds = 8;
      profile.records = 40'000;
      profile.span_us = slow * round.span_us();
      profile.idle_us = slow * round.idle_us;
      profile.round_us = slow * round.round_us();
      const char* product = arm == "b" ? "fast product" : "product";
      profile.rows = {{{"kernel", "k1"}, {"launch", product}, {"part", "w"}, {"us", slow * round.product_us}},
                      {{"kernel", "norm"}, {"us", slow * round.norm_us}}};
      profile.natural_digest = "natural of " + profile.prompt_id;
      if (change_twin_) change_twin_(arm, block, profile);
      profiles.push_back(std::move(profile));
    }
    return profiles;
  }
};

TEST_F(Reconciling, ExplainsADifferenceByRowsIdleAndHost) {
  write({0, 1, 2, 3, 4});
  const Reconciliation result = reconcile(gathered());
  ASSERT_EQ(result.differences.size(), 1U);
  const ReconciledDifference& difference = result.differences[0];
  EXPECT_EQ(difference.prompts, 3);
  EXPECT_EQ(difference.cells, 15);
  const double slow = (3 + 2 * 1.7) / 5;
  EXPECT_NEAR(difference.timed.difference_us, -20 * slow, 1e-2);
  EXPECT_NEAR(difference.residual.difference_us, 0, 1e-2);
  EXPECT_EQ(difference.rows[0].what, "product -> fast product  w");
  EXPECT_NEAR(difference.rows[0].difference_us, -20 * slow, 1e-9);
  EXPECT_NEAR(difference.explained_share, 1, 1e-3);
  EXPECT_TRUE(difference.adds_up);
  EXPECT_FALSE(difference.stalled);
  const ReconciledArm& arm = result.arms[0];
  EXPECT_NEAR(arm.host_us, 10 * slow, 1e-9);
  EXPECT_NEAR(arm.residual_us, 0, 1e-2);
  EXPECT_EQ(arm.fault, "");
  const reports::Times times = times_of(result);
  EXPECT_NEAR(times.arms[0].timed_us, times.arms[0].busy_us + times.arms[0].idle_us + times.arms[0].host_us, 1e-9);
  EXPECT_NEAR(times.differences[0].residual.difference_us, difference.residual.difference_us, 1e-12);
}

// Twins of the fast blocks alone: the slow blocks' timed runs have no neighbours and stay out.
TEST_F(Reconciling, ComparesATwinWithTheTimedRunsOfItsOwnBlock) {
  write({0, 2, 4});
  const ReconciledDifference difference = reconcile(gathered()).differences.at(0);
  EXPECT_EQ(difference.cells, 9);
  EXPECT_NEAR(difference.timed.difference_us, -20, 1e-2);
  EXPECT_NEAR(difference.timed.baseline_us, 95, 1e-2);
  EXPECT_NEAR(difference.residual.difference_us, 0, 1e-2);
  EXPECT_NEAR(difference.residual.baseline_us, 0, 1e-2);
}

TEST_F(Reconciling, ComparesTwoArmsWhereBothHaveATwin) {
  change_twin_ = [](const std::string& arm, std::int64_t block, ProfileRecord& profile) {
    if (arm == "b" && block == 1) profile.fault = "the device was taken away";
  };
  write({0, 1});
  const Reconciliation result = reconcile(gathered());
  EXPECT_EQ(result.arms[0].cells, 6);
  EXPECT_EQ(result.arms[1].cells, 3) << "a fault in one block does not take the arm's other blocks";
  EXPECT_EQ(result.differences.at(0).cells, 3);
  EXPECT_NEAR(result.differences[0].timed.difference_us, -20, 1e-2);
}

TEST_F(Reconciling, NamesWhatTheTwinDoesOutsideOfKernelsHost) {
  change_twin_ = [](const std::string& arm, std::int64_t, ProfileRecord& profile) {
    if (arm == "b") profile.round_us += 30;
  };
  more_in_timed_us_["b"] = 30;
  write({0, 2});
  const ReconciledDifference difference = reconcile(gathered()).differences.at(0);
  EXPECT_NEAR(difference.timed.difference_us, 10, 1e-2);
  EXPECT_NEAR(difference.host.difference_us, 30, 1e-9);
  EXPECT_NEAR(difference.residual.difference_us, 0, 1e-2);
  EXPECT_TRUE(difference.adds_up);
}

TEST_F(Reconciling, SaysThatPartsDoNotAddUpWhenTheTimedRunDoesWhatItsTwinDoesNot) {
  more_in_timed_us_["b"] = 1.5;  // 7.5 % of the difference, 1.6 % of a round
  write({0, 2});
  const ReconciledDifference difference = reconcile(gathered()).differences.at(0);
  EXPECT_NEAR(difference.residual.difference_us, 1.5, 1e-2);
  EXPECT_FALSE(difference.adds_up);
  EXPECT_NEAR(difference.explained_share, 20 / 18.5, 1e-3);
}

TEST_F(Reconciling, TellsStalledRoundsOfTimedRunsApart) {
  stalled_arm_ = "b";
  write({0, 1, 2});
  const Reconciliation result = reconcile(gathered());
  const ReconciledDifference& difference = result.differences.at(0);
  const double stalls_us = 1e-3 * static_cast<double>(kStallNs) / kRounds;
  EXPECT_NEAR(difference.stalls.difference_us, stalls_us, 1e-2);
  EXPECT_NEAR(difference.residual.difference_us, 0, 1e-2);
  EXPECT_NEAR(difference.timed.difference_us, stalls_us - 20 * (2 + 1.7) / 3, 1e-2);
  EXPECT_TRUE(difference.adds_up);
  EXPECT_TRUE(difference.stalled) << "stalls are most of what was timed";
  EXPECT_NEAR(result.arms[1].stalls_us, stalls_us, 1e-2);
  EXPECT_NEAR(result.arms[0].stalls_us, 0, 1e-9);
  EXPECT_NEAR(times_of(result).differences[0].stalls.difference_us, stalls_us, 1e-2);
}

TEST_F(Reconciling, RefusesAnArmWhoseCollectorLostTooMuch) {
  change_twin_ = [](const std::string& arm, std::int64_t, ProfileRecord& profile) {
    if (arm == "b") profile.dropped = 5;  // of 40,000
    if (arm == "a") profile.invalid = 3;
  };
  write({0});
  const Reconciliation result = reconcile(gathered());
  EXPECT_THAT(result.arms[1].fault, HasSubstr("dropped 15 records and 0 have no valid times, of 120015"));
  EXPECT_THAT(result.arms[1].rows, IsEmpty());
  EXPECT_EQ(result.arms[0].fault, "") << "below the threshold";
  EXPECT_EQ(result.arms[0].invalid, 9);
  EXPECT_THAT(result.differences, IsEmpty());
  EXPECT_EQ(to_json(result).at("arms")[0].at("invalid"), 9);
}

TEST_F(Reconciling, ComparesWhatTheArmsWouldHaveEmitted) {
  natural_of_timed_ = [](const RunRecord& record, const std::string& prompt) {
    return "natural of " + prompt + (record.arm == "b" && prompt == "p1" ? ", another" : "");
  };
  change_twin_ = [](const std::string& arm, std::int64_t, ProfileRecord& profile) {
    if (arm == "b" && profile.prompt_id == "p1") profile.natural_digest += ", another";
  };
  write({0});
  const Reconciliation result = reconcile(gathered());
  EXPECT_EQ(result.differences.at(0).outputs_compared, 3);
  EXPECT_EQ(result.differences[0].outputs_equal, 2);
  EXPECT_EQ(result.arms[0].outputs_unsteady, 0);
  EXPECT_EQ(result.arms[1].outputs_unsteady, 0);
}

TEST_F(Reconciling, SeesThatATwinComputesSomethingElse) {
  change_twin_ = [](const std::string& arm, std::int64_t, ProfileRecord& profile) {
    if (arm == "b" && profile.prompt_id == "p2") profile.natural_digest = "noise";
  };
  write({0});
  const Reconciliation result = reconcile(gathered());
  EXPECT_EQ(result.arms[1].outputs_unsteady, 1);
  EXPECT_EQ(result.differences.at(0).outputs_equal, 2);
}

TEST_F(Reconciling, ComparesNoOutputsThatWorkersDoNotTell) {
  natural_of_timed_ = [](const RunRecord& record, const std::string& prompt) {
    return record.arm == "a" ? prompt : std::string();
  };
  change_twin_ = [](const std::string&, std::int64_t, ProfileRecord& profile) { profile.natural_digest.clear(); };
  write({0});
  EXPECT_EQ(reconcile(gathered()).differences.at(0).outputs_compared, 0);
}

// ---- the launch audit that an experiment states ----

class LaunchRules : public Reconciling {
 protected:
  void state(const char* arms) { run_.patch["arms"] = Json::parse(arms); }
};

TEST_F(LaunchRules, ThePathThatWasMeantIsValid) {
  state(R"([{"name": "a", "must_launch": ["product", "no*"], "must_not_launch": ["fast*"]},
            {"name": "b", "must_launch": ["*product"], "must_not_launch": ["product"]}])");
  write({0, 1});
  const reports::Findings result = findings();
  EXPECT_TRUE(result.validity.valid) << result.validity.why_invalid;
  EXPECT_FALSE(has_warning(result.warnings, "path_not_shown"));
}

TEST_F(LaunchRules, AnotherPathMakesTheExperimentInvalid) {
  state(R"([{"name": "a"}, {"name": "b", "must_launch": ["product"], "must_not_launch": ["fast*"]}])");
  write({0, 1});
  const reports::Findings result = findings();
  EXPECT_FALSE(result.validity.valid);
  EXPECT_THAT(result.validity.why_invalid, HasSubstr("arm 'b' did not launch 'product', which it must"));
  EXPECT_TRUE(has_warning(result.warnings, "other_path"));
  const Json verdict = verdict_json(result);
  EXPECT_EQ(verdict.at("experiment_verdict"), "invalid");
  EXPECT_THAT(verdict.dump(), HasSubstr("arm 'b' launched 'fast product', and must not launch 'fast*'"));
}

TEST_F(LaunchRules, OneBlockOnAnotherPathIsEnough) {
  state(R"([{"name": "a", "must_launch": ["norm"]}, {"name": "b"}])");
  change_twin_ = [](const std::string& arm, std::int64_t block, ProfileRecord& profile) {
    if (arm == "a" && block == 3) profile.rows.erase(1);
  };
  write({0, 1, 2, 3});
  EXPECT_THAT(findings().validity.why_invalid, HasSubstr("arm 'a' did not launch 'norm'"));
}

TEST_F(LaunchRules, AnArmThatCannotBeProfiledIsNotShownToBeWhatWasMeant) {
  state(R"([{"name": "a"}, {"name": "b", "must_launch": ["fast*"]}])");
  change_twin_ = [](const std::string& arm, std::int64_t, ProfileRecord& profile) {
    if (arm == "b") profile.rows = Json::array();
    if (arm == "b") profile.fault = "no CUPTI here";
  };
  write({0});
  EXPECT_THAT(findings().validity.why_invalid,
              testing::AllOf(HasSubstr("what arm 'b' launches is not known"), HasSubstr("no CUPTI here")));
}

TEST_F(LaunchRules, BeforeTheFirstTwinItIsOnlySaid) {
  state(R"([{"name": "a"}, {"name": "b", "must_launch": ["fast*"]}])");
  write({});
  const reports::Findings result = findings();
  EXPECT_TRUE(result.validity.valid) << result.validity.why_invalid;
  EXPECT_TRUE(has_warning(result.warnings, "path_not_shown"));
}

TEST(LaunchPatterns, MatchWholeNamesAndWhatStarsLeaveOpen) {
  EXPECT_TRUE(matches_pattern("gdn", "gdn"));
  EXPECT_FALSE(matches_pattern("gdn", "gdn chunk"));
  EXPECT_TRUE(matches_pattern("gdn*", "gdn chunk"));
  EXPECT_FALSE(matches_pattern("gdn*", "fast gdn"));
  EXPECT_TRUE(matches_pattern("*gdn", "fast gdn"));
  EXPECT_FALSE(matches_pattern("*gdn", "gdn chunk"));
  EXPECT_TRUE(matches_pattern("*gdn*", "fast gdn chunk"));
  EXPECT_FALSE(matches_pattern("*gdn*", "fast norm"));
  EXPECT_EQ(pattern_fault("*gdn*"), "");
  for (const char* bad : {"", "*", "**", "g*n", "***"}) EXPECT_NE(pattern_fault(bad), "") << bad;
}

TEST(LaunchPatterns, SayWhichRuleWasBroken) {
  Arm arm;
  arm.name = "q4";
  arm.must_launch = {"product q4*", "norm"};
  arm.must_not_launch = {"product q8", "*slow"};
  EXPECT_THAT(broken_launch_rules(arm, {"norm", "product q4 + activation"}), IsEmpty());
  EXPECT_THAT(
      broken_launch_rules(arm, {"product q8", "very slow"}),
      ElementsAre("arm 'q4' did not launch 'product q4*', which it must",
                  "arm 'q4' did not launch 'norm', which it must", "arm 'q4' launched 'product q8', which it must not",
                  "arm 'q4' launched 'very slow', and must not launch '*slow'"));
}

}  // namespace
}  // namespace tare::harness
