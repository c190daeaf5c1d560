#include "profiles/timeline/median_round.h"

#include <gtest/gtest.h>

#include "profiles/timeline/timeline.h"

namespace tare::profiles {
namespace {

// Spans 100, 900 and 300 ns; in each a product on the GPU before the norm before it ends.
const std::vector<std::vector<KernelRecord>> kRounds = {
    {{0, 0, 0, 1000, 1080}, {1, 0, 0, 1050, 1100}},
    {{0, 0, 0, 2000, 2500}, {1, 0, 0, 2400, 2900}},
    {{1, 0, 0, 3100, 3300}, {0, 0, 0, 3000, 3150}},
};
const std::vector<std::string> kNames = {"product", "norm"};
const std::vector<engine::LaunchRecord> kLaunches = {{"product q4", "layers.3.mlp.down_proj.weight", 1000, 0},
                                                     {"norm", "norm.weight", 0, 0}};

RecordLabel label_of(std::size_t round, std::size_t i) {
  return {static_cast<std::size_t>(kRounds[round][i].name), 0};
}

TEST(MedianRound, IsTheRoundOfMedianSpanWithItsLaunchesInOrder) {
  const RoundTable table = make_round_table(kRounds, kNames, kLaunches, label_of);
  const std::vector<RoundLaunch> round = median_round(table, kRounds, kNames, kLaunches, label_of);
  ASSERT_EQ(round.size(), 2U);
  EXPECT_EQ(table.rows.at(round[0].row).launch, "product q4");
  EXPECT_EQ(table.rows.at(round[1].row).launch, "norm");
  EXPECT_DOUBLE_EQ(round[0].begin_us, 0);
  EXPECT_DOUBLE_EQ(round[0].alone_us, 0);
  EXPECT_DOUBLE_EQ(round[0].end_us, 0.15);
  EXPECT_DOUBLE_EQ(round[1].begin_us, 0.1);
  EXPECT_DOUBLE_EQ(round[1].alone_us, 0.15) << "the product ended then";
  EXPECT_DOUBLE_EQ(round[1].end_us, 0.3);
}

TEST(MedianRound, LastPartsAddUpToTheBusyTimeOfThatRound) {
  const RoundTable table = make_round_table(kRounds, kNames, kLaunches, label_of);
  double sum = 0;
  for (const RoundLaunch& launch : median_round(table, kRounds, kNames, kLaunches, label_of))
    sum += launch.end_us - launch.alone_us;
  EXPECT_NEAR(sum, 1e-3 * static_cast<double>(make_timeline(kRounds[2]).busy_ns), 1e-12);
}

TEST(MedianRound, OfTwoIsTheShorterAndOfNoneIsNothing) {
  const std::vector<std::vector<KernelRecord>> two = {kRounds[1], kRounds[0]};
  const auto label = [&](std::size_t round, std::size_t i) {
    return RecordLabel{static_cast<std::size_t>(two[round][i].name), 0};
  };
  const RoundTable table = make_round_table(two, kNames, kLaunches, label);
  EXPECT_DOUBLE_EQ(median_round(table, two, kNames, kLaunches, label).back().end_us, 0.1);
  EXPECT_TRUE(median_round({}, {}, kNames, kLaunches, label).empty());
}

}  // namespace
}  // namespace tare::profiles
