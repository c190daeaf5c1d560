// A prompt that goes on from a kept prefix says what it says when it is computed whole: bit for bit with exact codecs,
// on every way that a sequence can take afterwards; and what may never hit, does not.
#include "engine/decode/prefix_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "base/philox.h"
#include "engine/decode/session.h"
#include "tests/engine/cpu_fixture.h"
#include "tests/engine/embedded_model.h"
#include "tests/engine/model_files.h"

namespace tare::engine::test {
namespace {

constexpr std::int64_t kPage = 16;

struct Subject {
  std::string name;
  std::string model;
  std::vector<std::string> options;
  std::int64_t page = kPage;
};

std::string small_model() {
  return "synthetic:hidden=80,intermediate=96,layers=8,vocab=331,heads=4,kv_heads=2,head_dim=24,rotary=8,"
         "linear_key_heads=2,linear_value_heads=4,linear_key_head_dim=16,linear_value_head_dim=24,mtp_layers=1,"
         "positions=512,tied=0?seed=3";
}

std::vector<Subject> subjects() {
  const std::string narrow =
      "synthetic:hidden=64,intermediate=64,layers=4,vocab=300,heads=2,kv_heads=1,head_dim=32,"
      "rotary=16,linear_key_heads=2,linear_value_heads=2,linear_key_head_dim=16,"
      "linear_value_head_dim=16,positions=512,tied=0?seed=5";
  return {{"Exact", fixture("hybrid-small").string(), {"kv.key=fp32", "kv.value=fp32"}},
          {"Bf16", small_model(), {"state.convolution=bf16", "state.recurrent=bf16"}},
          {"Narrow", narrow, {"kv.key=fp8", "kv.value=nvfp4", "state.recurrent=int8"}},
          {"Int8Rotated", narrow, {"kv.key=int8", "kv.value=int8", "kv.rotation=hadamard", "state.recurrent=fp16"}},
          {"Chunked", small_model(), {"gdn.form=chunked"}, 64},
          {"Snapshot", small_model(), {"rollback=snapshot"}},
          {"TreeChunk", small_model(), {"rollback=tree_chunk"}},
          {"Block", fixture("hybrid-small").string(), {"speculate.drafter=" + fixture("block-drafter").string()}},
          {"Mtp", small_model(), {"speculate.drafter=mtp"}},
          {"MtpLongPages", small_model(), {"speculate.drafter=mtp"}, 80},
          {"EmbeddedMtp", embedded_model(), {"speculate.drafter=mtp"}},
          {"EmbeddedBlock", embedded_model(), {"speculate.drafter=" + embedded_drafter()}}};
}

struct Opened {
  std::unique_ptr<Checkpoint> checkpoint;
  std::unique_ptr<Backend> backend;
  std::string identity;
};

EngineOptions options_of(const std::vector<std::string>& assignments, std::int64_t page) {
  EngineOptions options;
  options.context = 512;
  options.cpu.threads = 2;
  options.prefix_cache.bytes = std::int64_t{1} << 30;
  options.prefix_cache.page_tokens = page;
  for (const std::string& assignment : assignments) apply_option(options, assignment);
  return options;
}

Opened open(const std::string& model, const EngineOptions& options) {
  Opened opened;
  opened.checkpoint = open_checkpoint(model);
  opened.backend = make_cpu_backend(*opened.checkpoint, options);
  opened.identity = prefix_identity(*opened.checkpoint, *opened.backend);
  return opened;
}

Opened open(const Subject& subject) {
  return open(subject.model, options_of(subject.options, subject.page));
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

// What a sequence says from here on: one token at a time, then rounds of up to 16 nodes with paths accepted and
// rejected, with the drafts before each where there is a drafter. Ends with another prefill.
std::vector<float> say(Backend& backend, std::uint64_t stream) {
  const std::int64_t vocab = backend.config().vocab_size;
  const std::vector<std::int32_t> tokens = text(vocab, 40, stream);
  const bool chains = backend.options().gdn.form == GdnForm::kChunked;
  std::vector<float> said;
  const auto append = [&](std::span<const float> values) { said.insert(said.end(), values.begin(), values.end()); };
  for (std::size_t i = 0; i < 3; ++i) {
    append(backend.verify(std::span(tokens).subspan(i, 1)).logits);
    backend.commit(1);
  }
  for (std::size_t at = 3; at < 30; at += 3) {
    if (backend.has_drafter()) append(backend.draft({tokens[at], 5, 8, 1}).log_probabilities);
    TokenTree tree(tokens[at]);
    std::vector<std::int32_t> path = {0};
    for (std::size_t i = 1; i < 4; ++i) {
      path.push_back(tree.add(path.back(), tokens[at + i]));
      if (!chains)
        for (std::int32_t other = 0; other < 4; ++other)
          tree.add(path[i - 1], (tokens[at + i] + 1 + other) % static_cast<std::int32_t>(vocab));
    }
    append(backend.verify(tree).logits);
    path.resize(3);  // the last node of the path is rejected
    backend.commit(path);
  }
  append(backend.prefill(std::span(tokens).subspan(30)));
  return said;
}

class PrefixReuse : public testing::TestWithParam<Subject> {};

TEST_P(PrefixReuse, ColdEqualsHitBitForBit) {
  const Opened opened = open(GetParam());
  Backend& backend = *opened.backend;
  PrefixCache cache(backend.options().prefix_cache);
  const std::vector<std::int32_t> prompt = text(backend.config().vocab_size, 201, 1);
  const std::int64_t pages = 200 / GetParam().page * GetParam().page;

  const std::vector<float> cold_logits = kept(backend.prefill(prompt));
  const std::vector<float> cold = say(backend, 7);
  for (int use = 0; use < 3; ++use) {  // the first stores; the third finds what was found before
    const PrefixCache::Prefilled prefilled = cache.prefill(backend, opened.identity, prompt);
    EXPECT_EQ(prefilled.restored, use == 0 ? 0 : pages);
    EXPECT_EQ(backend.frontier(), 201);
    EXPECT_TRUE(same_bits(prefilled.logits, cold_logits)) << "use " << use;
    EXPECT_TRUE(same_bits(say(backend, 7), cold)) << "use " << use;
  }
  // Another text that begins alike.
  std::vector<std::int32_t> other = prompt;
  const std::size_t shared = static_cast<std::size_t>(GetParam().page + GetParam().page / 2);
  other[shared] = (other[shared] + 1) % static_cast<std::int32_t>(backend.config().vocab_size);
  backend.reset();
  const std::vector<float> other_logits = kept(backend.prefill(other));
  const std::vector<float> other_cold = say(backend, 8);
  const PrefixCache::Prefilled prefilled = cache.prefill(backend, opened.identity, other);
  EXPECT_EQ(prefilled.restored, GetParam().page);
  EXPECT_TRUE(same_bits(prefilled.logits, other_logits));
  EXPECT_TRUE(same_bits(say(backend, 8), other_cold));
  EXPECT_FALSE(same_bits(other_cold, cold));
}

// Bytes that some sequence wrote become those of NaN in every format; padding, which none writes, stays zero.
void poison(std::vector<std::byte>& bytes) {
  for (std::byte& byte : bytes)
    if (byte != std::byte{0}) byte = std::byte{0xFF};
}

// Every slot that a restore does not write holds NaN, and so does the state before it.
TEST_P(PrefixReuse, ReadsNothingButWhatWasRestored) {
  const Opened opened = open(GetParam());
  Backend& backend = *opened.backend;
  PrefixCache cache(backend.options().prefix_cache);
  const std::vector<std::int32_t> prompt = text(backend.config().vocab_size, 201, 1);
  const std::vector<float> logits = kept(cache.prefill(backend, opened.identity, prompt).logits);
  const std::int64_t end = 384 / GetParam().page * GetParam().page;  // beyond the prompt and all that is said after it
  backend.reset();
  (void)backend.prefill(text(backend.config().vocab_size, static_cast<std::size_t>(end), 4));
  SequenceCheckpoint bad = backend.export_checkpoint();
  for (float& value : bad.recurrent) value = std::numeric_limits<float>::quiet_NaN();
  poison(bad.beside);
  std::vector<std::byte> rows = backend.export_rows(0, end);
  poison(rows);
  const auto spoil = [&](Backend& spoiled) {
    spoiled.reset();
    spoiled.import_rows(0, end, rows);
    spoiled.import_checkpoint(bad);
  };
  // The control, in another engine: work buffers do not survive a pass over NaN.
  const Opened other = open(GetParam());
  spoil(*other.backend);
  EXPECT_THROW((void)other.backend->prefill(std::span(prompt).first(1)), Error) << "the poison is where it is found";
  spoil(backend);
  const PrefixCache::Prefilled prefilled = cache.prefill(backend, opened.identity, prompt);
  EXPECT_GT(prefilled.restored, 0);
  EXPECT_TRUE(same_bits(prefilled.logits, logits));
  for (const float value : say(backend, 7)) ASSERT_TRUE(std::isfinite(value));
}

TEST_P(PrefixReuse, ARestoredStateIsThereAfterARejectedVerify) {
  const Opened opened = open(GetParam());
  Backend& backend = *opened.backend;
  PrefixCache cache(backend.options().prefix_cache);
  const std::vector<std::int32_t> prompt = text(backend.config().vocab_size, 161, 1);
  (void)backend.prefill(prompt);
  const std::vector<float> cold = say(backend, 7);
  (void)cache.prefill(backend, opened.identity, prompt);
  (void)backend.verify(std::span(prompt).first(9));
  backend.commit(std::vector<std::int32_t>{});
  EXPECT_TRUE(same_bits(say(backend, 7), cold)) << "nothing was accepted";
  (void)backend.verify(std::span(prompt).first(9));  // and now a restore while nodes wait
  EXPECT_GT(cache.prefill(backend, opened.identity, prompt).restored, 0);
  EXPECT_TRUE(same_bits(say(backend, 7), cold));
}

INSTANTIATE_TEST_SUITE_P(Subjects, PrefixReuse, testing::ValuesIn(subjects()),
                         [](const testing::TestParamInfo<Subject>& info) { return info.param.name; });

// A restored drafter that has not its context writes the right text in rounds of one token: so rounds are compared.
TEST(PrefixCache, DraftedRoundsAreTheSame) {
  for (const std::string& drafter : {std::string("mtp"), embedded_drafter()}) {
    const Opened opened = open(embedded_model(), options_of({"speculate.drafter=" + drafter}, 32));
    PrefixCache cache(opened.backend->options().prefix_cache);
    const std::vector<std::int32_t> prompt = suite_prompts(9).front();
    ASSERT_GT(prompt.size(), 33U);
    GenerationLimits limits{.max_tokens = 48, .record_shapes = true};
    const Generation cold = generate(*opened.backend, prompt, *make_greedy_policy(), limits);
    limits.prefixes = {&cache, opened.identity};
    (void)generate(*opened.backend, prompt, *make_greedy_policy(), limits);
    const Generation hit = generate(*opened.backend, prompt, *make_greedy_policy(), limits);
    EXPECT_EQ(hit.restored_tokens, static_cast<std::int64_t>(prompt.size() - 1) / 32 * 32);
    EXPECT_EQ(hit.tokens, cold.tokens);
    EXPECT_EQ(hit.shapes, cold.shapes);
    EXPECT_LT(hit.rounds.size(), 40U) << "drafts are accepted, or the comparison says nothing";
  }
}

class PrefixCacheOfSmall : public testing::Test {
 protected:
  Opened opened_ = open({"", small_model(), {}, kPage});
  Backend& backend_ = *opened_.backend;
  std::int64_t vocab_ = backend_.config().vocab_size;

  [[nodiscard]] EngineOptions::PrefixCache settings(std::int64_t bytes) const {
    EngineOptions::PrefixCache settings = backend_.options().prefix_cache;
    settings.bytes = bytes;
    return settings;
  }
  std::int64_t restored(PrefixCache& cache, const std::vector<std::int32_t>& prompt) {
    return cache.prefill(backend_, opened_.identity, prompt).restored;
  }
  // Bytes of a prompt's first entry, and of every further one.
  std::int64_t entry_bytes() {
    PrefixCache cache(settings(std::int64_t{1} << 30));
    (void)restored(cache, text(vocab_, kPage + 1, 50));
    return cache.statistics().bytes;
  }
};

TEST_F(PrefixCacheOfSmall, NothingElseEverHits) {
  PrefixCache cache(settings(std::int64_t{1} << 30));
  const std::vector<std::int32_t> prompt = text(vocab_, 70, 1);
  (void)restored(cache, prompt);
  EXPECT_EQ(cache.kept_tokens(opened_.identity, prompt), 64);
  for (const std::size_t place : {0U, 15U, 16U, 40U, 63U}) {
    std::vector<std::int32_t> other = prompt;
    other[place] = (other[place] + 1) % static_cast<std::int32_t>(vocab_);
    EXPECT_EQ(cache.kept_tokens(opened_.identity, other), static_cast<std::int64_t>(place) / kPage * kPage) << place;
  }
  // The same tokens a page later, and in the middle of a prompt.
  std::vector<std::int32_t> later = text(vocab_, kPage, 2);
  later.insert(later.end(), prompt.begin(), prompt.end());
  EXPECT_EQ(cache.kept_tokens(opened_.identity, later), 0);

  const auto identity_of = [&](const std::string& model, const std::vector<std::string>& options) {
    return open(model, options_of(options, kPage)).identity;
  };
  const std::string seed4 = small_model().substr(0, small_model().size() - 1) + "4";
  std::vector<std::string> others = {identity_of(seed4, {})};
  for (const char* option : {"kv.key=fp8", "kv.value=fp32", "kv.rotation=none", "state.recurrent=bf16",
                             "gdn.form=chunked", "weights.format=q4", "speculate.drafter=mtp",
                             "prefix_cache.checkpoint=bf16", "activations.format=q8", "rollback=snapshot"}) {
    const bool chunked = std::string(option) == "gdn.form=chunked";
    const std::vector<std::string> set =
        chunked ? std::vector<std::string>{option, "prefix_cache.page_tokens=64"} : std::vector<std::string>{option};
    if (std::string(option) == "kv.rotation=none") continue;  // the default
    others.push_back(identity_of(small_model(), set));
  }
  for (const std::string& other : others) EXPECT_EQ(cache.kept_tokens(other, prompt), 0);
  // What changes no value of a state does not part them.
  EXPECT_EQ(identity_of(small_model(), {"cpu.threads=1", "context=300", "perturb.place=logits", "handicap.ns=5",
                                        "prefix_cache.bytes=77"}),
            opened_.identity);
}

TEST_F(PrefixCacheOfSmall, AtLeastOneTokenIsComputed) {
  PrefixCache cache(settings(std::int64_t{1} << 30));
  const std::vector<std::int32_t> prompt = text(vocab_, 2 * kPage, 1);
  EXPECT_EQ(restored(cache, prompt), 0);
  EXPECT_EQ(restored(cache, prompt), kPage) << "all of it is kept, and the logits after its last token are wanted";
  EXPECT_EQ(cache.statistics().stored, 2) << "the second page is there once";
  std::vector<std::int32_t> longer = prompt;
  longer.push_back(1);
  EXPECT_EQ(restored(cache, longer), 2 * kPage);
  EXPECT_EQ(restored(cache, {prompt.front()}), 0);
}

TEST_F(PrefixCacheOfSmall, TheLongestUnusedGoesFirstAndNoneBeforeWhatContinuesIt) {
  const std::int64_t entry = entry_bytes();
  PrefixCache cache(settings(3 * entry));
  const std::vector<std::int32_t> a = text(vocab_, 2 * kPage + 1, 1);
  const std::vector<std::int32_t> b = text(vocab_, kPage + 1, 2);
  const std::vector<std::int32_t> c = text(vocab_, kPage + 1, 3);
  (void)restored(cache, a);  // two entries
  (void)restored(cache, b);
  EXPECT_EQ(cache.statistics().evicted, 0);
  (void)restored(cache, c);  // a is the oldest: its second page goes, the first is only then one that nothing continues
  EXPECT_EQ(cache.statistics().evicted, 1);
  EXPECT_EQ(cache.kept_tokens(opened_.identity, a), kPage);
  EXPECT_EQ(cache.kept_tokens(opened_.identity, b), kPage);
  EXPECT_EQ(cache.kept_tokens(opened_.identity, c), kPage);
  (void)restored(cache, std::vector<std::int32_t>(a.begin(), a.begin() + kPage + 1));  // used, so b is the oldest
  (void)restored(cache, text(vocab_, kPage + 1, 4));
  EXPECT_EQ(cache.kept_tokens(opened_.identity, b), 0);
  EXPECT_EQ(cache.kept_tokens(opened_.identity, a), kPage);
  EXPECT_LE(cache.statistics().most_bytes, 3 * entry);
  EXPECT_EQ(cache.statistics().bytes, 3 * entry);
}

TEST_F(PrefixCacheOfSmall, BudgetsThatHoldLittleOrNothing) {
  const std::int64_t entry = entry_bytes();
  const std::vector<std::int32_t> prompt = text(vocab_, 4 * kPage + 1, 1);
  backend_.reset();
  const std::vector<float> cold = kept(backend_.prefill(prompt));
  for (const std::int64_t bytes : {std::int64_t{0}, entry - 1, entry, 2 * entry + 5}) {
    PrefixCache cache(settings(bytes));
    for (int use = 0; use < 3; ++use) {
      const PrefixCache::Prefilled prefilled = cache.prefill(backend_, opened_.identity, prompt);
      EXPECT_EQ(prefilled.restored, use == 0 ? 0 : bytes / entry * kPage) << bytes;
      EXPECT_TRUE(same_bits(prefilled.logits, cold));
    }
    EXPECT_LE(cache.statistics().most_bytes, bytes);
    EXPECT_EQ(cache.statistics().evicted, 0) << "a prompt never drives out its own beginning";
  }
}

TEST_F(PrefixCacheOfSmall, APromptThatFailsLeavesNothing) {
  PrefixCache cache(settings(std::int64_t{1} << 30));
  std::vector<std::int32_t> prompt = text(vocab_, 50, 1);
  prompt[45] = static_cast<std::int32_t>(vocab_);
  EXPECT_THROW((void)restored(cache, prompt), Error);
  EXPECT_EQ(cache.statistics().bytes, 0);
  EXPECT_EQ(cache.kept_tokens(opened_.identity, prompt), 0);
  prompt[45] = 0;
  EXPECT_EQ(restored(cache, prompt), 0);
  EXPECT_EQ(restored(cache, prompt), 48);
}

// A checkpoint in fewer bits: what goes on from it is near, in the order of the formats, and not the same.
TEST(PrefixCache, CoarserCheckpointsCostLittleAndInOrder) {
  const std::vector<std::int32_t> prompt = suite_prompts(9).front();
  std::vector<double> errors;
  std::vector<std::int64_t> bytes;
  for (const char* codec : {"fp32", "fp16", "bf16", "int8"}) {
    const Opened opened = open(embedded_model(), options_of({std::string("prefix_cache.checkpoint=") + codec}, 32));
    PrefixCache cache(opened.backend->options().prefix_cache);
    const std::vector<float> cold = kept(cache.prefill(*opened.backend, opened.identity, prompt).logits);
    const PrefixCache::Prefilled hit = cache.prefill(*opened.backend, opened.identity, prompt);
    EXPECT_GT(hit.restored, 0);
    errors.push_back(max_difference(cold, hit.logits));
    bytes.push_back(cache.statistics().bytes);
  }
  EXPECT_EQ(errors[0], 0);
  EXPECT_GT(errors[1], 0);
  EXPECT_LT(errors[1], errors[2]);
  EXPECT_LT(errors[2], errors[3]);
  EXPECT_LT(errors[3], 1.0) << "of logits up to 25";
  EXPECT_LT(bytes[1], bytes[0]);
  EXPECT_LT(bytes[3], bytes[2]);
}

// The trap of hybrids: rows of a longer prefix under a checkpoint of a shorter one, or the reverse, continue nothing.
TEST_F(PrefixCacheOfSmall, RowsAndCheckpointsOfDifferentLengthsDoNotGoTogether) {
  const std::vector<std::int32_t> prompt = text(vocab_, 64, 1);
  const std::vector<std::int32_t> next = text(vocab_, 1, 2);
  backend_.reset();
  (void)backend_.prefill(std::span(prompt).first(48));
  SequenceCheckpoint early = backend_.export_checkpoint();
  (void)backend_.prefill(std::span(prompt).subspan(48));
  const std::vector<std::byte> rows = backend_.export_rows(0, 64);
  const SequenceCheckpoint right = backend_.export_checkpoint();
  const std::vector<float> cold = kept(backend_.prefill(next));
  const auto with = [&](SequenceCheckpoint checkpoint) {
    checkpoint.tokens = 64;
    backend_.reset();
    backend_.import_rows(0, 64, rows);
    backend_.import_checkpoint(checkpoint);
    return kept(backend_.prefill(next));
  };
  EXPECT_TRUE(same_bits(with(right), cold));
  EXPECT_GT(max_difference(with(early), cold), 1e-3);
  EXPECT_THROW(backend_.import_rows(0, 63, rows), Error);
  early.recurrent.pop_back();
  EXPECT_THROW(backend_.import_checkpoint(early), Error);
}

TEST(PrefixCache, PagesOfTheChunkFormAreWholeBlocks) {
  EXPECT_THROW((void)open(small_model(), options_of({"gdn.form=chunked"}, 80)), Error);
  const Opened opened = open(small_model(), options_of({"gdn.form=chunked"}, 64));
  (void)opened.backend->prefill(text(opened.backend->config().vocab_size, 65, 1));
  EXPECT_THROW((void)opened.backend->export_checkpoint(), Error);
}

}  // namespace
}  // namespace tare::engine::test
