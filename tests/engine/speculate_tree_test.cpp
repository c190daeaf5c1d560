// Trees grown from drafts: the worked example, the oracle of all prefixes, budgets at their ends.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <vector>

#include "base/error.h"
#include "base/philox.h"
#include "engine/speculate/draft_tree.h"

namespace tare::engine {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// A draft whose token of rank r at depth d is 100 d + r.
struct Draft {
  explicit Draft(const std::vector<std::vector<double>>& probabilities)
      : rows(static_cast<std::int64_t>(probabilities.size())),
        candidates(static_cast<std::int64_t>(probabilities.front().size())) {
    for (std::size_t row = 0; row < probabilities.size(); ++row)
      for (std::size_t rank = 0; rank < probabilities[row].size(); ++rank) {
        tokens.push_back(static_cast<std::int32_t>(100 * (row + 1) + rank));
        log_probabilities.push_back(static_cast<float>(std::log(probabilities[row][rank])));
      }
  }
  [[nodiscard]] DraftOutput output() const { return {rows, candidates, tokens, log_probabilities}; }
  // Ranks of the path to a node.
  [[nodiscard]] std::vector<int> ranks(const TokenTree& tree, int node) const {
    std::vector<int> result;
    for (const std::int32_t step : tree.path_to(node))
      if (step > 0) result.push_back(tree.tokens()[static_cast<std::size_t>(step)] % 100);
    return result;
  }
  [[nodiscard]] double score(const std::vector<int>& prefix) const {
    double sum = 0;
    for (std::size_t row = 0; row < prefix.size(); ++row)
      sum += static_cast<double>(
          log_probabilities[row * static_cast<std::size_t>(candidates) + static_cast<std::size_t>(prefix[row])]);
    return sum;
  }

  std::int64_t rows;
  std::int64_t candidates;
  std::vector<std::int32_t> tokens;
  std::vector<float> log_probabilities;
};

// Falling probabilities of `candidates` of a row, random but with some equal ones.
Draft random_draft(std::uint64_t seed, std::size_t rows, std::size_t candidates) {
  const Philox numbers(seed, 7);
  std::uint64_t at = 0;
  std::vector<std::vector<double>> probabilities(rows);
  for (std::vector<double>& row : probabilities) {
    for (std::size_t i = 0; i < candidates; ++i) row.push_back(std::exp2(-std::floor(8 * numbers.uniform_at(at++))));
    double sum = 0.1;
    for (const double value : row) sum += value;
    for (double& value : row) value /= sum;
    std::sort(row.rbegin(), row.rend());
  }
  return Draft(probabilities);
}

// All prefixes of a draft, in the order in which they should be taken.
std::vector<std::vector<int>> all_prefixes(const Draft& draft) {
  std::vector<std::vector<int>> prefixes;
  std::vector<std::vector<int>> last = {{}};
  for (std::int64_t row = 0; row < draft.rows; ++row) {
    std::vector<std::vector<int>> next;
    for (const std::vector<int>& prefix : last)
      for (int rank = 0; rank < draft.candidates; ++rank) {
        next.push_back(prefix);
        next.back().push_back(rank);
      }
    prefixes.insert(prefixes.end(), next.begin(), next.end());
    last = std::move(next);
  }
  std::sort(prefixes.begin(), prefixes.end(), [&draft](const std::vector<int>& a, const std::vector<int>& b) {
    const double score_a = draft.score(a);
    const double score_b = draft.score(b);
    return score_a != score_b ? score_a > score_b : a < b;
  });
  return prefixes;
}

std::vector<std::vector<int>> taken(const Draft& draft, const TokenTree& tree) {
  std::vector<std::vector<int>> prefixes;
  for (int node = 1; node < tree.size(); ++node) prefixes.push_back(draft.ranks(tree, node));
  return prefixes;
}

const std::vector<std::vector<double>> kExample = {{.6, .3, .1}, {.55, .35, .1}, {.72, .18, .1}};

TEST(DraftTree, TheWorkedExampleBestFirst) {
  const Draft draft(kExample);
  const TokenTree tree = grow_tree(9, draft.output(), {.nodes = 8});
  EXPECT_THAT(tree.tokens(), ElementsAre(9, 100, 200, 101, 300, 201, 200, 300));
  EXPECT_THAT(tree.parents(), ElementsAre(-1, 0, 1, 0, 2, 1, 3, 5));
  EXPECT_THAT(tree.depths(), ElementsAre(0, 1, 2, 1, 3, 2, 2, 3));
}

TEST(DraftTree, TheWorkedExampleChainFirst) {
  const Draft draft(kExample);
  const TokenTree tree = grow_tree(9, draft.output(), {.nodes = 8, .growth = TreeGrowth::kChainFirst});
  EXPECT_THAT(tree.tokens(), ElementsAre(9, 100, 200, 300, 101, 201, 200, 300));
  EXPECT_THAT(tree.parents(), ElementsAre(-1, 0, 1, 2, 0, 1, 4, 5));
}

TEST(DraftTree, BestFirstTakesTheMostProbablePrefixesInOrder) {
  std::size_t ties = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const Draft draft = random_draft(seed, 1 + seed % 5, 1 + seed % 4);
    const std::vector<std::vector<int>> expected = all_prefixes(draft);
    for (std::size_t i = 1; i < expected.size(); ++i) ties += draft.score(expected[i - 1]) == draft.score(expected[i]);
    for (const std::size_t nodes : {std::size_t{1}, std::size_t{2}, std::size_t{9}, expected.size() + 1}) {
      const TokenTree tree = grow_tree(0, draft.output(), {.nodes = static_cast<std::int64_t>(nodes)});
      std::vector<std::vector<int>> first = expected;
      first.resize(std::min(first.size(), nodes - 1));
      EXPECT_EQ(taken(draft, tree), first) << "seed " << seed << ", " << nodes << " nodes";
    }
  }
  EXPECT_GT(ties, 100U);  // the order of equals was really asked for
}

