#include "harness/analysis/profiled_rounds.h"

#include <gtest/gtest.h>

namespace tare::harness {
namespace {

const Json kRows = {{{"kernel", "a"}, {"launch", "product q4"}, {"part", "layers.*.mlp.down_proj.weight"}, {"us", 3}},
                    {{"kernel", "memset"}, {"us", 1}},
                    {{"kernel", "never in this round"}, {"us", 0}}};
const Json kRound = {{{"row", 1}, {"begin_us", 0}, {"alone_us", 0}, {"end_us", 1}},
                     {{"row", 0}, {"begin_us", 0.5}, {"alone_us", 1}, {"end_us", 2}},
                     {{"row", 0}, {"begin_us", 2.5}, {"alone_us", 2.5}, {"end_us", 4.5}}};

ProfileRecord profile(std::int64_t launch, std::int64_t position, const std::string& prompt, const Json& round) {
  ProfileRecord record;
  record.launch_id = launch;
  record.position = position;
  record.prompt_id = prompt;
  record.rows = kRows;
  record.round = round;
  return record;
}

struct ProfiledRounds : testing::Test {
  Gathered gathered;
  reports::Times times;

  void SetUp() override {
    for (const auto& [id, arm] : {std::pair{1, "q8"}, std::pair{2, "q4"}, std::pair{3, "q8"}}) {
      LaunchRecord launch;
      launch.id = id;
      launch.arm = arm;
      gathered.launches.push_back(launch);
    }
    times.arms.resize(2);
    times.arms[0].arm = "q8";
    times.arms[1].arm = "q4";
  }
};

TEST_F(ProfiledRounds, AreOfTheFirstPromptThatHasOne) {
  gathered.profiles = {profile(1, 1, "second", kRound), profile(1, 0, "first", nullptr), profile(3, 0, "first", kRound),
                       profile(2, 1, "second", kRound)};
  add_profiled_rounds(times, gathered);
  EXPECT_EQ(times.arms[0].round_of, "first");
  EXPECT_EQ(times.arms[1].round_of, "second");
  ASSERT_EQ(times.arms[0].round.size(), 2U) << "a row without a launch has no lane";
  EXPECT_EQ(times.arms[0].round[0].what, "product q4  layers.*.mlp.down_proj.weight");
  EXPECT_EQ(times.arms[0].round[0].part, "layers.*.mlp.down_proj.weight");
  ASSERT_EQ(times.arms[0].round[0].spans.size(), 2U);
  EXPECT_EQ(times.arms[0].round[0].spans[0].begin_us, 0.5);
  EXPECT_EQ(times.arms[0].round[0].spans[0].alone_us, 1);
  EXPECT_EQ(times.arms[0].round[0].spans[0].end_us, 2);
  EXPECT_EQ(times.arms[0].round[1].what, "memset");
}

TEST_F(ProfiledRounds, OfALedgerWithoutThemAreEmpty) {
  gathered.profiles = {profile(1, 0, "first", nullptr), profile(2, 0, "first", nullptr)};
  add_profiled_rounds(times, gathered);
  EXPECT_TRUE(times.arms[0].round.empty());
  EXPECT_EQ(times.arms[0].round_of, "");
}

TEST_F(ProfiledRounds, OfAnArmThatCannotBeReconciledAreLeftOut) {
  times.arms[0].fault = "lost records";
  gathered.profiles = {profile(1, 0, "first", kRound)};
  add_profiled_rounds(times, gathered);
  EXPECT_TRUE(times.arms[0].round.empty());
}

}  // namespace
}  // namespace tare::harness
