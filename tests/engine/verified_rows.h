// Hidden states as a verify's head reads them: every node of the trees that the embedded model's drafter grows.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/speculate/draft_tree.h"
#include "tests/engine/cpu_fixture.h"
#include "tests/engine/embedded_model.h"

namespace tare::engine::test {

// Greedy decoding of `length` tokens a prompt in rounds of the backend's drafter and tree; `visit` gets every verify's
// hidden states [nodes, hidden_size] until it returns false.
inline void visit_verified_rows(Backend& backend, const std::vector<std::vector<std::int32_t>>& prompts,
                                std::size_t length, const std::function<bool(std::span<const float>)>& visit) {
  const EngineOptions::Speculate& speculate = backend.options().speculate;
  for (const std::vector<std::int32_t>& prompt : prompts) {
    backend.reset();
    std::int32_t anchor = greedy(backend.prefill(prompt));
    for (std::size_t produced = 1; produced < length;) {
      const DraftOutput draft = backend.draft({anchor, speculate.draft_tokens, speculate.candidates, 1});
      const TokenTree tree = grow_tree(anchor, draft, {.nodes = speculate.tree_nodes, .growth = speculate.growth});
      const VerifyOutput output = backend.verify(tree, {.logits = false, .hidden = true});
      if (!visit(output.hidden)) return;
      std::vector<std::int32_t> path;
      for (int node = 0; node >= 0;) {
        path.push_back(node);
        anchor = output.best[static_cast<std::size_t>(node)];
        node = tree.child(node, anchor);
      }
      produced += path.size();
      backend.commit(path);
    }
  }
}

}  // namespace tare::engine::test
