// The tree of a verify, grown from the rows of a draft (DDTree, arXiv 2604.12989).
//
// Row d of a draft is about the d-th token after the anchor, and its rows are taken as independent: a path of
// candidates with ranks r_1 .. r_s then has the log-probability  sum over d of lp[d, r_d].  The most probable prefixes
// maximise the expected accepted length under that model, and they are closed under taking prefixes, since a longer
// path is never more probable.
#pragma once

#include <cstdint>
#include <limits>

#include "engine/backend/backend.h"
#include "engine/backend/option_words.h"
#include "engine/backend/token_tree.h"

namespace tare::engine {

struct TreeBudget {
  std::int64_t nodes = 1;                                              // the root included; at least 1
  std::int64_t candidates = std::numeric_limits<std::int64_t>::max();  // a row, at least 1; the draft may have fewer
  TreeGrowth growth = TreeGrowth::kBestFirst;
};

// best_first: the root and the nodes - 1 most probable prefixes, in falling order, equal ones by their ranks
// lexicographically; fewer when there are no more. chain_first: first the chain of rank 0, as far as rows and nodes go,
// then best-first. With one candidate a row both are the chain. A candidate of probability 0 is never taken.
// Work and memory grow with the nodes that there are, not with the budget.
// Throws Error (internal): a budget below 1; rows that do not fit their count, that are not sorted, or that hold NaN.
[[nodiscard]] TokenTree grow_tree(std::int32_t anchor, const DraftOutput& draft, const TreeBudget& budget);

}  // namespace tare::engine
