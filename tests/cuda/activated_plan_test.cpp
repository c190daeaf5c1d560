// The order of gate's and up's rows in one matrix, and the cut of their product among thread blocks.
#include "engine/cuda/product/activated_plan.h"

#include <gtest/gtest.h>

#include <set>

#include "engine/cuda/product/gate_up_rows.h"

namespace tare::engine {
namespace {

TEST(GateUpRows, AlternateByEightsAndTheRestByWhatIsLeft) {
  // 19 rows of each: 8 and 8, 8 and 8, 3 and 3.
  EXPECT_EQ(gate_place(7), 7);
  EXPECT_EQ(up_place(0, 19), 8);
  EXPECT_EQ(gate_place(8), 16);
  EXPECT_EQ(up_place(15, 19), 31);
  EXPECT_EQ(gate_place(18), 34);
  EXPECT_EQ(up_place(16, 19), 35);
  EXPECT_EQ(up_place(18, 19), 37);
}

TEST(GateUpRows, EveryPlaceHasOneRow) {
  for (const std::int64_t size : {1, 7, 8, 9, 16, 19, 331}) {
    std::set<std::int64_t> places;
    for (std::int64_t column = 0; column < size; ++column) {
      EXPECT_EQ(stacked_row(gate_place(column), size), column) << size;
      EXPECT_EQ(stacked_row(up_place(column, size), size), size + column) << size;
      places.insert({gate_place(column), up_place(column, size)});
    }
    EXPECT_EQ(std::ssize(places), 2 * size);
    EXPECT_EQ(*places.rbegin(), 2 * size - 1);
  }
}

// A tile's lane has rows g and g + 8: a gate row and its up row.
TEST(GateUpRows, AreEightApart) {
  for (std::int64_t column = 0; column < 64; ++column) {
    EXPECT_EQ(up_place(column, 64), gate_place(column) + 8);
    EXPECT_LT(gate_place(column) % 16, 8);
  }
}

TEST(ActivatedPlan, GivesEveryPairOfUnitsToOneBlock) {
  const auto plan = activated_plan(34816, 5120, 132);
  ASSERT_TRUE(plan.has_value());
  EXPECT_EQ(plan->clusters, 132);
  EXPECT_EQ(plan->blocks(), 264);
  EXPECT_EQ(plan->shared.row_blocks, 4);
  EXPECT_EQ(plan->shared.grid, 160);
  EXPECT_EQ(activated_own_first(plan->shared, 0), 0);
  EXPECT_EQ(activated_own_first(plan->shared, 1), activated_own_pairs(plan->shared, 0));
  EXPECT_EQ(activated_own_pairs(plan->shared, 0) + activated_own_pairs(plan->shared, 1), 40);
  int shared = 0;
  for (int block = 0; block < plan->shared.grid; ++block) {
    EXPECT_GE(plan->shared.first_pair(block + 1), plan->shared.first_pair(block) + 1) << "an empty part has no plane";
    shared += plan->shared.first_pair(block + 1) - plan->shared.first_pair(block);
  }
  EXPECT_EQ(shared, 160);
}

TEST(ActivatedPlan, OddPairsGoToTheSecondBlock) {
  const auto plan = activated_plan(256 * 4, 5 * 128, 4);
  ASSERT_TRUE(plan.has_value());
  EXPECT_EQ(plan->shared.row_blocks, 0);
  EXPECT_EQ(activated_own_pairs(plan->shared, 0), 2);
  EXPECT_EQ(activated_own_pairs(plan->shared, 1), 3);
}

TEST(ActivatedPlan, IsNothingWhereRowBlocksDoNotComeOutEvenly) {
  EXPECT_FALSE(activated_plan(7168, 1024, 132).has_value()) << "fewer row blocks than multiprocessors";
  EXPECT_FALSE(activated_plan(34816, 5120, 114).has_value()) << "22 of them left over";
  EXPECT_FALSE(activated_plan(34816, 5120, 131).has_value()) << "five, one too many";
  EXPECT_FALSE(activated_plan(34816 - 4, 5120, 132).has_value()) << "a last run of six";
  EXPECT_FALSE(activated_plan(34816, 128, 132).has_value()) << "one pair of units cannot be halved";
}

}  // namespace
}  // namespace tare::engine
