// The order in which a verify takes the nodes of its tree, and where recurrent states lie meanwhile.
//
// A node's recurrence starts from its parent's state. That state is made once, together with the first child's read of
// it; further children only read. So a tree of N nodes costs N reads and a fold for every node that has children, never
// more than the N reads and N - 1 folds of a chain. The alternative, to fold a node's path again from the committed
// state, costs as many folds as the sum of all depths, which is more whenever two nodes share more than the root.
//
// All children of a node are taken before any grandchild, and the child whose subtree needs most comes last: then a
// state may be overwritten by that child's, and a tree of n inner nodes holds at most log2(n) + 1 states at a time, a
// chain one. They are a thread's, of one head, and stay in the cache near its core.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/backend/token_tree.h"

namespace tare::engine {

constexpr std::int32_t kNoNode = -1;
constexpr std::int32_t kCommittedPlace = -1;  // the state that the verify began with

struct TreeWalk {
  struct Node {
    std::int32_t parent = kNoNode;
    bool folds_parent = false;  // makes the parent's state: the first of its children in this order
    bool has_children = false;
    std::int32_t from = kCommittedPlace;   // where the parent's own parent's state lies; of a node that folds
    std::int32_t place = kCommittedPlace;  // where the parent's state lies, or is made
  };

  explicit TreeWalk(const TokenTree& tree);

  std::vector<std::int32_t> order;  // every node once, parents first; 0, 1, 2 ... of a chain
  std::vector<Node> nodes;
  std::int32_t places = 0;

  [[nodiscard]] std::int64_t size() const { return static_cast<std::int64_t>(nodes.size()); }
  [[nodiscard]] const Node& node(std::int64_t index) const { return nodes[static_cast<std::size_t>(index)]; }
  // Nodes from the root to `index`, both included, into `path`.
  void path_to(std::int64_t index, std::vector<std::int32_t>& path) const;
};

}  // namespace tare::engine
