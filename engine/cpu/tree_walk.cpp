#include "engine/cpu/tree_walk.h"

#include <algorithm>

namespace tare::engine {
namespace {

// Children of every node, in the order in which their subtrees are taken, and how many places every inner node's
// subtree needs, its own state included.
struct Subtrees {
  std::vector<std::vector<std::int32_t>> children;
  std::vector<std::int32_t> needs;
};

Subtrees subtrees_of(std::span<const std::int32_t> parents) {
  Subtrees result{std::vector<std::vector<std::int32_t>>(parents.size()), std::vector<std::int32_t>(parents.size())};
  for (std::size_t node = 1; node < parents.size(); ++node)
    result.children[static_cast<std::size_t>(parents[node])].push_back(static_cast<std::int32_t>(node));
  const auto need = [&](std::int32_t node) { return result.needs[static_cast<std::size_t>(node)]; };
  for (std::size_t node = parents.size(); node-- > 0;) {  // children have higher numbers
    std::vector<std::int32_t>& children = result.children[node];
    if (children.empty()) continue;
    std::stable_sort(children.begin(), children.end(),
                     [&](std::int32_t a, std::int32_t b) { return need(a) < need(b); });
    std::int32_t most = std::max(need(children.back()), 1);  // in the place of this node's state
    if (children.size() > 1) most = std::max(most, need(children[children.size() - 2]) + 1);
    result.needs[node] = most;
  }
  return result;
}

}  // namespace

TreeWalk::TreeWalk(const TokenTree& tree) : nodes(tree.parents().size()) {
  const Subtrees subtrees = subtrees_of(tree.parents());
  for (std::size_t node = 0; node < nodes.size(); ++node) {
    nodes[node].parent = tree.parents()[node];
    nodes[node].has_children = !subtrees.children[node].empty();
  }
  order.reserve(nodes.size());
  order.push_back(0);
  // Inner nodes whose children are to be taken: their state is made at `place` from the one at `from`; places from
  // `free` on hold nothing that is still needed.
  struct Pending {
    std::int32_t node, from, place, free;
  };
  std::vector<Pending> pending;
  if (nodes[0].has_children) pending.push_back({0, kCommittedPlace, 0, 1});
  while (!pending.empty()) {
    const Pending now = pending.back();
    pending.pop_back();
    places = std::max(places, now.place + 1);
    const std::vector<std::int32_t>& children = subtrees.children[static_cast<std::size_t>(now.node)];
    for (const std::int32_t child : children) {
      Node& node = nodes[static_cast<std::size_t>(child)];
      node.folds_parent = child == children.front();
      node.from = now.from;
      node.place = now.place;
      order.push_back(child);
    }
    // The last one is pushed first: it is taken when the others are done with this node's state.
    for (std::size_t i = children.size(); i-- > 0;) {
      const bool last = i + 1 == children.size();
      if (!nodes[static_cast<std::size_t>(children[i])].has_children) continue;
      pending.push_back({children[i], now.place, last ? now.place : now.free, last ? now.free : now.free + 1});
    }
  }
}

void TreeWalk::path_to(std::int64_t index, std::vector<std::int32_t>& path) const {
  path.clear();
  for (std::int64_t at = index; at != kNoNode; at = node(at).parent) path.push_back(static_cast<std::int32_t>(at));
  std::reverse(path.begin(), path.end());
}

}  // namespace tare::engine
