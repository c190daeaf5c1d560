// What changes from round to round, in device memory, so that one graph serves all rounds of a width.
//
// Token n of a pass is node n of a tree of tokens (engine/backend/token_tree.h). It stands at position
// frontier + depths[n], its key and value in slot frontier + n of the caches, its record in slot n. As made, a control
// holds a chain.
//
// Recurrent layers keep a verify's inputs as records in one of two halves; verify number n writes half n % 2. A commit
// of a path only says which: the next pass first folds the records path[0 .. pending - 1] of the other half into the
// state. A pass that folds leaves state, columns and records such that a second pass with pending 0 goes on correctly.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace tare::engine {

class TokenTree;

constexpr int kMostRoundTokens = 32;
constexpr int kMostTreeNodes = 16;  // of a tree that is no chain

struct RoundControl {
  std::int32_t tokens[kMostRoundTokens] = {};
  std::int32_t parents[kMostRoundTokens];     // of each node; -1 of the root
  std::int32_t depths[kMostRoundTokens];      // 0 of the root
  std::uint32_t ancestors[kMostRoundTokens];  // bit j of node n: j is n or an ancestor of n
  std::int32_t path[kMostRoundTokens];        // nodes of the last verify that were committed, from its root on
  std::int32_t frontier = 0;                  // the root's position
  std::int32_t pending = 0;                   // nodes of `path` whose records are not in the state yet
  std::int32_t half = 0;                      // of the records, the half that this pass writes

  constexpr RoundControl() {
    for (std::int32_t node = 0; node < kMostRoundTokens; ++node) {
      parents[node] = node - 1;
      depths[node] = node;
      ancestors[node] = ~0U >> (kMostRoundTokens - 1 - node);
      path[node] = node;
    }
  }
  // Throws Error (internal) for more than kMostRoundTokens nodes.
  void set_tree(const TokenTree& tree);
  void set_path(std::span<const std::int32_t> nodes);
};

// Weights that a latency-bound kernel's extra blocks pull into L2 while the others compute.
struct L2Fill {
  const std::byte* data = nullptr;
  std::int64_t bytes = 0;  // 0: no fill, no extra blocks
  int blocks = 0;
};

}  // namespace tare::engine
