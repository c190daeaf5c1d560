// Any drafter of the CPU backend in use: what its drafts depend on, the end of the context, bytes, and that rounds with
// it emit the tokens of plain greedy decoding.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "base/philox.h"
#include "engine/speculate/draft_tree.h"
#include "tests/engine/cpu_fixture.h"
#include "tests/engine/embedded_model.h"
#include "tests/engine/model_files.h"
#include "tests/engine/tokens_within_reach.h"

namespace tare::engine::test {
namespace {

struct Subject {
  std::string name;
  std::string model;
  std::string drafter;
};

std::vector<Subject> subjects() {
  const std::string small =
      "synthetic:hidden=80,intermediate=96,layers=8,vocab=331,heads=4,kv_heads=2,head_dim=24,rotary=8,"
      "linear_key_heads=2,linear_value_heads=4,linear_key_head_dim=16,linear_value_head_dim=16,mtp_layers=1,"
      "positions=512,tied=0?seed=3";
  return {{"Block", fixture("hybrid-small").string(), fixture("block-drafter").string()},
          {"SyntheticBlock", small, "synthetic"},
          {"SyntheticMtp", small, "mtp"},
          {"EmbeddedMtp", embedded_model(), "mtp"},
          {"EmbeddedBlock", embedded_model(), embedded_drafter()}};
}

class CpuSpeculation : public testing::TestWithParam<Subject> {
 protected:
  static EngineOptions options() {
    EngineOptions options = exact_options();
    options.speculate.drafter = GetParam().drafter;
    return options;
  }
  static std::unique_ptr<Backend> open(const EngineOptions& options) {
    return make_cpu_backend(*open_checkpoint(GetParam().model), options);
  }
  static std::vector<std::int32_t> text(std::int64_t vocab, std::uint64_t count) {
    const Philox numbers(8, 1);
    std::vector<std::int32_t> tokens;
    for (std::uint64_t i = 0; i < count; ++i)
      tokens.push_back(static_cast<std::int32_t>(static_cast<double>(vocab) * numbers.uniform_at(i)));
    return tokens;
  }
};

struct Drafted {
  std::vector<std::int32_t> tokens;
  std::vector<float> log_probabilities;
};

Drafted draft(Backend& backend, std::int32_t anchor = 7, std::int64_t tokens = 6) {
  const DraftOutput output = backend.draft({anchor, tokens, 9, 1});
  return {{output.tokens.begin(), output.tokens.end()},
          {output.log_probabilities.begin(), output.log_probabilities.end()}};
}

bool same(const Drafted& a, const Drafted& b) {
  return a.tokens == b.tokens && same_bits(a.log_probabilities, b.log_probabilities);
}

// Absorbs tokens[from..] in rounds of random trees: the committed path holds the text, all about it is rejected.
void absorb_in_rounds(Backend& backend, std::span<const std::int32_t> tokens, std::size_t from, bool drafting,
                      std::uint64_t seed) {
  const Philox numbers(seed, 2);
  std::uint64_t at = 0;
  const auto below = [&](std::size_t bound) {
    return static_cast<std::size_t>(static_cast<double>(bound) * numbers.uniform_at(at++));
  };
  const auto vocab = static_cast<std::size_t>(backend.config().vocab_size);
  while (from < tokens.size()) {
    if (drafting) (void)draft(backend, tokens[from]);
    const std::size_t most = std::min<std::size_t>(tokens.size() - from, 5);
    TokenTree tree(tokens[from]);
    std::vector<std::int32_t> path = {0};
    while (tree.size() < 12) {
      const bool grow_path = path.size() < most && below(3) == 0;
      if (grow_path) {
        path.push_back(tree.add(path.back(), tokens[from + path.size()]));
      } else {
        const int parent = static_cast<int>(below(static_cast<std::size_t>(tree.size())));
        const auto token = static_cast<std::int32_t>(below(vocab));
        if (tree.child(parent, token) < 0) tree.add(parent, token);
      }
    }
    (void)backend.verify(tree);
    path.resize(below(path.size() + 1));  // also none
    backend.commit(path);
    from += path.size();
  }
}

TEST_P(CpuSpeculation, DraftsDependOnTheAbsorbedTokensAlone) {
  const std::unique_ptr<Backend> backend = open(options());
  const std::vector<std::int32_t> tokens = text(backend->config().vocab_size, 90);
  backend->prefill(tokens);
  const Drafted expected = draft(*backend);
  EXPECT_TRUE(same(draft(*backend), expected)) << "drafting twice";
  (void)draft(*backend, 8);
  (void)draft(*backend, 7, 2);
  EXPECT_TRUE(same(draft(*backend), expected)) << "after other drafts";

  backend->reset();
  EXPECT_EQ(backend->frontier(), 0);
  backend->prefill(std::span(tokens).first(33));
  backend->prefill(std::span(tokens).subspan(33));
  EXPECT_TRUE(same(draft(*backend), expected)) << "after a reset, in two calls";

  for (const bool drafting : {false, true}) {
    backend->reset();
    backend->prefill(std::span(tokens).first(11));
    absorb_in_rounds(*backend, tokens, 11, drafting, drafting ? 4 : 3);
    EXPECT_TRUE(same(draft(*backend), expected)) << "in rounds, " << (drafting ? "drafting" : "not drafting");
  }

  EngineOptions other = options();
  other.prefill.chunk = 7;
  other.cpu.threads = 1;
  const std::unique_ptr<Backend> in_chunks = open(other);
  in_chunks->prefill(tokens);
  EXPECT_TRUE(same(draft(*in_chunks), expected)) << "chunks of 7, one thread";

  // The control: one other token of the context, and another anchor, change the draft.
  std::vector<std::int32_t> changed = tokens;
  changed[40] = changed[40] == 0 ? 1 : 0;
  backend->reset();
  backend->prefill(changed);
  EXPECT_FALSE(same(draft(*backend), expected));
  EXPECT_FALSE(same(draft(*in_chunks, 8), expected));
}

TEST_P(CpuSpeculation, QuantisedWeightsAndActivationsDependOnNothingElseEither) {
  EngineOptions chosen = options();
  chosen.weights.format = WeightFormat::kQ8;
  const std::unique_ptr<Backend> wide = open(chosen);
  chosen.activations.format = ActivationFormat::kQ8;
  const std::unique_ptr<Backend> backend = open(chosen);
  const std::vector<std::int32_t> tokens = text(backend->config().vocab_size, 50);
  wide->prefill(tokens);
  backend->prefill(tokens);
  const Drafted expected = draft(*backend);
  backend->reset();
  backend->prefill(std::span(tokens).first(11));
  absorb_in_rounds(*backend, tokens, 11, true, 5);
  EXPECT_TRUE(same(draft(*backend), expected));
  // 8-bit blocks move the most likely token's probability, and not far.
  const Drafted exact = draft(*wide);
  const double moved = std::abs(static_cast<double>(exact.log_probabilities[0] - expected.log_probabilities[0]));
  EXPECT_GT(moved, 0);
  EXPECT_LT(moved, 0.2);
}

TEST_P(CpuSpeculation, DraftingLeavesTheTargetAlone) {
  const std::unique_ptr<Backend> backend = open(options());
  EngineOptions plain_options = options();
  plain_options.speculate.drafter = "none";
  const std::unique_ptr<Backend> plain = open(plain_options);
  EXPECT_FALSE(plain->has_drafter());
  const std::vector<std::int32_t> tokens = text(backend->config().vocab_size, 60);
  std::vector<float> logits[2];
  for (Backend* one : {backend.get(), plain.get()}) {
    one->prefill(std::span(tokens).first(50));
    if (one->has_drafter()) (void)draft(*one);
    (void)one->verify(std::span(tokens).subspan(50, 6));
    if (one->has_drafter()) (void)draft(*one);
    one->commit(4);
    if (one->has_drafter()) (void)draft(*one);
    const VerifyOutput output = one->verify(std::span(tokens).subspan(54, 6));
    logits[one == plain.get()].assign(output.logits.begin(), output.logits.end());
    one->commit(0);
  }
  EXPECT_TRUE(same_bits(logits[0], logits[1]));
}

TEST_P(CpuSpeculation, TheEndOfTheContext) {
  EngineOptions small = options();
  small.context = 40;
  const std::unique_ptr<Backend> backend = open(small);
  const std::vector<std::int32_t> tokens = text(backend->config().vocab_size, 40);
  backend->prefill(std::span(tokens).first(36));
  EXPECT_EQ(backend->draft({3, 3, 2, 1}).rows, 3);  // the anchor at 36, drafts at 37 to 39
  EXPECT_EQ(backend->draft({3, 9, 2, 1}).rows, 3);
  (void)backend->verify(std::span(tokens).subspan(36, 3));
  backend->commit(3);
  EXPECT_EQ(backend->draft({3, 9, 2, 1}).rows, 0);
  (void)backend->verify(std::span(tokens).subspan(39, 1));
  backend->commit(1);
  EXPECT_EQ(backend->draft({3, 9, 2, 1}).rows, 0);
  expect_refused(
      [&] {
        (void)backend->draft({static_cast<std::int32_t>(backend->config().vocab_size), 2, 2, 1});
      },
      "position", "outside the vocabulary");
}

class BytesByKind final : public Collector {
 public:
  void begin(const LaunchRecord& op, std::uint64_t bytes) override {
    (op.name.starts_with("draft ") ? draft : target) += bytes;
    names.insert(op.name);
  }
  void end() override {}
  std::uint64_t draft = 0;
  std::uint64_t target = 0;
  std::set<std::string> names;
};

TEST_P(CpuSpeculation, TheInventoryHasTheDraftersBytesAndTheOpsTellThem) {
  EngineOptions chosen = options();
  chosen.speculate.draft_tokens = 6;
  const std::unique_ptr<Backend> backend = open(chosen);
  chosen.speculate.drafter = "none";
  const std::unique_ptr<Backend> plain = open(chosen);
  const std::vector<std::int32_t> tokens = text(backend->config().vocab_size, 80);
  constexpr std::int64_t kWidth = 5;
  backend->prefill(std::span(tokens).first(40));
  const auto round = [&](std::size_t from) {
    (void)backend->draft({tokens[from], 6, 4, 1});
    (void)backend->verify(std::span(tokens).subspan(from, kWidth));
    backend->commit(static_cast<int>(kWidth));
  };
  round(40);
  BytesByKind bytes;
  ASSERT_TRUE(backend->set_collector(&bytes));
  round(45);
  ASSERT_TRUE(backend->set_collector(nullptr));
  const std::uint64_t all = backend->inventory(45, kWidth).bytes_per_round();
  const std::uint64_t target = plain->inventory(45, kWidth).bytes_per_round();
  EXPECT_EQ(bytes.target, target);
  EXPECT_EQ(bytes.draft, all - target);
  EXPECT_GT(bytes.draft, 0U);
  EXPECT_NE(bytes.draft,
            backend->inventory(44, kWidth).bytes_per_round() - plain->inventory(44, kWidth).bytes_per_round());
  EXPECT_TRUE(bytes.names.contains("draft attention"));

  // A tree of the anchor alone needs no draft: what is left is the absorbing.
  chosen = options();
  chosen.speculate.tree_nodes = 1;
  const std::unique_ptr<Backend> alone = open(chosen);
  alone->prefill(std::span(tokens).first(45));
  BytesByKind absorbed;
  ASSERT_TRUE(alone->set_collector(&absorbed));
  (void)alone->verify(std::span(tokens).subspan(45, kWidth));
  alone->commit(static_cast<int>(kWidth));
  EXPECT_EQ(absorbed.draft, alone->inventory(45, kWidth).bytes_per_round() - target);
  EXPECT_TRUE(bytes.names.contains("draft candidates"));
}

INSTANTIATE_TEST_SUITE_P(Drafters, CpuSpeculation, testing::ValuesIn(subjects()),
                         [](const auto& info) { return info.param.name; });

// --- rounds

std::vector<std::int32_t> plain_greedy(Backend& backend, std::span<const std::int32_t> prompt, std::size_t length) {
  backend.reset();
  std::vector<std::int32_t> produced = {greedy(backend.prefill(prompt))};
  while (produced.size() < length) {
    produced.push_back(backend.verify(std::span(&produced.back(), 1)).best.front());
    backend.commit(1);
  }
  return produced;
}

struct Shape {
  std::string name;
  std::int64_t nodes;
  std::int64_t candidates;
  TreeGrowth growth;
};

// Draft, grow, verify, accept, commit. Counts its rounds.
std::vector<std::int32_t> speculate(Backend& backend, std::span<const std::int32_t> prompt, std::size_t length,
                                    const Shape& shape, std::size_t& rounds) {
  backend.reset();
  std::vector<std::int32_t> produced = {greedy(backend.prefill(prompt))};
  while (produced.size() < length) {
    const DraftOutput draft =
        backend.draft({produced.back(), backend.options().speculate.draft_tokens, shape.candidates, 1});
    const TokenTree tree = grow_tree(produced.back(), draft, {.nodes = shape.nodes, .growth = shape.growth});
    const VerifyOutput output = backend.verify(tree, {.logits = false});
    std::vector<std::int32_t> path;
    for (int node = 0; node >= 0 && produced.size() < length;) {
      path.push_back(node);
      produced.push_back(output.best[static_cast<std::size_t>(node)]);
      node = tree.child(node, produced.back());
    }
    backend.commit(path);
    ++rounds;
  }
  return produced;
}

class EmbeddedRounds : public testing::TestWithParam<std::string> {};

TEST_P(EmbeddedRounds, EmitTheTokensOfPlainGreedyDecoding) {
  EngineOptions options;
  options.context = 1024;
  options.cpu.threads = 2;
  const std::unique_ptr<Checkpoint> checkpoint = open_checkpoint(embedded_model());
  const std::unique_ptr<Backend> plain = make_cpu_backend(*checkpoint, options);
  options.speculate.drafter = GetParam() == "mtp" ? "mtp" : embedded_drafter();
  const std::unique_ptr<Backend> backend = make_cpu_backend(*checkpoint, options);
  constexpr std::size_t kLength = 97;
  const std::vector<Shape> shapes = {
      {"chain", 16, 1, TreeGrowth::kBestFirst},           {"best_first 8", 8, 8, TreeGrowth::kBestFirst},
      {"best_first 16", 16, 8, TreeGrowth::kBestFirst},   {"best_first 32", 32, 8, TreeGrowth::kBestFirst},
      {"chain_first 16", 16, 8, TreeGrowth::kChainFirst}, {"chain_first 32", 32, 8, TreeGrowth::kChainFirst},
      {"anchor alone", 1, 1, TreeGrowth::kBestFirst}};
  std::map<std::string, std::size_t> rounds;
  std::size_t tokens = 0;
  for (const std::vector<std::int32_t>& prompt : suite_prompts(11)) {
    const std::vector<std::int32_t> expected = plain_greedy(*plain, prompt, kLength);
    tokens += kLength - 1;
    for (const Shape& shape : shapes)
      EXPECT_EQ(speculate(*backend, prompt, kLength, shape, rounds[shape.name]), expected) << shape.name;
  }
  std::map<std::string, double> tokens_a_round;
  for (const Shape& shape : shapes) {
    tokens_a_round[shape.name] = static_cast<double>(tokens) / static_cast<double>(rounds[shape.name]);
    fmt::print("{}: {:.3f} tokens a round\n", shape.name, tokens_a_round[shape.name]);
  }
  EXPECT_EQ(tokens_a_round["anchor alone"], 1);
  EXPECT_GE(tokens_a_round["best_first 16"], tokens_a_round["chain"]);
  EXPECT_GE(tokens_a_round["best_first 32"], tokens_a_round["best_first 8"]);
  EXPECT_GE(tokens_a_round["best_first 16"], GetParam() == "mtp" ? 1.8 : 2.5);
}

// A wrong state leaves the text right, which the target decides, and spoils only what is accepted.
TEST_P(EmbeddedRounds, AcceptAsMuchAfterRollbacksOfEveryDepth) {
  constexpr double kFloor = 1.5;
  constexpr std::size_t kLength = 70;
  const std::unique_ptr<Checkpoint> checkpoint = open_checkpoint(embedded_model());
  for (const Rollback rollback : {Rollback::kRing, Rollback::kSnapshot, Rollback::kTreeChunk}) {
    EngineOptions options;
    options.context = 1024;
    options.cpu.threads = 2;
    options.rollback = rollback;
    options.speculate.drafter = GetParam() == "mtp" ? "mtp" : embedded_drafter();
    const std::unique_ptr<Backend> backend = make_cpu_backend(*checkpoint, options);
    const std::vector<std::int32_t> prompt = suite_prompts(11).front();
    const std::vector<std::int32_t> text = plain_greedy(*backend, prompt, kLength);
    for (const std::size_t depth : {1, 2, 4})
      EXPECT_GT(tokens_within_reach(*backend, prompt, text, depth), kFloor) << to_text(rollback) << ", " << depth;
    EXPECT_LT(tokens_within_reach(*backend, prompt, text, 1, 1), kFloor)
        << "the floor does not see a state that stays behind";
  }
}

INSTANTIATE_TEST_SUITE_P(Drafters, EmbeddedRounds, testing::Values("mtp", "block"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace tare::engine::test
