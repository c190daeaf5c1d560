// How good drafts are after rollbacks, of any backend with a drafter.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/speculate/draft_tree.h"

namespace tare::engine::test {

// Walks `text` in rounds that commit at most `depth` nodes of a tree of 16: how many tokens a round could have
// committed, on average; 1 when no draft is ever right. `forgotten`: so many nodes of every commit are left out, a
// rollback gone wrong.
inline double tokens_within_reach(Backend& backend, std::span<const std::int32_t> prompt,
                                  std::span<const std::int32_t> text, std::size_t depth, std::size_t forgotten = 0) {
  constexpr std::int64_t kNodes = 16;
  constexpr std::int64_t kCandidates = 8;
  backend.reset();
  (void)backend.prefill(prompt);
  const std::int64_t ahead = backend.options().speculate.draft_tokens;
  std::int64_t within_reach = 0;
  std::int64_t rounds = 0;
  for (std::size_t at = 0; at + static_cast<std::size_t>(ahead) + 1 < text.size(); ++rounds) {
    const DraftOutput drafted =
        backend.draft({.anchor = text[at], .tokens = ahead, .candidates = kCandidates, .temperature = 1});
    const TokenTree tree = grow_tree(text[at], drafted, {.nodes = kNodes, .candidates = kCandidates});
    (void)backend.verify(tree, {.logits = false});
    std::vector<std::int32_t> path = {0};
    for (int child = tree.child(0, text[at + 1]); child >= 0; child = tree.child(child, text[at + path.size()])) {
      path.push_back(child);
    }
    within_reach += static_cast<std::int64_t>(path.size());
    path.resize(std::min(path.size(), depth));
    at += path.size();
    path.resize(path.size() - std::min(path.size(), forgotten));
    backend.commit(path);
  }
  return static_cast<double>(within_reach) / static_cast<double>(rounds);
}

}  // namespace tare::engine::test
