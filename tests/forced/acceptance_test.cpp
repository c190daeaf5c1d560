#include "forced/acceptance.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace tare::forced {
namespace {

// Two categories: one text of three rounds, and two texts of one and two.
std::vector<TextTally> tallies() {
  return {{"code", {{4, 16, 7, false}, {1, 16, 7, false}, {3, 16, 7, true}}},
          {"prose", {{2, 16, 7, false}}},
          {"prose", {{1, 16, 7, false}, {1, 16, 7, false}}},
          {"prose", {}}};
}

TEST(Acceptance, ThreeWeightingsOfTokensARound) {
  const Acceptance acceptance = measure_acceptance(tallies());
  EXPECT_EQ(acceptance.rounds, 6);
  EXPECT_EQ(acceptance.tokens, 12);
  EXPECT_EQ(acceptance.nodes, 96);
  EXPECT_EQ(acceptance.cut_rounds, 1);
  EXPECT_DOUBLE_EQ(acceptance.by_rounds, 12.0 / 6);
  EXPECT_DOUBLE_EQ(acceptance.by_texts, (8.0 / 3 + 2 + 1) / 3);
  EXPECT_DOUBLE_EQ(acceptance.by_categories, (8.0 / 3 + 4.0 / 3) / 2);
}

TEST(Acceptance, PositionsCountOnlyRoundsThatDecidedThem) {
  const Acceptance acceptance = measure_acceptance(tallies());
  ASSERT_EQ(acceptance.positions.size(), 7U);
  // The cut round accepted two and says nothing of the third.
  const auto expect = [&](std::size_t i, std::int64_t reached, std::int64_t tried, std::int64_t accepted) {
    EXPECT_EQ(acceptance.positions[i - 1].reached, reached) << i;
    EXPECT_EQ(acceptance.positions[i - 1].tried, tried) << i;
    EXPECT_EQ(acceptance.positions[i - 1].accepted, accepted) << i;
  };
  expect(1, 6, 6, 3);
  expect(2, 6, 3, 2);
  expect(3, 5, 1, 1);
  expect(4, 5, 1, 0);
  expect(5, 5, 0, 0);
  EXPECT_DOUBLE_EQ(acceptance.positions[1].share(), 2.0 / 6);
  EXPECT_DOUBLE_EQ(acceptance.positions[1].conditional(), 2.0 / 3);
  EXPECT_EQ(acceptance.positions[4].conditional(), 0);
}

TEST(Acceptance, NoRoundsAreNoNumbers) {
  const Acceptance acceptance = measure_acceptance({});
  EXPECT_EQ(acceptance.rounds, 0);
  EXPECT_EQ(acceptance.by_rounds, 0);
  EXPECT_TRUE(acceptance.positions.empty());
}

TEST(Acceptance, CountsThatCannotBeAreRefused) {
  for (const RoundTally& bad : {RoundTally{0, 1, 0, false}, RoundTally{3, 16, 1, false}, RoundTally{3, 2, 7, false}}) {
    const std::vector<TextTally> texts = {{"code", {bad}}};
    EXPECT_THROW((void)measure_acceptance(texts), Error);
  }
}

}  // namespace
}  // namespace tare::forced
