// The head of a drafter: what a shortlist and a screen change of its drafts and of the rounds, and that they change no
// text.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "base/philox.h"
#include "engine/speculate/draft_tree.h"
#include "engine/speculate/shortlist.h"
#include "tests/engine/cpu_fixture.h"
#include "tests/engine/embedded_model.h"
#include "tests/engine/model_files.h"
#include "tests/source_folder.h"

namespace tare::engine::test {
namespace {

constexpr const char* kOddModel =
    "synthetic:hidden=80,intermediate=96,layers=8,vocab=331,heads=4,kv_heads=2,head_dim=24,rotary=8,"
    "linear_key_heads=2,linear_value_heads=4,linear_key_head_dim=16,linear_value_head_dim=16,mtp_layers=1,"
    "positions=512,tied=0?seed=3";

void write_counts(const std::filesystem::path& path, const std::vector<std::int32_t>& counts) {
  const Tensor tensor =
      make_tensor("counts", Dtype::kI32, {static_cast<std::int64_t>(counts.size())}, raw_bytes(counts));
  write_safetensors(path, std::span(&tensor, 1));
}

std::vector<std::int32_t> odd_counts() {
  std::vector<std::int32_t> counts(331);
  const Philox numbers(5, 2);
  for (std::size_t i = 0; i < 300; ++i) counts[i] = static_cast<std::int32_t>(40 * numbers.uniform_at(i));
  counts[299] = 1;
  return counts;  // 300.. are padding
}

TEST(Shortlist, TakesTheMostFrequentThenTheLowestIds) {
  const std::vector<std::int32_t> counts = {5, 0, 9, 9, 0, 7, 1, 0, 0, 0};
  EXPECT_THAT(choose_shortlist(counts, 3, {}), testing::ElementsAre(2, 3, 5));
  EXPECT_THAT(choose_shortlist(counts, 1, {}), testing::ElementsAre(2));
  EXPECT_THAT(choose_shortlist(counts, 6, {}), testing::ElementsAre(0, 1, 2, 3, 5, 6));
  // Tokens that end a text take the places of the rarest.
  const std::vector<std::int32_t> ends = {4, 9};
  EXPECT_THAT(choose_shortlist(counts, 3, ends), testing::ElementsAre(2, 4, 9));
  EXPECT_THAT(choose_shortlist(counts, 2, ends), testing::ElementsAre(4, 9));
  // 7 to 9 are behind the last token that ever occurred: padding, also when there is room.
  EXPECT_THAT(choose_shortlist(counts, 10, {}), testing::ElementsAre(0, 1, 2, 3, 4, 5, 6));
  EXPECT_THAT(choose_shortlist(counts, 10, ends), testing::ElementsAre(0, 1, 2, 3, 4, 5, 6, 9));
  EXPECT_THROW((void)choose_shortlist(counts, 1, ends), Error);
  EXPECT_THROW((void)choose_shortlist(counts, 11, {}), Error);
}

TEST(Shortlist, RefusesFilesThatAreNoCounts) {
  const ScratchDirectory scratch;
  const std::filesystem::path path = scratch.path() / "counts.safetensors";
  const auto refused = [&](const Tensor& tensor, const std::string& what) {
    write_safetensors(path, std::span(&tensor, 1));
    expect_refused([&] { (void)read_token_counts(path, 3); }, path.string(), what);
  };
  expect_refused([&] { (void)read_token_counts(path, 3); }, path.string(), "");
  refused(make_tensor("count", Dtype::kI32, {3}, raw_bytes<std::int32_t>({1, 2, 3})), "no tensor 'counts'");
  refused(make_tensor("counts", Dtype::kI64, {3}, raw_bytes<std::int64_t>({1, 2, 3})), "I64");
  refused(make_tensor("counts", Dtype::kI32, {2}, raw_bytes<std::int32_t>({1, 2})), "of 2 tokens");
  refused(make_tensor("counts", Dtype::kI32, {3}, raw_bytes<std::int32_t>({1, -2, 3})), "token 1 is -2");
  refused(make_tensor("counts", Dtype::kI32, {3}, raw_bytes<std::int32_t>({0, 0, 0})), "ever counted");
  write_counts(path, {1, 0, 3});
  EXPECT_THAT(read_token_counts(path, 3), testing::ElementsAre(1, 0, 3));
}

// scripts/shortlist-counts: texts of recorded rounds, in place of counts or on top of them.
TEST(Shortlist, IsRankedAgainByRecordedTexts) {
  const ScratchDirectory scratch;
  const auto path = [&](const char* name) { return (scratch.path() / name).string(); };
  const auto count = [&](const std::string& arguments) {
    const std::string script = (source_folder() / "scripts" / "shortlist-counts").string();
    return std::system(fmt::format("'{}' {} > '{}' 2>&1", script, arguments, path("log")).c_str());
  };
  write_file_atomically(path("rounds"), R"({"tare_rounds": 1, "model": "m", "vocab_size": 5, "options": {}}
{"prompt_id": "a", "category": "c", "prompt_tokens": [4, 4, 4], "tokens": [1, 3, 1], "rounds": []}
{"prompt_id": "b", "category": "c", "prompt_tokens": [4], "tokens": [0], "rounds": []}
)");
  const std::string out = path("out");
  ASSERT_EQ(count(fmt::format("'{}' --out '{}'", path("rounds"), out)), 0) << read_text_file(path("log"));
  EXPECT_THAT(read_token_counts(out, 5), testing::ElementsAre(1, 2, 0, 1, 0)) << "prompts do not count";
  write_counts(path("before"), {7, 0, 9, 0, 0});
  ASSERT_EQ(count(fmt::format("'{}' --add '{}' --weight 10 --out '{}'", path("rounds"), path("before"), out)), 0);
  EXPECT_THAT(read_token_counts(out, 5), testing::ElementsAre(17, 20, 9, 10, 0));

  const auto refused = [&](const std::string& arguments, const std::string& what) {
    EXPECT_NE(count(arguments + fmt::format(" --out '{}'", out)), 0);
    EXPECT_THAT(read_text_file(path("log")), testing::HasSubstr(what));
  };
  write_counts(path("other"), {1, 2});
  refused(fmt::format("'{}' --add '{}'", path("rounds"), path("other")), "is of 5 tokens, what came before of 2");
  write_file_atomically(path("no"), "{\"tare_rounds\": 2}\n");
  refused(fmt::format("'{}'", path("no")), "is not a rounds file of version 1");
  write_file_atomically(path("outside"), "{\"tare_rounds\": 1, \"vocab_size\": 2}\n{\"tokens\": [2]}\n");
  refused(fmt::format("'{}'", path("outside")), "token 2 is outside the vocabulary");
  write_file_atomically(path("huge"), "{\"tare_rounds\": 1, \"vocab_size\": 2}\n{\"tokens\": [1, 1]}\n");
  refused(fmt::format("'{}' --weight 2000000000", path("huge")), "exceeds");
}

struct Drafted {
  std::int64_t candidates = 0;
  std::vector<std::int32_t> tokens;
  std::vector<float> log_probabilities;
};

Drafted draft(Backend& backend, std::int64_t candidates) {
  const DraftOutput output = backend.draft({7, 6, candidates, 1});
  return {output.candidates,
          {output.tokens.begin(), output.tokens.end()},
          {output.log_probabilities.begin(), output.log_probabilities.end()}};
}

class CpuProposalHead : public testing::TestWithParam<std::string> {
 protected:
  CpuProposalHead() : checkpoint_(open_checkpoint(kOddModel)) {
    write_counts(scratch_.path() / "counts.safetensors", odd_counts());
  }
  // With those of the first 60 tokens of a text absorbed.
  std::unique_ptr<Backend> open(const EngineOptions::ProposalHead& head) const {
    EngineOptions options = exact_options();
    options.speculate.drafter = GetParam();
    options.proposal_head = head;
    std::unique_ptr<Backend> backend = make_cpu_backend(*checkpoint_, options);
    const Philox numbers(8, 1);
    std::vector<std::int32_t> tokens;
    for (std::uint64_t i = 0; i < 60; ++i) tokens.push_back(static_cast<std::int32_t>(331 * numbers.uniform_at(i)));
    backend->prefill(tokens);
    return backend;
  }
  [[nodiscard]] std::string counts() const { return (scratch_.path() / "counts.safetensors").string(); }