// The chain, and of what is left the most probable prefixes.
TEST(DraftTree, ChainFirstTakesTheChainAndThenTheMostProbableOthers) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const Draft draft = random_draft(seed, 2 + seed % 4, 1 + seed % 4);
    const auto rows = static_cast<std::size_t>(draft.rows);
    for (const std::size_t nodes : {std::size_t{1}, std::size_t{2}, rows + 1, rows + 2, rows + 20, std::size_t{4000}}) {
      std::vector<std::vector<int>> expected;
      for (std::size_t depth = 1; depth <= std::min(rows, nodes - 1); ++depth) expected.emplace_back(depth, 0);
      const std::set<std::vector<int>> chain(expected.begin(), expected.end());
      for (const std::vector<int>& prefix : all_prefixes(draft))
        if (!chain.contains(prefix) && expected.size() < nodes - 1 && chain.size() == rows) expected.push_back(prefix);
      const TokenTree tree =
          grow_tree(0, draft.output(), {.nodes = static_cast<std::int64_t>(nodes), .growth = TreeGrowth::kChainFirst});
      EXPECT_EQ(taken(draft, tree), expected) << "seed " << seed << ", " << nodes << " nodes";
    }
  }
}

TEST(DraftTree, ParentsComeFirstSiblingsDifferAndScoresFall) {
  const Draft draft = random_draft(3, 15, 8);
  for (const TreeGrowth growth : {TreeGrowth::kBestFirst, TreeGrowth::kChainFirst}) {
    const TokenTree tree = grow_tree(0, draft.output(), {.nodes = 500, .growth = growth});
    ASSERT_EQ(tree.size(), 500);
    std::set<std::pair<int, int>> children;
    double last = 0;
    for (int node = 1; node < tree.size(); ++node) {
      const auto at = static_cast<std::size_t>(node);
      EXPECT_LT(tree.parents()[at], node);
      EXPECT_TRUE(children.emplace(tree.parents()[at], tree.tokens()[at]).second);
      const double score = draft.score(draft.ranks(tree, node));
      EXPECT_TRUE(growth == TreeGrowth::kChainFirst || score <= last);
      last = score;
    }
  }
}

TEST(DraftTree, OneCandidateIsTheChain) {
  const Draft draft = random_draft(11, 6, 4);
  for (const TreeGrowth growth : {TreeGrowth::kBestFirst, TreeGrowth::kChainFirst}) {
    const TokenTree tree = grow_tree(9, draft.output(), {.nodes = 1 << 20, .candidates = 1, .growth = growth});
    EXPECT_TRUE(tree.is_chain());
    EXPECT_THAT(tree.tokens(), ElementsAre(9, 100, 200, 300, 400, 500, 600));
  }
}

TEST(DraftTree, TheAnchorAlone) {
  const Draft draft(kExample);
  EXPECT_EQ(grow_tree(9, draft.output(), {.nodes = 1}).size(), 1);
  EXPECT_EQ(grow_tree(9, draft.output(), {.nodes = 1, .growth = TreeGrowth::kChainFirst}).size(), 1);
  EXPECT_EQ(grow_tree(9, DraftOutput{}, {.nodes = 16}).size(), 1);
}

// A budget beyond all prefixes gives all of them: 3 + 9 + 27.
TEST(DraftTree, AVeryLargeBudgetEndsWithThePrefixesThereAre) {
  const Draft draft(kExample);
  EXPECT_EQ(grow_tree(9, draft.output(), {.nodes = std::int64_t{1} << 20}).size(), 40);
  EXPECT_EQ(grow_tree(9, draft.output(), {.nodes = std::numeric_limits<std::int64_t>::max()}).size(), 40);
}

TEST(DraftTree, ProbabilityZeroIsNeverTaken) {
  const Draft draft({{.7, .3, 0}, {1, 0, 0}});
  const TokenTree tree = grow_tree(9, draft.output(), {.nodes = 100});
  EXPECT_THAT(taken(draft, tree), ElementsAre(ElementsAre(0), ElementsAre(0, 0), ElementsAre(1), ElementsAre(1, 0)));
}

TEST(DraftTree, BrokenDraftsAreRefused) {
  const auto fault = [](Draft draft, const TreeBudget& budget) {
    try {
      (void)grow_tree(0, draft.output(), budget);
    } catch (const Error& error) {
      return error.parts().what;
    }
    return std::string();
  };
  Draft draft(kExample);
  EXPECT_THAT(fault(draft, {.nodes = 0}), HasSubstr("0 nodes"));
  EXPECT_THAT(fault(draft, {.nodes = 4, .candidates = 0}), HasSubstr("0 candidates"));
  draft.log_probabilities[4] = std::nanf("");
  EXPECT_THAT(fault(draft, {.nodes = 4}), HasSubstr("row 1 of a draft holds NaN"));
  draft.log_probabilities[4] = 0;
  EXPECT_THAT(fault(draft, {.nodes = 4}), HasSubstr("row 1 of a draft is not sorted"));
  draft.log_probabilities.pop_back();
  EXPECT_THAT(fault(draft, {.nodes = 4}), HasSubstr("do not fit"));
}

}  // namespace
}  // namespace tare::engine
