// The order in which a verify takes its nodes: every node finds its parent's state where the walk says it lies.
#include "engine/cpu/tree_walk.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <functional>
#include <random>

namespace tare::engine {
namespace {

constexpr std::int32_t kEmpty = -2;

// Runs the walk on names of states: a place holds the node after which its state is. Returns how many states it makes.
int folds_of(const TokenTree& tree, const TreeWalk& walk) {
  std::vector<std::int32_t> places(static_cast<std::size_t>(walk.places), kEmpty);
  std::vector<bool> taken(static_cast<std::size_t>(tree.size()), false);
  int folds = 0;
  const auto held = [&](std::int32_t place) {
    return place == kCommittedPlace ? kNoNode : places.at(static_cast<std::size_t>(place));
  };
  for (const std::int32_t index : walk.order) {
    const TreeWalk::Node& node = walk.node(index);
    EXPECT_FALSE(taken[static_cast<std::size_t>(index)]);
    taken[static_cast<std::size_t>(index)] = true;
    EXPECT_EQ(node.parent, tree.parents()[static_cast<std::size_t>(index)]);
    if (index == 0) continue;
    EXPECT_TRUE(taken[static_cast<std::size_t>(node.parent)]);  // its record is there
    if (node.folds_parent) {
      EXPECT_EQ(held(node.from), walk.node(node.parent).parent) << "node " << index;
      places.at(static_cast<std::size_t>(node.place)) = node.parent;
      ++folds;
    }
    EXPECT_EQ(held(node.place), node.parent) << "node " << index;
  }
  EXPECT_EQ(walk.order.size(), static_cast<std::size_t>(tree.size()));
  return folds;
}

int inner_nodes(const TokenTree& tree) {
  int count = 0;
  for (int node = 0; node < tree.size(); ++node)
    count += std::find(tree.parents().begin(), tree.parents().end(), node) != tree.parents().end() ? 1 : 0;
  return count;
}

TEST(TreeWalk, EveryNodeFindsItsParentsStateAndEachIsMadeOnce) {
  std::mt19937 generator(3);
  for (int round = 0; round < 300; ++round) {
    TokenTree tree(0);
    const int nodes = 1 + round % 70;
    const int reach = 1 + round % 9;  // 1: a chain, more: wider
    for (int node = 1; node < nodes; ++node)
      tree.add(std::uniform_int_distribution<int>(std::max(0, node - reach * reach), node - 1)(generator), node);
    const TreeWalk walk(tree);
    EXPECT_EQ(folds_of(tree, walk), inner_nodes(tree));
    const auto inner = static_cast<unsigned>(inner_nodes(tree));
    EXPECT_LE(walk.places, inner == 0 ? 0 : std::bit_width(inner)) << nodes << " nodes";
  }
}

TEST(TreeWalk, AChainIsTakenInOrderInOnePlaceAndSiblingsShareOne) {
  TokenTree chain(0);
  TokenTree siblings(0);
  std::vector<std::int32_t> numbers = {0};
  for (int node = 1; node < 20; ++node) {
    chain.add(node - 1, node);
    siblings.add(0, node);
    numbers.push_back(node);
  }
  EXPECT_EQ(TreeWalk(chain).order, numbers);
  EXPECT_EQ(TreeWalk(chain).places, 1);
  EXPECT_EQ(TreeWalk(siblings).places, 1);
  EXPECT_EQ(folds_of(siblings, TreeWalk(siblings)), 1);
}

// The worst tree for places: a full binary tree needs one more a level.
TEST(TreeWalk, AFullBinaryTreeNeedsAPlaceALevel) {
  TokenTree tree(0);
  for (int node = 1; node < 31; ++node) tree.add((node - 1) / 2, node);
  EXPECT_EQ(TreeWalk(tree).places, 4);
  std::vector<std::int32_t> path;
  TreeWalk(tree).path_to(22, path);
  EXPECT_THAT(path, testing::ElementsAre(0, 1, 4, 10, 22));
}

}  // namespace
}  // namespace tare::engine
