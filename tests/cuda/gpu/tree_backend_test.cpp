// Trees through the whole CUDA model: every node against its path alone, commits against the plain sequence.
#include <gmock/gmock.h>

#include <algorithm>
#include <iostream>
#include <limits>
#include <optional>
#include <tuple>

#include "base/error.h"
#include "engine/cuda/cuda_backend.h"
#include "engine/cuda/device/round_control.h"
#include "tests/cuda/gpu/gpu_test.h"
#include "tests/cuda/gpu/random_tree.h"
#include "tests/cuda/gpu/sanitized.h"
#include "tests/engine/cpu_fixture.h"

namespace tare::engine::test {
namespace {

constexpr int kNodes = kMostTreeNodes;

struct Way {
  const char* name;
  ActivationFormat activations;
  CacheFormat caches;
  GdnForm form;
  Rollback rollback;
  // Most relative error of logits against the path alone; 0: the same bits. What is promised: 1e-5 with FP32
  // activations, 1e-2 in BF16 compute; an FP8 key or value that rounds the other way is another by up to a sixteenth.
  double bound;
  std::optional<CacheFormat> values = {};  // where they are of another format than the keys
};
void PrintTo(const Way& way, std::ostream* out) {
  *out << way.name;
}
constexpr Way kWays[] = {
    {"ExactRing", ActivationFormat::kFP32, CacheFormat::kFP32, GdnForm::kRecurrent, Rollback::kRing, 0},
    {"ExactRingNarrowCaches", ActivationFormat::kFP32, CacheFormat::kBF16, GdnForm::kRecurrent, Rollback::kRing, 1e-2},
    {"ExactSnapshot", ActivationFormat::kFP32, CacheFormat::kFP32, GdnForm::kRecurrent, Rollback::kSnapshot, 0},
    {"ExactTreeChunk", ActivationFormat::kFP32, CacheFormat::kFP32, GdnForm::kRecurrent, Rollback::kTreeChunk, 1e-5},
    {"ExactChunked", ActivationFormat::kFP32, CacheFormat::kFP32, GdnForm::kChunked, Rollback::kTreeChunk, 1e-5},
    {"Bf16Ring", ActivationFormat::kBF16, CacheFormat::kBF16, GdnForm::kRecurrent, Rollback::kRing, 1e-2},
    {"Bf16Snapshot", ActivationFormat::kBF16, CacheFormat::kBF16, GdnForm::kRecurrent, Rollback::kSnapshot, 1e-2},
    {"Bf16Chunked", ActivationFormat::kBF16, CacheFormat::kBF16, GdnForm::kChunked, Rollback::kTreeChunk, 1e-2},
    {"ExactRingScaledCaches", ActivationFormat::kFP32, CacheFormat::kNVFP4, GdnForm::kRecurrent, Rollback::kRing, 0,
     CacheFormat::kInt8},
    {"Bf16RingInt8Caches", ActivationFormat::kBF16, CacheFormat::kInt8, GdnForm::kRecurrent, Rollback::kRing, 2e-2},
    {"Bf16ChunkedNVFP4Caches", ActivationFormat::kBF16, CacheFormat::kNVFP4, GdnForm::kChunked, Rollback::kRing, 2e-1},
    {"Bf16ChunkedFp8Caches", ActivationFormat::kBF16, CacheFormat::kFP8, GdnForm::kChunked, Rollback::kRing, 3e-2},
};

std::unique_ptr<Backend> open_way(const Way& way, const std::function<void(EngineOptions&)>& change = {}) {
  EngineOptions options;
  options.backend = BackendKind::kCuda;
  options.context = 512;
  options.activations.format = way.activations;
  options.kv.key = way.caches;
  options.kv.value = way.values.value_or(way.caches);
  options.gdn.form = way.form;
  options.rollback = way.rollback;
  if (change) change(options);
  return make_cuda_backend(*open_checkpoint(fixture("hybrid-headdim256").string()), options);
}
// The first tokens of a text.
std::vector<std::int32_t> text_of(std::size_t count) {
  std::vector<std::int32_t> tokens = Golden(fixture("hybrid-headdim256") / "golden-261.safetensors").tokens;
  tokens.resize(count);
  return tokens;
}

double relative(std::span<const float> a, std::span<const float> b) {
  double difference = 0;
  double size = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double gap = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    difference += gap * gap;
    size += static_cast<double>(b[i]) * static_cast<double>(b[i]);
  }
  return a.size() == b.size() ? std::sqrt(difference / size) : std::numeric_limits<double>::infinity();
}
std::vector<std::int32_t> tokens_at(const TokenTree& tree, std::span<const std::int32_t> path) {
  std::vector<std::int32_t> tokens;
  for (const std::int32_t node : path) tokens.push_back(tree.tokens()[static_cast<std::size_t>(node)]);
  return tokens;
}
std::vector<float> logits_of(Backend& backend, const TokenTree& tree) {
  const std::span<const float> logits = backend.verify(tree).logits;
  return {logits.begin(), logits.end()};
}

class CudaTrees : public HopperTest, public ::testing::WithParamInterface<Way> {
 protected:
  // `slack`: of the bound, where both have come by ways of their own.
  void expect_same(std::span<const float> got, std::span<const float> wanted, const std::string& where,
                   double slack = 1) {
    if (GetParam().bound == 0) {
      EXPECT_TRUE(same_bits(got, wanted)) << where << ": relative difference " << relative(got, wanted);
      return;
    }
    const double error = relative(got, wanted);
    worst_ = std::max(worst_, error);
    EXPECT_LE(error, slack * GetParam().bound) << where;
  }
  void TearDown() override {
    if (worst_ > 0) std::cout << "[          ] worst relative difference " << worst_ << "\n";
  }

