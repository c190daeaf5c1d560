// The prefix cache over the CUDA backend: a prompt that goes on from a kept prefix has the bits of one that was
// computed, in rounds of one token, of sixteen and of trees.
#include "engine/decode/prefix_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <iostream>

#include "base/error.h"
#include "base/philox.h"
#include "engine/cuda/cuda_backend.h"
#include "tests/cuda/gpu/gpu_test.h"
#include "tests/cuda/gpu/sanitized.h"
#include "tests/engine/cpu_fixture.h"
#include "tests/engine/embedded_model.h"

namespace tare::engine::test {
namespace {

constexpr std::int64_t kPage = 128;

EngineOptions cuda_options(const std::vector<std::string>& assignments) {
  EngineOptions options;
  options.backend = BackendKind::kCuda;
  options.context = 4096;
  options.prefix_cache.bytes = std::int64_t{1} << 30;
  options.prefix_cache.page_tokens = kPage;
  for (const std::string& assignment : assignments) apply_option(options, assignment);
  return options;
}

struct Opened {
  std::unique_ptr<Checkpoint> checkpoint;
  std::unique_ptr<Backend> backend;
  std::string identity;
};
Opened open(const std::string& model, const std::vector<std::string>& assignments) {
  Opened opened;
  opened.checkpoint = open_checkpoint(model);
  opened.backend = make_cuda_backend(*opened.checkpoint, cuda_options(assignments));
  opened.identity = prefix_identity(*opened.checkpoint, *opened.backend);
  return opened;
}

std::vector<std::int32_t> text(std::int64_t vocab, std::size_t count, std::uint64_t stream) {
  Philox random(21, stream);
  std::vector<std::int32_t> tokens(count);
  for (std::int32_t& token : tokens) token = static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(vocab)));
  return tokens;
}

std::vector<float> kept(std::span<const float> values) {
  return {values.begin(), values.end()};
}

// Rounds of 1 and 16, a tree of which a path with a gap is kept, and what a prefill says after them.
std::vector<float> say(Backend& backend) {
  const std::size_t count = amount<std::size_t>("tokens after the prompt", 60, 60, 24);
  const std::vector<std::int32_t> tokens = text(backend.config().vocab_size, count, 7);
  std::vector<float> said;
  const auto append = [&](std::span<const float> values) { said.insert(said.end(), values.begin(), values.end()); };
  append(backend.verify(std::span(tokens).first(1)).logits);
  backend.commit(1);
  append(backend.verify(std::span(tokens).subspan(1, 16)).logits);
  backend.commit(11);
  TokenTree tree(tokens[12]);
  (void)tree.add(0, tokens[13]);
  const std::int32_t second = tree.add(0, tokens[14]);
  const std::int32_t third = tree.add(second, tokens[15]);
  append(backend.verify(tree).logits);
  backend.commit(std::vector<std::int32_t>{0, second, third});
  append(backend.verify(std::span(tokens).subspan(16, 1)).logits);
  backend.commit(1);
  append(backend.prefill(std::span(tokens).subspan(17)));
  return said;
}

class CudaPrefix : public HopperTest, public ::testing::WithParamInterface<std::vector<std::string>> {};

INSTANTIATE_TEST_SUITE_P(
    Options, CudaPrefix,
    ::testing::Values(std::vector<std::string>{}, std::vector<std::string>{"kv.key=fp8", "kv.value=fp8"},
                      std::vector<std::string>{"kv.key=fp32", "kv.value=fp32", "state.convolution=bf16"},
                      std::vector<std::string>{"state.recurrent=fp16", "weights.format=q4"},
                      std::vector<std::string>{"state.recurrent=bf16", "gdn.form=chunked"},
                      std::vector<std::string>{"state.recurrent=int8"},
                      std::vector<std::string>{"kv.key=int8", "kv.value=int8", "kv.rotation=hadamard"},
                      std::vector<std::string>{"kv.key=nvfp4", "kv.value=nvfp4"},
                      std::vector<std::string>{"rollback=snapshot"}));

