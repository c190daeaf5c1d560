// Drafts by the checkpoint's MTP head on the GPU: against the CPU's, whatever way tokens were committed, and what they
// may not change.
#include <algorithm>
#include <cstdio>
#include <memory>

#include "base/error.h"
#include "engine/backend/argmax.h"
#include "engine/cpu/cpu_backend.h"
#include "engine/cuda/cuda_backend.h"
#include "engine/speculate/draft_tree.h"
#include "tests/cuda/gpu/drafts.h"
#include "tests/cuda/gpu/gpu_test.h"
#include "tests/cuda/gpu/random_tokens.h"
#include "tests/cuda/gpu/random_tree.h"
#include "tests/cuda/gpu/sanitized.h"
#include "tests/source_folder.h"

namespace tare::engine::test {
namespace {

using MtpDrafter = GpuTest;
using MtpDrafterHopper = HopperTest;

constexpr std::int64_t kRows = 5;
constexpr std::int64_t kCandidates = 8;
// The 27B's heads, narrow otherwise, with weights of other formats than the head's.
constexpr const char* kNarrow = "synthetic:hidden=512,intermediate=1024,layers=4,vocab=5000,mtp_layers=1?seed=3";

std::string embedded_model() {
  return (source_folder() / "models" / "embedded").string();
}

EngineOptions options_of(BackendKind backend, ActivationFormat activations, std::int64_t shortlist = 0) {
  EngineOptions options;
  options.backend = backend;
  options.activations.format = activations;
  options.speculate.drafter = "mtp";
  options.proposal_head.shortlist = shortlist;
  options.context = 512;
  if (activations == ActivationFormat::kFP32) options.kv.key = options.kv.value = CacheFormat::kFP32;
  options.cpu.threads = 8;
  return options;
}
std::unique_ptr<Backend> open_cuda(const std::string& model, const EngineOptions& options) {
  return make_cuda_backend(*open_checkpoint(model), options);
}

Draft draft(Backend& backend, std::int32_t anchor, std::int64_t rows = kRows) {
  const DraftOutput output = backend.draft({.anchor = anchor, .tokens = rows, .candidates = kCandidates});
  EXPECT_EQ(output.rows, rows);
  return copy_of(output);
}

// Both draft along one random text: some rounds undrafted, anchors that are not committed, commits of nothing, of all
// 32 tokens, and prompts that go on.
DraftComparison against(Backend& cpu, Backend& cuda) {
  DraftComparison total;
  Philox random(17);
  const std::uint64_t prompts = amount("prompts", 3, 1);
  const std::size_t count = amount<std::size_t>("tokens of a text", 330, 200, 100);
  for (std::uint64_t seed = 1; seed <= prompts; ++seed) {
    const std::vector<std::int32_t> text = random_tokens(count, seed);
    std::size_t at = 20 + 13 * static_cast<std::size_t>(seed);
    for (Backend* backend : {&cpu, &cuda}) {
      backend->reset();
      backend->prefill(std::span(text).first(at));
    }
    for (int round = 0; at + 40 < text.size(); ++round) {
      const bool another = round % 5 == 3;
      if (round % 4 != 1) {
        const std::int32_t anchor = another ? text[at] ^ 1 : text[at];
        // The rows behind one that differs continue other tokens.
        compare(draft(cpu, anchor), draft(cuda, anchor), total, ComparedRows::kUntilTheyPart);
      }
      const std::size_t width = round % 7 == 6 ? 32 : 1 + random.below(9);
      const int committed = round % 7 == 6 ? 32 : static_cast<int>(random.below(width + 1));
      for (Backend* backend : {&cpu, &cuda}) {
        backend->verify(std::span(text).subspan(at, width), {.logits = false});
        backend->commit(committed);
      }
      at += static_cast<std::size_t>(committed);
      if (round % 6 != 5) continue;
      for (Backend* backend : {&cpu, &cuda}) backend->prefill(std::span(text).subspan(at, 7));
      at += 7;
    }
  }
  std::printf("%d rows: %d first tokens differ, largest margin %.2e, log-probabilities %.2e\n", total.rows,
              total.different, total.margin, total.difference);
  return total;
}

TEST_F(MtpDrafter, ExactDraftsAreTheCpus) {
  for (const std::int64_t shortlist : {0, 1000}) {
    const auto checkpoint = open_checkpoint(embedded_model());
    const auto cpu = make_cpu_backend(*checkpoint, options_of(BackendKind::kCpu, ActivationFormat::kFP32, shortlist));
    const auto cuda = open_cuda(embedded_model(), options_of(BackendKind::kCuda, ActivationFormat::kFP32, shortlist));
    EXPECT_TRUE(cuda->has_drafter());
    EXPECT_EQ(cuda->options().speculate.draft_tokens, cpu->options().speculate.draft_tokens);
    const DraftComparison total = against(*cpu, *cuda);
    EXPECT_GT(total.rows, amount("rows at least", 200, 20, 10));
    EXPECT_LT(total.difference, 5e-3);
    EXPECT_LT(total.margin, 5e-3);
  }
}

TEST_F(MtpDrafterHopper, FastDraftsAreTheCpusButForNearTies) {
  const auto checkpoint = open_checkpoint(embedded_model());
  const auto cpu = make_cpu_backend(*checkpoint, options_of(BackendKind::kCpu, ActivationFormat::kFP32));
  const auto cuda = open_cuda(embedded_model(), options_of(BackendKind::kCuda, ActivationFormat::kBF16));
  const DraftComparison total = against(*cpu, *cuda);
  EXPECT_GT(total.rows, amount("rows at least", 150, 15, 10));
  EXPECT_LT(total.margin, 0.3);
  EXPECT_LT(10 * total.different, total.rows);
}

// Real head sizes on tensor cores, against FP32 activations, in the formats of rounds.
TEST_F(MtpDrafterHopper, FastArithmeticIsNearTheExact) {
  for (const auto& [format, scales] :
       some("formats",
            {WeightCodec{WeightFormat::kBF16}, WeightCodec{WeightFormat::kNVFP4, ScaleFormat::kE4M3},
             WeightCodec{WeightFormat::kQ5, ScaleFormat::kE4M3}, WeightCodec{WeightFormat::kQ4}},
            4, 1)) {
    EngineOptions fast = options_of(BackendKind::kCuda, ActivationFormat::kBF16);
    EngineOptions exact = options_of(BackendKind::kCuda, ActivationFormat::kFP32);
    fast.weights.format = exact.weights.format = format;
    fast.weights.scales = exact.weights.scales = scales;
    const DraftComparison total = against(*open_cuda(kNarrow, exact), *open_cuda(kNarrow, fast));
    EXPECT_LT(total.margin, 0.1) << to_text(format);
    EXPECT_LT(total.difference, 0.1) << to_text(format);
    EXPECT_GT(total.rows, amount("rows at least", 100, 15, 10));
  }
}

// Rounds of random trees of which random paths are committed leave the drafter where a prefill of the committed tokens
// does.
void follow_paths(ActivationFormat activations, double tolerance) {
  const auto rounds = open_cuda(embedded_model(), options_of(BackendKind::kCuda, activations));
  const auto fresh = open_cuda(embedded_model(), options_of(BackendKind::kCuda, activations));
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
    if (round % 3 != 2) continue;  // two rounds of three go undrafted
    const Draft got = draft(*rounds, 11);
    if (!racechecked()) {
      EXPECT_TRUE(draft(*rounds, 11) == got);
    }
    const auto against_prefill = [&](const std::vector<std::int32_t>& tokens) {
      fresh->reset();
      fresh->prefill(tokens);
      DraftComparison total;
      compare(draft(*fresh, 11), got, total, ComparedRows::kUntilTheyPart);
      return total.difference;
    };
    worst = std::max(worst, against_prefill(sequence));
    if (racechecked()) continue;  // the control, again the same launches
    std::vector<std::int32_t> other = sequence;
    other[other.size() - 2] ^= 1;
    control = std::max(control, against_prefill(other));
  }
  std::printf("after %zu tokens: log-probabilities %.2e from a prefill's, of another text %.2e\n", sequence.size(),
              worst, control);
  EXPECT_LT(worst, tolerance);
  if (!racechecked()) {
    EXPECT_GT(control, tolerance);
  }
}

TEST_F(MtpDrafter, ExactDraftsFollowCommittedPaths) {
  follow_paths(ActivationFormat::kFP32, 2e-3);
}
TEST_F(MtpDrafterHopper, FastDraftsFollowCommittedPaths) {
  follow_paths(ActivationFormat::kBF16, 0.3);
}

// Bit for bit, whether a draft is one graph or kernel by kernel.
TEST_F(MtpDrafterHopper, GraphsChangeNothing) {
  EngineOptions options = options_of(BackendKind::kCuda, ActivationFormat::kBF16);
  const auto graphs = open_cuda(embedded_model(), options);
  options.cuda.graph = options.cuda.programmatic = false;
  const auto plain = open_cuda(embedded_model(), options);
  const std::vector<std::int32_t> text = random_tokens(200, 5);
  for (Backend* backend : {graphs.get(), plain.get()}) backend->prefill(std::span(text).first(30));
  std::size_t at = 30;
  for (const std::size_t count : some<std::size_t>("rounds", {1, 3, 8, 9, 16, 32, 17}, 7, 1)) {
    EXPECT_TRUE(draft(*graphs, text[at], 7) == draft(*plain, text[at], 7)) << "at " << at;
    for (Backend* backend : {graphs.get(), plain.get()}) {
      backend->verify(std::span(text).subspan(at, count), {.logits = false});
      backend->commit(static_cast<int>(count));
    }
    at += count;
  }
}

// Trees and chains drafted by the head write the text of plain decoding, in fewer rounds.
TEST_F(MtpDrafterHopper, DraftsWriteTheGreedyText) {
  const auto backend = open_cuda(embedded_model(), options_of(BackendKind::kCuda, ActivationFormat::kBF16));
  const std::size_t count = amount<std::size_t>("tokens", 120, 12, 3);
  const std::uint64_t prompts = amount("prompts", 3, 1);
  for (const std::int64_t candidates : some<std::int64_t>("candidates", {1, 4}, 2, 1)) {
    double tokens = 0;
    double rounds = 0;
    for (std::uint64_t seed = 1; seed <= prompts; ++seed) {
      const std::vector<std::int32_t> prompt = random_tokens(30, seed);
      backend->reset();
      std::vector<std::int32_t> plain = {argmax(backend->prefill(prompt))};
      while (plain.size() < count) {
        plain.push_back(backend->verify(std::span(&plain.back(), 1), {.logits = false}).best[0]);
        backend->commit(1);
      }
      backend->reset();
      std::vector<std::int32_t> text = {argmax(backend->prefill(prompt))};
      for (; text.size() < count; ++rounds) {
        const DraftOutput drafted = backend->draft({.anchor = text.back(), .tokens = 4, .candidates = candidates});
        const TokenTree tree = grow_tree(text.back(), drafted, {.nodes = 12, .candidates = candidates});
        const VerifyOutput output = backend->verify(tree, {.logits = false});
        int node = 0;
        const auto chosen_child = [&] { return tree.child(node, output.best[static_cast<std::size_t>(node)]); };
        for (int child = chosen_child(); child >= 0; child = chosen_child()) {
          node = child;
          text.push_back(tree.tokens()[static_cast<std::size_t>(node)]);
        }
        text.push_back(output.best[static_cast<std::size_t>(node)]);
        backend->commit(tree.path_to(node));
      }
      tokens += static_cast<double>(text.size());
      text.resize(count);
      EXPECT_TRUE(text == plain) << "seed " << seed;
    }
    std::printf("%lld candidates: %.2f tokens a round\n", static_cast<long long>(candidates), tokens / rounds);
    if (!sanitized()) {
      EXPECT_GT(tokens / rounds, 1.5);
    }
  }
}

TEST_F(MtpDrafter, HoldsWhatItPlans) {
  for (const std::int64_t shortlist : {0, 1000}) {
    const auto backend =
        open_cuda(embedded_model(), options_of(BackendKind::kCuda, ActivationFormat::kFP32, shortlist));
    const std::vector<MemoryPart> plan = backend->memory_plan(backend->options().kv, backend->capacity());
    for (const MemoryPart& held : backend->inventory(0, 1).resident_parts()) {
      std::uint64_t planned = 0;
      for (const MemoryPart& part : plan) planned += inventory_part(part.name) == held.name ? part.bytes : 0;
      EXPECT_EQ(planned, held.bytes) << held.name;
    }
  }
}

TEST_F(MtpDrafter, TheLastSlotsOfTheContext) {
  EngineOptions options = options_of(BackendKind::kCuda, ActivationFormat::kFP32);
  options.context = 50;
  const auto backend = open_cuda(embedded_model(), options);
  backend->prefill(random_tokens(45, 6));
  EXPECT_EQ(backend->draft({.anchor = 5, .tokens = 15, .candidates = 2}).rows, 4);
  backend->prefill(random_tokens(4, 7));
  EXPECT_EQ(backend->draft({.anchor = 5, .tokens = 15, .candidates = 2}).rows, 0);
  EXPECT_THROW((void)backend->draft({.anchor = 5, .tokens = 32, .candidates = 2}), Error);
  EXPECT_THROW((void)backend->draft({.anchor = 5, .tokens = 1, .candidates = 33}), Error);
}

TEST_F(MtpDrafter, RefusesACheckpointWithoutTheHead) {
  const std::string without = (source_folder() / "tests" / "fixtures" / "hybrid-headdim256").string();
  EXPECT_THROW((void)open_cuda(without, options_of(BackendKind::kCuda, ActivationFormat::kFP32)), Error);
}

}  // namespace
}  // namespace tare::engine::test
