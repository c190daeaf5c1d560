// What a round's control says of a tree.
#include "engine/cuda/device/round_control.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/cuda/gpu/random_tree.h"

namespace tare::engine::test {
namespace {

TEST(RoundControl, IsMadeAsAChain) {
  const RoundControl made;
  RoundControl chain;
  Philox random(1);
  chain.set_tree(random_tree(TreeKind::kChain, kMostRoundTokens, 100, random));
  for (int node = 0; node < kMostRoundTokens; ++node) {
    EXPECT_EQ(made.parents[node], node - 1);
    EXPECT_EQ(made.parents[node], chain.parents[node]);
    EXPECT_EQ(made.depths[node], chain.depths[node]);
    EXPECT_EQ(made.ancestors[node], chain.ancestors[node]);
    EXPECT_EQ(made.path[node], node);
  }
  EXPECT_EQ(made.pending, 0);
}

TEST(RoundControl, HasABitForEveryNodeOfAPath) {
  Philox random(2);
  for (const TreeKind kind : kTreeKinds) {
    const TokenTree tree = random_tree(kind, kMostTreeNodes, 100, random);
    RoundControl control;
    control.set_tree(tree);
    for (int node = 0; node < tree.size(); ++node) {
      const std::vector<std::int32_t> path = tree.path_to(node);
      std::uint32_t bits = 0;
      for (const std::int32_t at : path) bits |= 1U << at;
      EXPECT_EQ(control.ancestors[node], bits) << "node " << node << " of " << to_text(tree);
      EXPECT_EQ(control.depths[node], static_cast<std::int32_t>(path.size()) - 1);
      EXPECT_EQ(control.tokens[node], tree.tokens()[static_cast<std::size_t>(node)]);
      EXPECT_EQ(control.parents[node], tree.parents()[static_cast<std::size_t>(node)]);
    }
    const std::vector<std::int32_t> path = tree.path_to(tree.size() - 1);
    control.set_path(path);
    EXPECT_EQ(control.pending, static_cast<std::int32_t>(path.size()));
    for (std::size_t i = 0; i < path.size(); ++i) EXPECT_EQ(control.path[i], path[i]);
  }
}

TEST(RoundControl, TakesNoMoreThanARoundHas) {
  Philox random(3);
  RoundControl control;
  EXPECT_THROW(control.set_tree(random_tree(TreeKind::kChain, kMostRoundTokens + 1, 100, random)), Error);
  EXPECT_THROW(control.set_path(std::vector<std::int32_t>(kMostRoundTokens + 1)), Error);
}

}  // namespace
}  // namespace tare::engine::test
