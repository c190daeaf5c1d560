#include "engine/backend/token_tree.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace tare::engine {

TokenTree::TokenTree(std::int32_t anchor) : tokens_{anchor}, parents_{-1}, depths_{0} {}

TokenTree TokenTree::chain(std::span<const std::int32_t> tokens) {
  if (tokens.empty()) throw input_error("tokens", "there are none");
  TokenTree tree(tokens.front());
  for (const std::int32_t token : tokens.subspan(1)) tree.add(tree.size() - 1, token);
  return tree;
}

int TokenTree::add(int parent, std::int32_t token) {
  if (parent < 0 || parent >= size()) throw internal_error(fmt::format("node {} of a tree of {}", parent, size()));
  tokens_.push_back(token);
  parents_.push_back(parent);
  depths_.push_back(depths_[static_cast<std::size_t>(parent)] + 1);
  return size() - 1;
}

int TokenTree::deepest() const {
  return *std::max_element(depths_.begin(), depths_.end());
}

bool TokenTree::is_chain() const {
  return deepest() == size() - 1;
}

int TokenTree::child(int node, std::int32_t token) const {
  for (int n = node + 1; n < size(); ++n)
    if (parents_[static_cast<std::size_t>(n)] == node && tokens_[static_cast<std::size_t>(n)] == token) return n;
  return -1;
}

std::vector<std::int32_t> TokenTree::path_to(int node) const {
  std::vector<std::int32_t> path;
  for (int n = node; n >= 0; n = parents_[static_cast<std::size_t>(n)]) path.push_back(n);
  std::reverse(path.begin(), path.end());
  return path;
}

void check_path(const TokenTree& tree, std::span<const std::int32_t> path) {
  std::int32_t parent = -1;
  for (const std::int32_t node : path) {
    if (node < 0 || node >= tree.size() || tree.parents()[static_cast<std::size_t>(node)] != parent)
      throw internal_error(fmt::format("node {} does not continue node {} of the tree", node, parent));
    parent = node;
  }
}

}  // namespace tare::engine