  std::unique_ptr<Checkpoint> checkpoint_;
  ScratchDirectory scratch_;
};

TEST_P(CpuProposalHead, ProposesOfTheShortlistWhatTheHeadWouldProposeOfIt) {
  const std::unique_ptr<Backend> whole = open({});
  const std::unique_ptr<Backend> some = open({.shortlist = 90, .counts = counts()});
  const std::vector<std::int32_t> ids = choose_shortlist(odd_counts(), 90, checkpoint_->config().eos_token_ids);
  ASSERT_EQ(ids.size(), 90U);
  const Drafted all = draft(*whole, 331);
  const Drafted found = draft(*some, 331);
  EXPECT_EQ(found.candidates, 90) << "no more than there are";
  // The first row: later ones of a chained drafter follow other tokens.
  std::vector<std::int32_t> expected;
  std::vector<double> kept;
  double sum = 0;
  for (std::size_t i = 0; i < 331; ++i)
    if (std::binary_search(ids.begin(), ids.end(), all.tokens[i])) {
      expected.push_back(all.tokens[i]);
      kept.push_back(static_cast<double>(all.log_probabilities[i]));
      sum += std::exp(kept.back());
    }
  ASSERT_EQ(expected.size(), 90U);
  EXPECT_THAT(std::span(found.tokens).first(90), testing::ElementsAreArray(expected));
  for (std::size_t i = 0; i < 90; ++i)
    EXPECT_NEAR(static_cast<double>(found.log_probabilities[i]), kept[i] - std::log(sum), 2e-5);
  for (const std::int32_t token : found.tokens) EXPECT_TRUE(std::binary_search(ids.begin(), ids.end(), token));
}

TEST_P(CpuProposalHead, NeverProposesPadding) {
  // The control: the whole head does propose some of these 31 tokens that no tokenizer has.
  const auto padding = [](const Drafted& drafted) {
    return std::count_if(drafted.tokens.begin(), drafted.tokens.end(), [](std::int32_t token) { return token >= 300; });
  };
  EXPECT_GT(padding(draft(*open({}), 331)), 0);
  for (const std::int32_t end : checkpoint_->config().eos_token_ids) ASSERT_LT(end, 300);
  const std::unique_ptr<Backend> some = open({.shortlist = 331, .counts = counts()});
  const Drafted drafted = draft(*some, 331);
  EXPECT_EQ(padding(drafted), 0);
  EXPECT_EQ(drafted.candidates, 300);
}

TEST_P(CpuProposalHead, AScreenMovesProbabilitiesAndNotFar) {
  const Drafted exact = draft(*open({}), 331);
  for (const HeadScreen screen : {HeadScreen::kQ4, HeadScreen::kQ3}) {
    for (const std::int64_t shortlist : {0, 331}) {
      const Drafted rough =
          draft(*open({.shortlist = shortlist, .counts = shortlist > 0 ? counts() : "", .screen = screen}), 300);
      double moved = 0;
      int found = 0;
      for (std::size_t i = 0; i < 300; ++i)
        for (std::size_t j = 0; j < 300; ++j)
          if (rough.tokens[i] == exact.tokens[j]) {
            ++found;
            moved = std::max(moved, std::abs(static_cast<double>(rough.log_probabilities[i]) -
                                             static_cast<double>(exact.log_probabilities[j])));
          }
      EXPECT_GT(found, 200);
      EXPECT_GT(moved, 1e-3);
      EXPECT_LT(moved, 2);
    }
  }
}

TEST_P(CpuProposalHead, IsReadAndKeptAsTheInventorySays) {
  class DraftBytes final : public Collector {
   public:
    void begin(const LaunchRecord& op, std::uint64_t bytes) override {
      if (op.name.starts_with("draft ")) sum += bytes;
    }
    void end() override {}
    std::uint64_t sum = 0;
  };
  const auto bytes_of = [](Backend& backend) {
    DraftBytes bytes;
    EXPECT_TRUE(backend.set_collector(&bytes));
    (void)draft(backend, 4);
    EXPECT_TRUE(backend.set_collector(nullptr));
    return bytes.sum;
  };
  const std::unique_ptr<Backend> whole = open({});
  const std::unique_ptr<Backend> some = open({.shortlist = 90, .counts = counts(), .screen = HeadScreen::kQ4});
  // 80 columns are 2 groups; 331 rows are 11 panels of BF16, 90 rows are 3 of q4. mtp reads its head once a token.
  const std::uint64_t times = GetParam() == "mtp" ? 6 : 1;
  const std::uint64_t head = 11 * 2 * 4096;
  const std::uint64_t own = 3 * 2 * (64 + 1024);
  EXPECT_EQ(bytes_of(*whole) - bytes_of(*some), times * (head - own));
  EXPECT_EQ(some->inventory(60, 5).resident_bytes(), whole->inventory(60, 5).resident_bytes() + own);
}

TEST_P(CpuProposalHead, Refusals) {
  expect_refused([&] { (void)open({.shortlist = 332, .counts = counts()}); }, "proposal_head.shortlist", "has 331");
  expect_refused([&] { (void)open({.shortlist = 30, .counts = ""}); }, "proposal_head.counts", "no directory");
  expect_refused([&] { (void)open({.shortlist = 30, .counts = "/nowhere/counts"}); }, "/nowhere/counts", "");
  const std::string short_file = (scratch_.path() / "short").string();
  write_counts(short_file, {1, 2});
  expect_refused([&] { (void)open({.shortlist = 30, .counts = short_file}); }, short_file, "of 2 tokens");
}

INSTANTIATE_TEST_SUITE_P(Drafters, CpuProposalHead, testing::Values("synthetic", "mtp"),
                         [](const auto& info) { return info.param; });

// --- the embedded model

struct Text {
  std::vector<std::int32_t> tokens;
  std::size_t rounds = 0;
};

Text speculate(Backend& backend, std::span<const std::int32_t> prompt, std::size_t length) {
  const EngineOptions::Speculate& options = backend.options().speculate;
  backend.reset();
  Text text;
  text.tokens = {greedy(backend.prefill(prompt))};
  while (text.tokens.size() < length) {
    const DraftOutput draft =
        backend.draft({text.tokens.back(), options.draft_tokens, options.candidates, options.temperature});
    const TokenTree tree =
        grow_tree(text.tokens.back(), draft, {.nodes = options.tree_nodes, .growth = options.growth});
    const VerifyOutput output = backend.verify(tree, {.logits = false});
    std::vector<std::int32_t> path;
    for (int node = 0; node >= 0 && text.tokens.size() < length;) {
      path.push_back(node);
      text.tokens.push_back(output.best[static_cast<std::size_t>(node)]);
      node = tree.child(node, text.tokens.back());
    }
    backend.commit(path);
    ++text.rounds;
  }
  return text;
}

class EmbeddedProposalHead : public testing::TestWithParam<std::string> {};

TEST_P(EmbeddedProposalHead, ChangesRoundsAndNoText) {
  EngineOptions options;
  options.context = 1024;
  options.cpu.threads = 2;
  options.speculate.drafter = GetParam() == "mtp" ? "mtp" : embedded_drafter();
  const std::unique_ptr<Checkpoint> checkpoint = open_checkpoint(embedded_model());
  const std::unique_ptr<Backend> whole = make_cpu_backend(*checkpoint, options);
  const std::vector<EngineOptions::ProposalHead> heads = {{64, "", HeadScreen::kNone},   {512, "", HeadScreen::kNone},
                                                          {1024, "", HeadScreen::kNone}, {2048, "", HeadScreen::kNone},
                                                          {0, "", HeadScreen::kQ4},      {0, "", HeadScreen::kQ3},
                                                          {2048, "", HeadScreen::kQ4}};
  constexpr std::size_t kLength = 97;
  const std::vector<std::vector<std::int32_t>> prompts = suite_prompts(11);
  std::vector<Text> texts;
  std::size_t rounds = 0;
  const auto tokens = static_cast<double>(prompts.size() * (kLength - 1));
  std::vector<std::int32_t> likeliest;  // of every row of every draft along the texts
  for (const std::vector<std::int32_t>& prompt : prompts) {
    texts.push_back(speculate(*whole, prompt, kLength));
    rounds += texts.back().rounds;
    whole->reset();
    whole->prefill(prompt);
    for (const std::int32_t token : texts.back().tokens) {
      const DraftOutput draft = whole->draft({token, whole->options().speculate.draft_tokens, 1, 1});
      likeliest.insert(likeliest.end(), draft.tokens.begin(), draft.tokens.end());
      (void)whole->verify(std::span(&token, 1), {.logits = false});
      whole->commit(1);
    }
  }
  fmt::print("whole head: {:.3f} tokens a round\n", tokens / static_cast<double>(rounds));
  const std::vector<std::int32_t> counts =
      read_token_counts(std::filesystem::path(embedded_model()) / kTokenCountsFile, checkpoint->config().vocab_size);
  std::vector<double> shares;
  std::vector<std::size_t> rounds_with;
  for (const EngineOptions::ProposalHead& head : heads) {
    options.proposal_head = head;
    const std::unique_ptr<Backend> backend = make_cpu_backend(*checkpoint, options);
    std::size_t changed_rounds = 0;
    for (std::size_t i = 0; i < prompts.size(); ++i) {
      const Text text = speculate(*backend, prompts[i], kLength);
      EXPECT_EQ(text.tokens, texts[i].tokens);
      changed_rounds += text.rounds;
    }
    double outside = 0;
    if (head.shortlist > 0) {
      const std::vector<std::int32_t> ids =
          choose_shortlist(counts, head.shortlist, checkpoint->config().eos_token_ids);
      outside = static_cast<double>(std::count_if(
                    likeliest.begin(), likeliest.end(),
                    [&](std::int32_t token) { return !std::binary_search(ids.begin(), ids.end(), token); })) /
                static_cast<double>(likeliest.size());
    }
    shares.push_back(outside);
    fmt::print("shortlist {}, screen {}: {:.3f} tokens a round, the likeliest token of {:.2f} % of {} rows outside\n",
               head.shortlist, to_text(head.screen), tokens / static_cast<double>(changed_rounds), 100 * outside,
               likeliest.size());
    rounds_with.push_back(changed_rounds);
  }
  // A longer shortlist leaves out less and takes fewer rounds. 64 tokens of 4096 are the control that it matters.
  for (std::size_t i = 1; i < 4; ++i) {
    EXPECT_LT(shares[i], shares[i - 1]);
    EXPECT_LT(rounds_with[i], rounds_with[i - 1]);
  }
  EXPECT_LT(rounds, rounds_with[3]);
  EXPECT_LT(static_cast<double>(rounds_with[3]), 1.25 * static_cast<double>(rounds));
  EXPECT_LT(shares[3], 0.12);
  for (const std::size_t screened : {4, 5})
    EXPECT_LT(static_cast<double>(rounds_with[screened]), 1.1 * static_cast<double>(rounds));
}

INSTANTIATE_TEST_SUITE_P(Drafters, EmbeddedProposalHead, testing::Values("mtp", "block"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace tare::engine::test