TEST_P(CudaPrefix, ColdEqualsHitBitForBit) {
  if (!GetParam().empty()) TARE_SKIP_WHERE_RACECHECKED("this test of the default options, and in tests of formats");
  const Opened opened = open(embedded_model(), GetParam());
  Backend& backend = *opened.backend;
  PrefixCache cache(backend.options().prefix_cache);
  PrefixCache none(EngineOptions::PrefixCache{.bytes = 0, .page_tokens = kPage});
  const std::size_t count = amount<std::size_t>("tokens of the prompt", 700, 300, 140);
  const int uses = amount("uses", 3, 2, 1);
  const std::vector<std::int32_t> prompt = text(backend.config().vocab_size, count, 1);
  // Cold passes end where pages end, as those of a hit do: a pass of another length rounds elsewhere.
  const std::vector<float> cold_logits = kept(none.prefill(backend, opened.identity, prompt).logits);
  const std::vector<float> cold = say(backend);
  for (int use = 0; use < uses; ++use) {
    const PrefixCache::Prefilled prefilled = cache.prefill(backend, opened.identity, prompt);
    EXPECT_EQ(prefilled.restored, use == 0 ? 0 : static_cast<std::int64_t>(count) / kPage * kPage);
    EXPECT_TRUE(same_bits(prefilled.logits, cold_logits)) << "use " << use;
    EXPECT_TRUE(same_bits(say(backend), cold)) << "use " << use;
    (void)backend.verify(std::span(prompt).first(9));  // nodes wait when the next use restores
  }
  // A prompt that shares one page, and the control: it says something else.
  std::vector<std::int32_t> other = prompt;
  std::int32_t& changed = other[std::min<std::size_t>(200, count - 1)];
  changed = (changed + 1) % static_cast<std::int32_t>(backend.config().vocab_size);
  const std::vector<float> other_logits = kept(none.prefill(backend, opened.identity, other).logits);
  const PrefixCache::Prefilled prefilled = cache.prefill(backend, opened.identity, other);
  EXPECT_EQ(prefilled.restored, kPage);
  EXPECT_TRUE(same_bits(prefilled.logits, other_logits));
  EXPECT_FALSE(same_bits(other_logits, cold_logits));
}

class CudaPrefixCache : public HopperTest {};

TEST_F(CudaPrefixCache, CoarserCheckpointsCostInOrder) {
  TARE_SKIP_WHERE_RACECHECKED("CudaPrefix.ColdEqualsHitBitForBit; checkpoints are coded on the host");
  constexpr std::size_t kTokens = 700;
  const std::vector<std::int32_t> prompt = text(4096, kTokens, 1);
  std::vector<double> errors;
  for (const char* codec : {"fp32", "bf16", "int8"}) {
    const Opened opened = open(embedded_model(), {std::string("prefix_cache.checkpoint=") + codec});
    PrefixCache cache(opened.backend->options().prefix_cache);
    const std::vector<float> cold = kept(cache.prefill(*opened.backend, opened.identity, prompt).logits);
    const PrefixCache::Prefilled hit = cache.prefill(*opened.backend, opened.identity, prompt);
    EXPECT_EQ(hit.restored, static_cast<std::int64_t>(kTokens) / kPage * kPage);
    errors.push_back(max_difference(cold, hit.logits));
  }
  std::cout << "[          ] largest error of logits: bf16 " << errors[1] << ", int8 " << errors[2] << "\n";
  EXPECT_EQ(errors[0], 0);
  EXPECT_GT(errors[1], 0);
  EXPECT_LT(errors[1], 1);
  EXPECT_GT(errors[2], errors[1]);
  EXPECT_LT(errors[2], 2);
}

TEST_F(CudaPrefixCache, WhatCannotBeKeptIsRefused) {
  for (const std::vector<std::string>& options :
       {std::vector<std::string>{"speculate.drafter=mtp"}, std::vector<std::string>{"activations.format=fp32"},
        std::vector<std::string>{"prefix_cache.page_tokens=100"}})
    EXPECT_THROW((void)open(embedded_model(), options), Error) << options.front();
}

// A figure, not a bound: what a hit spares at the 27B's shape.
TEST_F(CudaPrefixCache, TimeThatItSparesThe27B) {
  if (sanitized()) GTEST_SKIP() << "a time, while compute-sanitizer watches";
  const Opened opened = open("synthetic:27b?seed=1",
                             {"weights.format=q4", "prefix_cache.page_tokens=1024", "prefix_cache.bytes=4000000000"});
  PrefixCache cache(opened.backend->options().prefix_cache);
  constexpr std::size_t kCount = 3200;
  constexpr int kUses = 4;
  const std::vector<std::int32_t> prompt = text(opened.backend->config().vocab_size, kCount, 1);
  for (int use = 0; use < kUses; ++use) {
    const auto start = std::chrono::steady_clock::now();
    const std::int64_t restored = cache.prefill(*opened.backend, opened.identity, prompt).restored;
    const double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    std::cout << "[          ] " << kCount << " tokens, " << restored << " restored: " << ms << " ms\n";
    EXPECT_EQ(restored, use == 0 ? 0 : static_cast<std::int64_t>(kCount / 1024 * 1024));
  }
  std::cout << "[          ] " << to_json(cache.statistics()).dump() << "\n";
}

}  // namespace
}  // namespace tare::engine::test