 private:
  double worst_ = 0;
};
INSTANTIATE_TEST_SUITE_P(Ways, CudaTrees, ::testing::ValuesIn(kWays),
                         [](const testing::TestParamInfo<Way>& info) { return info.param.name; });

TEST_P(CudaTrees, EveryNodeHasTheLogitsOfItsPathAlone) {
  const std::unique_ptr<Backend> backend = open_way(GetParam());
  const auto vocab = static_cast<std::size_t>(backend->config().vocab_size);
  Philox random(31);
  const std::size_t shortest = amount<std::size_t>("the shortest prompt of 20 and 123", 20, 123);
  const int apart = amount("nodes of a tree of 16 between two", 3, 8);
  const int fewest = amount("the smallest tree of 2, 5 and 16", 2, kNodes);
  for (const std::size_t prompt : {std::size_t{20}, std::size_t{123}}) {
    if (prompt < shortest) continue;
    backend->reset();
    backend->prefill(text_of(prompt));
    std::size_t kinds = amount("kinds of trees", kTreeKinds.size(), std::size_t{2}, std::size_t{1});
    for (const TreeKind kind : kTreeKinds) {
      if (kinds-- == 0) break;
      for (const int nodes : {2, 5, kNodes}) {
        if (nodes < fewest) continue;
        const TokenTree tree = random_tree(kind, nodes, vocab, random);
        const VerifyOutput output = backend->verify(tree, {.logits = true, .hidden = false});
        const std::vector<float> logits(output.logits.begin(), output.logits.end());
        for (int node = 0; node < nodes; ++node) {
          const auto row = std::span(logits).subspan(static_cast<std::size_t>(node) * vocab, vocab);
          ASSERT_EQ(output.best[static_cast<std::size_t>(node)], greedy(row));
        }
        for (int node = nodes - 1; node >= 0; node -= nodes > 5 ? apart : 1) {
          const std::vector<std::int32_t> path = tree.path_to(node);
          const std::vector<float> alone = logits_of(*backend, TokenTree::chain(tokens_at(tree, path)));
          expect_same(std::span(logits).subspan(static_cast<std::size_t>(node) * vocab, vocab),
                      std::span(alone).last(vocab),
                      "prompt " + std::to_string(prompt) + ", node " + std::to_string(node) + " of " + to_text(tree));
        }
        if (HasFailure()) return;
      }
    }
  }
}

// Thirty rounds: a tree is verified and some path of it committed (or nothing), the other backend decodes the same
// tokens one by one. Chains of every width, and prefills, come between. In the end both are what a prefill of the whole
// text leaves.
TEST_P(CudaTrees, CommittedPathsGoOnAsThePlainSequence) {
  const bool plain_caches =
      GetParam().caches ==
      (GetParam().activations == ActivationFormat::kFP32 ? CacheFormat::kFP32 : CacheFormat::kBF16);
  if (!plain_caches) TARE_SKIP_WHERE_RACECHECKED("EveryNodeHasTheLogitsOfItsPathAlone, and in another way's paths");
  const std::unique_ptr<Backend> trees = open_way(GetParam());
  const std::unique_ptr<Backend> plain = open_way(GetParam());
  const auto vocab = static_cast<std::size_t>(trees->config().vocab_size);
  Philox random(32);
  std::vector<std::int32_t> text = text_of(9);
  trees->prefill(text);
  plain->prefill(text);
  const auto absorb = [&](std::span<const std::int32_t> tokens) {
    for (const std::int32_t token : tokens) {
      plain->verify(std::span(&token, 1), {.logits = false});
      plain->commit(1);
    }
    text.insert(text.end(), tokens.begin(), tokens.end());
  };
  const int widest = GetParam().rollback == Rollback::kSnapshot ? kNodes : kMostRoundTokens;
  const int rounds = amount("rounds", 30, 4, 2);
  for (int round = 0; round < rounds; ++round) {
    const auto nodes = static_cast<int>(1 + random.below(kNodes));
    const TokenTree tree = random_tree(kTreeKinds[static_cast<std::size_t>(round) % 5], nodes, vocab, random);
    const std::vector<float> logits = logits_of(*trees, tree);
    const auto last = static_cast<int>(random.below(static_cast<std::uint64_t>(nodes) + 1)) - 1;
    const std::vector<std::int32_t> path = last < 0 ? std::vector<std::int32_t>{} : tree.path_to(last);
    trees->commit(path);
    absorb(tokens_at(tree, path));
    ASSERT_EQ(trees->frontier(), static_cast<std::int64_t>(text.size()));
    // What follows a path that is not in place: now and then a chain of other widths, or a prefill.
    if (round % 5 == 1 || round % 5 == 3) {
      const auto width = static_cast<int>(1 + random.below(static_cast<std::uint64_t>(widest)));
      const TokenTree chain = random_tree(TreeKind::kChain, width, vocab, random);
      const std::vector<float> of_trees = logits_of(*trees, chain);
      const std::vector<float> of_plain = logits_of(*plain, chain);
      expect_same(of_trees, of_plain, "a chain of " + std::to_string(width) + " in round " + std::to_string(round));
      trees->commit(1);
      plain->commit(1);
      text.push_back(chain.tokens()[0]);
    } else if (round % 5 == 2) {
      const std::vector<std::int32_t> tokens = {7, static_cast<std::int32_t>(random.below(vocab))};
      const std::span<const float> of_trees = trees->prefill(tokens);
      const std::span<const float> of_plain = plain->prefill(tokens);
      expect_same(of_trees, of_plain, "a prefill in round " + std::to_string(round));
      text.insert(text.end(), tokens.begin(), tokens.end());
    }
    if (HasFailure()) return;
  }
  const std::int32_t next = 11;
  const std::vector<float> after = logits_of(*trees, TokenTree(next));
  expect_same(after, logits_of(*plain, TokenTree(next)), "the token after all");
  const std::int64_t last_gdn = trees->config().layer_count() - 2;
  expect_same(trees->recurrent_state(last_gdn), plain->recurrent_state(last_gdn), "the state", 2);
  plain->reset();
  plain->prefill(text);
  const std::vector<float> after_prefill = logits_of(*plain, TokenTree(next));
  expect_same(after, after_prefill, "the token after a prefill of " + std::to_string(text.size()), 2);
}

// The controls: a visible sibling, and a commit of the sibling, are far outside every bound.
TEST_P(CudaTrees, AVisibleSiblingIsSeen) {
  TARE_SKIP_WHERE_RACECHECKED("EveryNodeHasTheLogitsOfItsPathAlone");
  const std::unique_ptr<Backend> backend = open_way(GetParam());
  const auto vocab = static_cast<std::size_t>(backend->config().vocab_size);
  backend->prefill(text_of(20));
  TokenTree tree(5);
  TokenTree wrong(5);
  const std::pair<int, int> parents[] = {{0, 0}, {0, 1}, {2, 2}};  // the wrong node 2 continues node 1
  for (const auto& [right, other] : parents) {
    const std::int32_t token = 100 + tree.size();
    tree.add(right, token);
    wrong.add(other, token);
  }
  const std::vector<float> right = logits_of(*backend, tree);
  const std::vector<float> other = logits_of(*backend, wrong);
  const auto row = [&](const std::vector<float>& logits, std::size_t node) {
    return std::span(logits).subspan(node * vocab, vocab);
  };
  const double bound = std::max(GetParam().bound, 1e-6);
  EXPECT_LE(relative(row(other, 1), row(right, 1)), bound);
  EXPECT_GT(relative(row(other, 2), row(right, 2)), 2 * bound);
  EXPECT_GT(relative(row(other, 3), row(right, 3)), 2 * bound);
  std::vector<float> next[2];
  for (int sibling = 0; sibling < 2; ++sibling) {
    backend->reset();
    backend->prefill(text_of(20));
    backend->verify(tree);
    backend->commit(tree.path_to(1 + sibling));
    next[sibling] = logits_of(*backend, TokenTree(9));
  }
  EXPECT_GT(relative(next[0], next[1]), 2 * bound);
}

// The deepest node takes the last position; the nodes beside it lie beyond it.
TEST_P(CudaTrees, TheLastPositionOfTheContextWorks) {
  TARE_SKIP_WHERE_RACECHECKED("EveryNodeHasTheLogitsOfItsPathAlone");
  constexpr std::int64_t kContext = 64;
  const std::unique_ptr<Backend> backend = open_way(GetParam(), [](EngineOptions& o) { o.context = kContext; });
  const auto vocab = static_cast<std::size_t>(backend->config().vocab_size);
  Philox random(33);
  backend->prefill(text_of(kContext - 2));
  const TokenTree star = random_tree(TreeKind::kStar, kNodes, vocab, random);
  const std::vector<float> logits = logits_of(*backend, star);
  for (int node = 0; node < kNodes; node += 5) {
    const std::vector<float> alone = logits_of(*backend, TokenTree::chain(tokens_at(star, star.path_to(node))));
    expect_same(std::span(logits).subspan(static_cast<std::size_t>(node) * vocab, vocab), std::span(alone).last(vocab),
                "node " + std::to_string(node));
  }
  TokenTree deep(1);
  deep.add(0, 2);
  deep.add(1, 3);
  EXPECT_THROW(backend->verify(deep), Error);
  backend->verify(star);
  backend->commit(star.path_to(kNodes - 1));
  EXPECT_EQ(backend->frontier(), kContext);
  EXPECT_THROW(backend->verify(TokenTree(1)), Error);
}

TEST_F(HopperTest, SwitchesOfTheLaunchChangeNoBitsOfTrees) {
  const auto logits_with = [&](const std::function<void(EngineOptions&)>& change) {
    const std::unique_ptr<Backend> backend = open_way(kWays[7], [&](EngineOptions& o) {
      o.weights.format = WeightFormat::kQ4;
      change(o);
    });
    backend->prefill(text_of(50));
    Philox random(34);
    std::vector<float> all;
    for (const TreeKind kind : tree_kinds(2)) {
      const TokenTree tree =
          random_tree(kind, kNodes, static_cast<std::uint64_t>(backend->config().vocab_size), random);
      const std::vector<float> logits = logits_of(*backend, tree);
      all.insert(all.end(), logits.begin(), logits.end());
      backend->commit(tree.path_to(static_cast<int>(random.below(kNodes))));
    }
    return all;
  };
  const std::vector<float> plain = logits_with([](EngineOptions& o) { o.cuda.graph = o.cuda.programmatic = false; });
  EXPECT_TRUE(same_bits(plain, logits_with([](EngineOptions&) {}))) << "graph and programmatic";
  EXPECT_TRUE(same_bits(plain, logits_with([](EngineOptions& o) { o.cuda.graph = false; }))) << "programmatic";
  EXPECT_TRUE(same_bits(plain, logits_with([](EngineOptions& o) { o.cuda.l2_fill_mb = 8; }))) << "L2 fill";
  EXPECT_FALSE(same_bits(plain, logits_with([](EngineOptions& o) { o.weights.format = WeightFormat::kQ3; })));
}

TEST_F(HopperTest, WhatTreesCannotBeIsRefusedByName) {
  const auto where_of = [](const std::function<void()>& act) -> std::string {
    try {
      act();
    } catch (const Error& error) {
      std::cout << "[          ] " << error.what() << "\n";
      return error.parts().where;
    }
    return "nothing was thrown";
  };
  EXPECT_EQ(where_of([] { open_way(kWays[7], [](EngineOptions& o) { o.rollback = Rollback::kSnapshot; }); }),
            "rollback");
  const std::filesystem::path embedded = source_folder() / "models" / "embedded";
  EngineOptions drafts;
  drafts.backend = BackendKind::kCuda;
  drafts.speculate.drafter = (embedded / "drafter").string();
  drafts.speculate.tree_nodes = kNodes + 1;
  EXPECT_EQ(where_of([&] { std::ignore = make_cuda_backend(*open_checkpoint(embedded.string()), drafts); }),
            "speculate.tree_nodes");
  const std::unique_ptr<Backend> backend = open_way(kWays[7]);
  backend->prefill(text_of(5));
  Philox random(35);
  EXPECT_EQ(where_of([&] { backend->verify(random_tree(TreeKind::kStar, kNodes + 1, 100, random)); }), "verify");
  EXPECT_EQ(where_of([&] { backend->verify(random_tree(TreeKind::kChain, kMostRoundTokens + 1, 100, random)); }),
            "verify");
  backend->verify(random_tree(TreeKind::kStar, 3, 100, random));
  const std::vector<std::int32_t> no_path = {0, 1, 2};
  EXPECT_THROW(backend->commit(no_path), Error);
  EXPECT_EQ(backend->frontier(), 5);
}

}  // namespace
}  // namespace tare::engine::test
