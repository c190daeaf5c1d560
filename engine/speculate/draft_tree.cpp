#include "engine/speculate/draft_tree.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "base/error.h"

namespace tare::engine {
namespace {

void check(const DraftOutput& draft, const TreeBudget& budget) {
  if (budget.nodes < 1 || budget.candidates < 1)
    throw internal_error(fmt::format("a tree of {} nodes, {} candidates a row", budget.nodes, budget.candidates));
  const auto size = static_cast<std::size_t>(draft.rows * draft.candidates);
  if (draft.rows < 0 || draft.candidates < 0 || draft.tokens.size() != size || draft.log_probabilities.size() != size)
    throw internal_error("a draft whose rows do not fit their count");
  for (std::int64_t row = 0; row < draft.rows; ++row) {
    const auto values = draft.log_probabilities.subspan(static_cast<std::size_t>(row * draft.candidates),
                                                        static_cast<std::size_t>(draft.candidates));
    if (std::any_of(values.begin(), values.end(), [](float value) { return std::isnan(value); }))
      throw internal_error(fmt::format("row {} of a draft holds NaN", row));
    if (!std::is_sorted(values.rbegin(), values.rend()))
      throw internal_error(fmt::format("row {} of a draft is not sorted", row));
  }
}

class Growth {
 public:
  Growth(std::int32_t anchor, const DraftOutput& draft, const TreeBudget& budget)
      : draft_(draft), budget_(budget), candidates_(std::min(budget.candidates, draft.candidates)), tree_(anchor) {}

  TokenTree run() {
    if (budget_.growth == TreeGrowth::kChainFirst) {
      take_chain();
    } else {
      push(0, 0);
    }
    while (!heap_.empty() && tree_.size() < budget_.nodes) {
      const Prefix prefix = pop();
      const int node = add(prefix);
      push(prefix.parent, prefix.rank + 1);
      push(node, 0);
    }
    return std::move(tree_);
  }

 private:
  // A prefix that may become a node: a node that is there, and the rank of the token after it.
  struct Prefix {
    double score;  // log-probability
    int parent;
    std::int64_t rank;
  };

  const DraftOutput& draft_;
  const TreeBudget& budget_;
  std::int64_t candidates_;
  TokenTree tree_;
  std::vector<double> scores_{0.0};     // of the tree's nodes
  std::vector<std::int64_t> ranks_{0};  // likewise; the root's means nothing
  std::vector<Prefix> heap_;

  [[nodiscard]] std::size_t index(std::int64_t depth, std::int64_t rank) const {
    return static_cast<std::size_t>((depth - 1) * draft_.candidates + rank);
  }

  [[nodiscard]] std::vector<std::int64_t> ranks_of(const Prefix& prefix) const {
    std::vector<std::int64_t> ranks = {prefix.rank};
    for (int node = prefix.parent; node > 0; node = tree_.parents()[static_cast<std::size_t>(node)])
      ranks.push_back(ranks_[static_cast<std::size_t>(node)]);
    std::reverse(ranks.begin(), ranks.end());
    return ranks;
  }

  // Whether `a` is taken after `b`.
  [[nodiscard]] bool is_later(const Prefix& a, const Prefix& b) const {
    if (a.score != b.score) return a.score < b.score;
    return ranks_of(b) < ranks_of(a);
  }

  // Nothing when there is none, or none of a probability above 0. A score is its parent's and one log-probability,
  // summed in double precision: the same number whichever way the prefix was reached.
  [[nodiscard]] std::optional<Prefix> prefix_after(int parent, std::int64_t rank) const {
    const std::int64_t depth = tree_.depths()[static_cast<std::size_t>(parent)] + 1;
    if (depth > draft_.rows || rank >= candidates_) return std::nullopt;
    const float log_probability = draft_.log_probabilities[index(depth, rank)];
    if (std::isinf(log_probability)) return std::nullopt;
    return Prefix{scores_[static_cast<std::size_t>(parent)] + static_cast<double>(log_probability), parent, rank};
  }

  // Every prefix is pushed once: by its elder sibling, or by its parent when it is the eldest.
  void push(int parent, std::int64_t rank) {
    const std::optional<Prefix> prefix = prefix_after(parent, rank);
    if (!prefix) return;
    heap_.push_back(*prefix);
    std::push_heap(heap_.begin(), heap_.end(), [this](const Prefix& a, const Prefix& b) { return is_later(a, b); });
  }

  Prefix pop() {
    std::pop_heap(heap_.begin(), heap_.end(), [this](const Prefix& a, const Prefix& b) { return is_later(a, b); });
    const Prefix prefix = heap_.back();
    heap_.pop_back();
    return prefix;
  }

  int add(const Prefix& prefix) {
    const std::int64_t depth = tree_.depths()[static_cast<std::size_t>(prefix.parent)] + 1;
    scores_.push_back(prefix.score);
    ranks_.push_back(prefix.rank);
    return tree_.add(prefix.parent, draft_.tokens[index(depth, prefix.rank)]);
  }

  void take_chain() {
    for (int last = 0; tree_.size() < budget_.nodes;) {
      const std::optional<Prefix> next = prefix_after(last, 0);
      if (!next) return;
      push(last, 1);
      last = add(*next);
    }
  }
};

}  // namespace

TokenTree grow_tree(std::int32_t anchor, const DraftOutput& draft, const TreeBudget& budget) {
  check(draft, budget);
  return Growth(anchor, draft, budget).run();
}

}  // namespace tare::engine
