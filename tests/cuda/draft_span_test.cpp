// Which positions a draft's rows see and how they are cut into parts; the vocabulary in chunks; what a drafter keeps.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "base/error.h"
#include "base/philox.h"
#include "engine/checkpoint/synthetic.h"
#include "engine/cuda/drafter/block_drafter.h"

namespace tare::engine {
namespace {

TEST(DraftSpan, IsWhatTheMaskSays) {
  Philox random(1);
  for (int i = 0; i < 3000; ++i) {
    const auto below = [&](std::uint64_t bound) { return static_cast<int>(random.below(bound)); };
    const DraftSpan span{.frontier = 1 + below(400),
                         .block = 2 + below(31),
                         .window = i % 3 == 0 ? 0 : 1 + below(150),
                         .causal = i % 2 == 0,
                         .most_parts = 1 + below(9)};
    for (int row = 0; row < span.block; ++row) {
      const int own = span.frontier + row;
      for (int position = 0; position < span.end(); ++position) {
        const bool seen =
            (!span.causal || position <= own) && (span.window == 0 || std::abs(own - position) < span.window);
        ASSERT_EQ(seen, position >= span.first_seen(row) && position <= span.last_seen(row))
            << "row " << row << " of " << span.block << " at " << span.frontier << ", window " << span.window;
      }
      ASSERT_LE(span.begin(), span.first_seen(row));
    }
    ASSERT_EQ(span.begin() % DraftSpan::kTile, 0);
    ASSERT_LE(span.parts(), span.most_parts);
    ASSERT_GE(span.begin() + span.parts() * span.tiles_a_part() * DraftSpan::kTile, span.end());
    // No part is empty.
    ASSERT_LT(span.begin() + (span.parts() - 1) * span.tiles_a_part() * DraftSpan::kTile, span.end());
  }
}

TEST(DraftChunks, CoverEveryVocabulary) {
  for (const int vocab : {1, 255, 256, 257, 4096, 248320, 262144, 262145, 1'000'000}) {
    const LogitCut cut = cut_logits(vocab);
    EXPECT_LE(cut.chunks, kMostLogitChunks);
    EXPECT_GE(cut.chunks * cut.chunk_rows(), vocab);
    EXPECT_LT((cut.chunks - 1) * cut.chunk_rows(), vocab);
    EXPECT_LE(cut.stretches, kMostLogitStretches);
    EXPECT_GE(cut.stretches * cut.stretch_rows(), vocab);
    EXPECT_EQ(cut.stretch_rows(), kChunksAStretch * cut.chunk_rows());
    EXPECT_EQ(cut.stretch_rows() % 256, 0);  // planes are cut there
    std::set<int> places;
    for (int chunk = 0; chunk < cut.chunks; ++chunk) places.insert(logit_chunk_place(chunk));
    EXPECT_EQ(static_cast<int>(places.size()), cut.chunks);
    EXPECT_TRUE(*places.begin() >= 0 && *places.rbegin() < kMostLogitChunks);
  }
}

TEST(DraftChunks, RefuseHeadsThatAreTooLarge) {
  EXPECT_NO_THROW(check_head_shape(1 << 20, 32640));
  EXPECT_THROW(check_head_shape((1 << 20) + 1, 5120), Error);
  EXPECT_THROW(check_head_shape(248320, 32641), Error);
  EXPECT_THROW((void)cut_of({.rows = (1 << 20) + 1}), Error);
}

CudaDevice h200() {
  CudaDevice device;
  device.major = 9;
  device.multiprocessors = 132;
  return device;
}

EngineOptions options_of(WeightFormat format) {
  EngineOptions options;
  options.activations.format = ActivationFormat::kBF16;
  options.weights.format = format;
  options.prefill.chunk = 4096;
  return options;
}

std::map<std::string, std::uint64_t> plan_of(const EngineOptions& options, std::int64_t capacity) {
  const SyntheticCheckpoint target("synthetic:27b?seed=1");
  const auto drafter = open_block_drafter(kSyntheticDrafter, target);
  std::map<std::string, std::uint64_t> parts;
  for (const MemoryPart& part :
       CudaBlockDrafter::plan(drafter->config(), options, capacity, h200(), ProposalPlan(target, options)))
    parts[part.name] = part.bytes;
  return parts;
}

TEST(DrafterPlan, OfThe27B) {
  constexpr std::uint64_t kParameters = 1'730'213'120;
  constexpr std::uint64_t kTwice = 10'240ULL * 5120;  // keys and values of the context, by themselves
  const auto q4 = plan_of(options_of(WeightFormat::kQ4), 8192);
  const auto bf16 = plan_of(options_of(WeightFormat::kBF16), 8192);
  // 0.53125 bytes a weight; gains are FP32.
  EXPECT_NEAR(static_cast<double>(q4.at("drafter")), 0.53125 * (kParameters + kTwice), 1e6);
  EXPECT_NEAR(static_cast<double>(bf16.at("drafter")), 2.0 * (kParameters + kTwice), 1e6);
  EXPECT_EQ(q4.at("drafter's key-value cache"), 20'480U * 8192);  // the model specification's bytes a position
  EXPECT_EQ(plan_of(options_of(WeightFormat::kQ4), 16384).at("drafter's key-value cache"), 20'480U * 16384);
  EXPECT_GT(q4.at("drafter's work space"), 4096ULL * 25'600 * 2);  // taps of a prefill chunk
}

TEST(DrafterPlan, WhatIsBeyondTheKernelsIsRefused) {
  const SyntheticCheckpoint target("synthetic:27b?seed=1");
  const BlockDrafterConfig config = open_block_drafter(kSyntheticDrafter, target)->config();
  const auto refused = [&](const BlockDrafterConfig& shape, const char* assignment) {
    EngineOptions options = options_of(WeightFormat::kQ4);
    apply_option(options, assignment);
    EXPECT_THROW(CudaBlockDrafter::check(shape, options), Error) << assignment;
  };
  CudaBlockDrafter::check(config, options_of(WeightFormat::kQ4));
  refused(config, "speculate.candidates=33");
  refused(config, "speculate.draft_tokens=32");
  refused(config, R"(weights.overrides=[{"tensors": "drafter", "layers": [1, 1], "format": "q8"}])");
  BlockDrafterConfig odd = config;
  odd.head_dim = 130;
  refused(odd, "speculate.candidates=8");
}

}  // namespace
}  // namespace tare::engine
