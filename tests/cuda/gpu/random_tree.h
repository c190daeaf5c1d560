// Trees of tokens of all kinds, from a seed.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/philox.h"
#include "engine/backend/token_tree.h"
#include "tests/cuda/gpu/sanitized.h"

namespace tare::engine::test {

enum class TreeKind { kRandom, kDeep, kWide, kStar, kChain };
constexpr std::array<TreeKind, 5> kTreeKinds = {TreeKind::kRandom, TreeKind::kDeep, TreeKind::kWide, TreeKind::kStar,
                                                TreeKind::kChain};
// All, or the first `raced` under racecheck.
inline std::vector<TreeKind> tree_kinds(std::size_t raced) {
  const std::size_t kinds = amount("kinds of trees", kTreeKinds.size(), kTreeKinds.size(), raced);
  return {kTreeKinds.begin(), kTreeKinds.begin() + static_cast<std::ptrdiff_t>(kinds)};
}

// Tokens are below `vocab`, and siblings have different ones (while there are enough).
inline TokenTree random_tree(TreeKind kind, int nodes, std::uint64_t vocab, Philox& random) {
  const auto parent_of = [&](int node) -> int {
    const auto below = [&](int count) { return static_cast<int>(random.below(static_cast<std::uint64_t>(count))); };
    switch (kind) {
      case TreeKind::kRandom:
        return below(node);
      case TreeKind::kDeep:  // one of the last three, so paths interleave
        return node - 1 - below(std::min(node, 3));
      case TreeKind::kWide:
        return below(std::min(node, 4));
      case TreeKind::kStar:
        return 0;
      case TreeKind::kChain:
        return node - 1;
    }
    return 0;
  };
  TokenTree tree(static_cast<std::int32_t>(random.below(vocab)));
  for (int node = 1; node < nodes; ++node) {
    const int parent = parent_of(node);
    auto token = static_cast<std::int32_t>(random.below(vocab));
    while (tree.child(parent, token) >= 0) token = static_cast<std::int32_t>((token + 1) % static_cast<int>(vocab));
    tree.add(parent, token);
  }
  return tree;
}

// For messages: the parents.
inline std::string to_text(const TokenTree& tree) {
  std::string text = "parents";
  for (const std::int32_t parent : tree.parents()) {
    text += ' ';
    text += std::to_string(parent);
  }
  return text;
}

}  // namespace tare::engine::test
