#include "engine/cuda/product/tile_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace tare::engine {
namespace {

struct Shape {
  std::int64_t rows;
  std::int64_t columns;
};
constexpr Shape kShapes[] = {{16384, 5120}, {5120, 6144}, {34816, 5120}, {5120, 17408}, {248320, 5120},
                             {300, 200},    {256, 64},    {1000, 1000},  {2560, 64}};
constexpr int kBlocks[] = {1, 7, 120, 128, 132, 264};

TEST(TilePlan, EveryPairHasOneOwnerAndRunsDifferByOneAtMost) {
  for (const Shape& shape : kShapes) {
    for (const int blocks : kBlocks) {
      const TilePlan plan = cut_tiles(shape.rows, shape.columns, blocks);
      int pair = 0;
      int least = plan.pairs();
      int most = 0;
      for (int block = 0; block < plan.grid; ++block) {
        ASSERT_EQ(plan.first_pair(block), pair);
        const int end = plan.first_pair(block + 1);
        for (; pair < end; ++pair) ASSERT_EQ(plan.owner(pair), block);
        least = std::min(least, end - plan.first_pair(block));
        most = std::max(most, end - plan.first_pair(block));
      }
      EXPECT_EQ(pair, plan.pairs());
      EXPECT_GE(least, 1);
      EXPECT_LE(most - least, 1);
    }
  }
}

// What the kernel writes (plane = block - first_block) and what the reader adds (planes 0 .. planes() - 1) are the
// same.
TEST(TilePlan, PlanesOfARowBlockAreThoseThatItsOwnersWrite) {
  for (const Shape& shape : kShapes) {
    for (const int blocks : kBlocks) {
      const TilePlan plan = cut_tiles(shape.rows, shape.columns, blocks);
      std::vector<std::vector<int>> written(static_cast<std::size_t>(plan.row_blocks));
      for (int block = 0; block < plan.grid; ++block) {
        const int last_row_block = (plan.first_pair(block + 1) - 1) / plan.pairs_a_row_block;
        for (int row_block = plan.first_pair(block) / plan.pairs_a_row_block; row_block <= last_row_block;
             ++row_block) {
          written[static_cast<std::size_t>(row_block)].push_back(block - plan.first_block(row_block));
        }
      }
      for (int row_block = 0; row_block < plan.row_blocks; ++row_block) {
        const std::vector<int>& planes = written[static_cast<std::size_t>(row_block)];
        ASSERT_EQ(static_cast<int>(planes.size()), plan.planes(row_block));
        for (std::size_t index = 0; index < planes.size(); ++index) ASSERT_EQ(planes[index], static_cast<int>(index));
        EXPECT_LE(plan.planes(row_block), plan.most_planes());
      }
    }
  }
}

}  // namespace
}  // namespace tare::engine
