// The tokens of a verify pass. Node 0 is the root: the anchor, committed text that the caches do not hold yet. Every
// other node continues its parent, which has a lower number; a chain is the tree in which node n continues node n - 1.
// Node n stands at position F + depth(n) of the sequence; its row of logits is about the token after it, given the path
// from the root.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tare::engine {

class TokenTree {
 public:
  explicit TokenTree(std::int32_t anchor);
  // tokens[0] is the anchor. Throws Error (input) when there is none.
  [[nodiscard]] static TokenTree chain(std::span<const std::int32_t> tokens);

  // Returns the new node. Throws Error (internal) for a parent that does not exist. That siblings differ in their token
  // is the caller's business: of two that do not, acceptance takes the first.
  int add(int parent, std::int32_t token);

  [[nodiscard]] int size() const { return static_cast<int>(tokens_.size()); }
  [[nodiscard]] std::span<const std::int32_t> tokens() const { return tokens_; }
  [[nodiscard]] std::span<const std::int32_t> parents() const { return parents_; }  // -1 for the root
  [[nodiscard]] std::span<const std::int32_t> depths() const { return depths_; }    // 0 for the root
  [[nodiscard]] int deepest() const;
  [[nodiscard]] bool is_chain() const;
  // The child of `node` with this token, or -1.
  [[nodiscard]] int child(int node, std::int32_t token) const;
  // Nodes from the root to `node`, both included.
  [[nodiscard]] std::vector<std::int32_t> path_to(int node) const;

 private:
  std::vector<std::int32_t> tokens_, parents_, depths_;
};

// Throws Error (internal) unless `path` is a path of `tree` that starts at the root, or empty.
void check_path(const TokenTree& tree, std::span<const std::int32_t> path);

}  // namespace tare::engine
