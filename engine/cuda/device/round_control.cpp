#include "engine/cuda/device/round_control.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "engine/backend/token_tree.h"

namespace tare::engine {

void RoundControl::set_tree(const TokenTree& tree) {
  if (tree.size() > kMostRoundTokens) throw internal_error(fmt::format("a round of {} tokens", tree.size()));
  for (int node = 0; node < tree.size(); ++node) {
    const auto at = static_cast<std::size_t>(node);
    tokens[node] = tree.tokens()[at];
    parents[node] = tree.parents()[at];
    depths[node] = tree.depths()[at];
    ancestors[node] = 1U << node | (parents[node] < 0 ? 0U : ancestors[parents[node]]);
  }
}

void RoundControl::set_path(std::span<const std::int32_t> nodes) {
  if (nodes.size() > kMostRoundTokens) throw internal_error(fmt::format("a path of {} nodes", nodes.size()));
  std::copy(nodes.begin(), nodes.end(), path);
  pending = static_cast<std::int32_t>(nodes.size());
}

}  // namespace tare::engine
