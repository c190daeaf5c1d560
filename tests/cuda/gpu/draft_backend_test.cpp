// Drafts of the whole backend with the embedded model and its drafter: the GPU's against the CPU's, and whatever way
// tokens were committed.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>

#include "base/error.h"
#include "engine/backend/argmax.h"
#include "engine/cpu/cpu_backend.h"
#include "engine/cuda/cuda_backend.h"
#include "engine/speculate/draft_tree.h"
#include "engine/speculate/shortlist.h"
#include "tests/cuda/gpu/drafts.h"
#include "tests/cuda/gpu/gpu_test.h"
#include "tests/cuda/gpu/random_tokens.h"
#include "tests/cuda/gpu/random_tree.h"
#include "tests/cuda/gpu/sanitized.h"
#include "tests/source_folder.h"

namespace tare::engine::test {
namespace {

using DraftBackend = GpuTest;
using DraftBackendHopper = HopperTest;

constexpr std::int64_t kRows = 15;
constexpr std::int64_t kCandidates = 8;

const Checkpoint& embedded() {
  static const std::unique_ptr<Checkpoint> checkpoint =
      open_checkpoint((source_folder() / "models" / "embedded").string());
  return *checkpoint;
}

EngineOptions options_of(BackendKind backend, ActivationFormat activations,
                         const EngineOptions::ProposalHead& proposals = {}) {
  EngineOptions options;
  options.backend = backend;
  options.activations.format = activations;
  options.speculate.drafter = (source_folder() / "models" / "embedded" / "drafter").string();
  options.context = 512;
  if (activations == ActivationFormat::kFP32) options.kv.key = options.kv.value = CacheFormat::kFP32;
  options.cpu.threads = 8;
  options.proposal_head = proposals;
  return options;
}

Draft draft(Backend& backend, std::int32_t anchor) {
  return copy_of(backend.draft({.anchor = anchor, .tokens = kRows, .candidates = kCandidates}));
}

std::vector<std::int32_t> greedy_text(Backend& backend, std::span<const std::int32_t> prompt, std::size_t count) {
  backend.reset();
  std::vector<std::int32_t> text = {argmax(backend.prefill(prompt))};
  while (text.size() < count) {
    text.push_back(backend.verify(std::span(&text.back(), 1), {.logits = false}).best[0]);
    backend.commit(1);
  }
  return text;
}

// Both backends are forced onto the CPU's greedy text and draft at every fifth token.
DraftComparison against_cpu(ActivationFormat activations, const EngineOptions::ProposalHead& proposals = {}) {
  const auto cpu = make_cpu_backend(embedded(), options_of(BackendKind::kCpu, ActivationFormat::kFP32, proposals));
  const auto cuda = make_cuda_backend(embedded(), options_of(BackendKind::kCuda, activations, proposals));
  EXPECT_TRUE(cuda->has_drafter());
  EXPECT_EQ(cuda->options().speculate.draft_tokens, kRows);
  DraftComparison total;
  const std::uint64_t prompts = amount("prompts", 3, 1);
  const std::size_t count = amount<std::size_t>("tokens of a text", 60, 20, 6);
  for (std::uint64_t seed = 1; seed <= prompts; ++seed) {
    const std::vector<std::int32_t> prompt = random_tokens(20 + 13 * seed, seed);
    const std::vector<std::int32_t> text = greedy_text(*cpu, prompt, count);
    for (Backend* backend : {cpu.get(), cuda.get()}) {
      backend->reset();
      backend->prefill(prompt);
    }
    for (std::size_t begin = 0; begin + 5 < text.size(); begin += 5) {
      compare(draft(*cpu, text[begin]), draft(*cuda, text[begin]), total);
      for (Backend* backend : {cpu.get(), cuda.get()}) {
        backend->verify(std::span(text).subspan(begin, 5), {.logits = false});
        backend->commit(5);
      }
    }
  }
  std::printf("%d rows: %d first tokens differ, largest margin %.2e, log-probabilities %.2e\n", total.rows,
              total.different, total.margin, total.difference);
  return total;
}

TEST_F(DraftBackend, ExactDraftsAreTheCpus) {
  const DraftComparison total = against_cpu(ActivationFormat::kFP32);
  EXPECT_LT(total.difference, 5e-3);
  EXPECT_LT(total.margin, 5e-3);
}

// A shortlist, a screen, both; a list that is no whole number of row blocks.
const EngineOptions::ProposalHead kProposals[] = {{.shortlist = 1000, .counts = "", .screen = HeadScreen::kNone},
                                                  {.shortlist = 0, .counts = "", .screen = HeadScreen::kQ4},
                                                  {.shortlist = 512, .counts = "", .screen = HeadScreen::kQ3}};

std::vector<EngineOptions::ProposalHead> proposal_heads() {
  return some("proposal heads", {kProposals[0], kProposals[1], kProposals[2]}, 3, 1);
}

TEST_F(DraftBackend, ExactDraftsOfAProposalHeadAreTheCpus) {
  for (const EngineOptions::ProposalHead& proposals : proposal_heads()) {
    const DraftComparison total = against_cpu(ActivationFormat::kFP32, proposals);
    EXPECT_LT(total.difference, 5e-3) << proposals.shortlist;
    EXPECT_LT(total.margin, 5e-3) << proposals.shortlist;
  }
}

TEST_F(DraftBackendHopper, FastDraftsOfAProposalHeadAreTheCpusButForNearTies) {
  for (const EngineOptions::ProposalHead& proposals : proposal_heads()) {
    const DraftComparison total = against_cpu(ActivationFormat::kBF16, proposals);
    EXPECT_LT(total.margin, 0.3) << proposals.shortlist;
    EXPECT_LT(10 * total.different, total.rows) << proposals.shortlist;
  }
}

// What is not on the list is not drafted, and a list shorter than the candidates asked for bounds them.
TEST_F(DraftBackend, AShortlistBoundsWhatIsDrafted) {
  const EngineOptions::ProposalHead few{.shortlist = 5, .counts = "", .screen = HeadScreen::kNone};
  const auto whole = make_cuda_backend(embedded(), options_of(BackendKind::kCuda, ActivationFormat::kFP32));
  const auto listed = make_cuda_backend(embedded(), options_of(BackendKind::kCuda, ActivationFormat::kFP32, few));
  const std::vector<std::int32_t> list = read_shortlist(embedded(), few);
  int outside = 0;
  for (Backend* backend : {whole.get(), listed.get()}) {
    backend->prefill(random_tokens(30, 4));
    const DraftOutput output = backend->draft({.anchor = 11, .tokens = kRows, .candidates = kCandidates});
    EXPECT_EQ(output.candidates, backend == whole.get() ? kCandidates : 5);
    ASSERT_EQ(output.tokens.size(), static_cast<std::size_t>(kRows * output.candidates));
    int here = 0;
    for (const std::int32_t token : output.tokens) here += std::count(list.begin(), list.end(), token) == 0 ? 1 : 0;
    if (backend == whole.get()) {
      outside = here;
    } else {
      EXPECT_EQ(here, 0);
    }
  }
  EXPECT_GT(outside, 0);  // or the list says nothing
}

TEST_F(DraftBackend, RefusesProposalsWithoutADrafterAndListsThatDoNotFit) {
  EngineOptions options = options_of(BackendKind::kCuda, ActivationFormat::kFP32, kProposals[0]);
  options.speculate.drafter = "none";
  EXPECT_THROW((void)make_cuda_backend(embedded(), options), Error);
  options = options_of(BackendKind::kCuda, ActivationFormat::kFP32, kProposals[0]);
  options.proposal_head.shortlist = 100'000;
  EXPECT_THROW((void)make_cuda_backend(embedded(), options), Error);
}

TEST_F(DraftBackendHopper, FastDraftsAreTheCpusButForNearTies) {
  const DraftComparison total = against_cpu(ActivationFormat::kBF16);
  EXPECT_LT(total.margin, 0.3);
  EXPECT_LT(10 * total.different, total.rows);
}

// Rounds of random trees of which random paths are committed, with drafts between some of them, leave the drafter where
// a prefill of the committed tokens does.
void follow_paths(ActivationFormat activations, double tolerance) {
  const auto rounds = make_cuda_backend(embedded(), options_of(BackendKind::kCuda, activations));
  const auto fresh = make_cuda_backend(embedded(), options_of(BackendKind::kCuda, activations));
  std::vector<std::int32_t> sequence = random_tokens(37, 7);
  rounds->prefill(sequence);
  Philox random(8);
  double worst = 0;
  double control = 0;
  const int all = amount("rounds", 24, 6, 3);
  for (int round = 0; round < all; ++round) {
    const TreeKind kind = kTreeKinds[static_cast<std::size_t>(round) % kTreeKinds.size()];
    const TokenTree tree = random_tree(kind, 1 + static_cast<int>(random.below(16)), 4000, random);
    rounds->verify(tree, {.logits = false});
    if (round % 3 == 0) (void)draft(*rounds, 5);  // between a verify and its commit
    const std::vector<std::int32_t> path =
        tree.path_to(static_cast<int>(random.below(static_cast<std::uint64_t>(tree.size()))));
    rounds->commit(path);
    for (const std::int32_t node : path) sequence.push_back(tree.tokens()[static_cast<std::size_t>(node)]);
    if (round % 4 == 1) {  // a prompt goes on
      const std::vector<std::int32_t> more = random_tokens(9, 100 + static_cast<std::uint64_t>(round));
      rounds->prefill(more);
      sequence.insert(sequence.end(), more.begin(), more.end());
    }
    if (round % 3 != 2) continue;  // two rounds of three go undrafted
    const Draft got = draft(*rounds, 11);
    if (!racechecked()) {
      EXPECT_TRUE(draft(*rounds, 11) == got);
    }
    const auto against = [&](const std::vector<std::int32_t>& tokens) {
      fresh->reset();
      fresh->prefill(tokens);
      DraftComparison total;
      compare(draft(*fresh, 11), got, total);
      return total.difference;
    };
    const double difference = against(sequence);
    if (!(difference <= worst)) worst = difference;
    if (racechecked()) continue;  // the control, again the same launches
    std::vector<std::int32_t> other = sequence;
    other[other.size() - 2] ^= 1;
    control = std::max(control, against(other));
  }
  std::printf("after %zu tokens: log-probabilities %.2e from a prefill's, of another text %.2e\n", sequence.size(),
              worst, control);
  EXPECT_LT(worst, tolerance);
  if (!racechecked()) {
    EXPECT_GT(control, tolerance);
  }
}

TEST_F(DraftBackend, ExactDraftsFollowCommittedPaths) {
  follow_paths(ActivationFormat::kFP32, 2e-3);
}
TEST_F(DraftBackendHopper, FastDraftsFollowCommittedPaths) {
  follow_paths(ActivationFormat::kBF16, 0.3);
}

class DraftPlan : public GpuTest, public ::testing::WithParamInterface<EngineOptions::ProposalHead> {};
INSTANTIATE_TEST_SUITE_P(Heads, DraftPlan,
                         ::testing::Values(EngineOptions::ProposalHead{}, kProposals[0], kProposals[1], kProposals[2]));

TEST_P(DraftPlan, HoldsWhatItPlans) {
  const auto backend =
      make_cuda_backend(embedded(), options_of(BackendKind::kCuda, ActivationFormat::kFP32, GetParam()));
  const std::vector<MemoryPart> plan = backend->memory_plan(backend->options().kv, backend->capacity());
  bool has_drafter = false;
  for (const MemoryPart& held : backend->inventory(0, 1).resident_parts()) {
    std::uint64_t planned = 0;
    for (const MemoryPart& part : plan) planned += inventory_part(part.name) == held.name ? part.bytes : 0;
    EXPECT_EQ(planned, held.bytes) << held.name;
  }
  for (const MemoryPart& part : plan) has_drafter = has_drafter || part.name == "drafter";
  EXPECT_TRUE(has_drafter);
}

struct Written {
  std::vector<std::int32_t> text;
  std::size_t rounds = 0;
  double us = 0;
};
double us_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
}

Written plain_text(Backend& backend, std::span<const std::int32_t> prompt, std::size_t count) {
  backend.reset();
  Written written{{argmax(backend.prefill(prompt))}};
  const auto start = std::chrono::steady_clock::now();
  for (; written.text.size() < count; ++written.rounds) {
    written.text.push_back(backend.verify(std::span(&written.text.back(), 1), {.logits = false}).best[0]);
    backend.commit(1);
  }
  written.us = us_since(start);
  return written;
}

// Draft, tree, verify, greedy walk, commit.
Written drafted_text(Backend& backend, std::span<const std::int32_t> prompt, std::size_t count,
                     const TreeBudget& budget) {
  backend.reset();
  Written written{{argmax(backend.prefill(prompt))}};
  const auto start = std::chrono::steady_clock::now();
  for (; written.text.size() < count; ++written.rounds) {
    const DraftOutput drafted =
        backend.draft({.anchor = written.text.back(), .tokens = kRows, .candidates = kCandidates});
    const TokenTree tree = grow_tree(written.text.back(), drafted, budget);
    const VerifyOutput output = backend.verify(tree, {.logits = false});
    int node = 0;
    const auto chosen_child = [&] { return tree.child(node, output.best[static_cast<std::size_t>(node)]); };
    for (int child = chosen_child(); child >= 0; child = chosen_child()) {
      node = child;
      written.text.push_back(tree.tokens()[static_cast<std::size_t>(node)]);
    }
    written.text.push_back(output.best[static_cast<std::size_t>(node)]);
    backend.commit(tree.path_to(node));
  }
  written.us = us_since(start);
  return written;
}

// Trees of 16 nodes, and the chain among them, write the text of plain decoding, in fewer rounds.
TEST_F(DraftBackendHopper, DraftsWriteTheGreedyText) {
  const auto backend = make_cuda_backend(embedded(), options_of(BackendKind::kCuda, ActivationFormat::kBF16));
  const std::size_t count = amount<std::size_t>("tokens", 160, 12, 3);
  const std::uint64_t prompts = amount("prompts", 4, 1);
  constexpr std::int64_t kNodes = 16;
  struct Way {
    const char* name;
    std::int64_t candidates;  // 0: plain
    Written total;
  };
  Way ways[] = {{"plain", 0, {}}, {"chain", 1, {}}, {"tree", kCandidates, {}}};
  for (std::uint64_t seed = racechecked() ? 1 : 0; seed <= prompts; ++seed) {  // the first warms up: graphs, clocks
    const std::vector<std::int32_t> prompt = random_tokens(30, seed);
    const std::vector<std::int32_t> plain = plain_text(*backend, prompt, count).text;
    for (Way& way : ways) {
      Written written = way.candidates == 0
                            ? plain_text(*backend, prompt, count)
                            : drafted_text(*backend, prompt, count, {.nodes = kNodes, .candidates = way.candidates});
      if (seed > 0) {
        way.total.text.insert(way.total.text.end(), written.text.begin() + 1, written.text.end());
        way.total.rounds += written.rounds;
        way.total.us += written.us;
      }
      written.text.resize(count);
      EXPECT_TRUE(written.text == plain) << way.name << ", seed " << seed;
    }
  }
  for (const Way& way : ways) {
    const auto tokens = static_cast<double>(way.total.text.size());
    const double a_round = tokens / static_cast<double>(way.total.rounds);
    std::printf("%s: %.2f tokens a round, %.1f us a round, %.1f us a token\n", way.name, a_round,
                way.total.us / static_cast<double>(way.total.rounds), way.total.us / tokens);
    if (way.candidates == 0) continue;
    if (!sanitized()) {
      EXPECT_GT(a_round, 1.5) << way.name;
    }
  }
}

}  // namespace
}  // namespace tare::engine::test
