// A window through a real backend: every position once, in order, and the same whether it came as a prompt, token by
// token or in rounds that reject.
#include "forced/forced_passes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "base/error.h"
#include "base/philox.h"
#include "engine/backends/make_backend.h"
#include "engine/decode/sampling.h"
#include "forced/exact_head.h"
#include "tests/source_folder.h"

namespace tare::forced {
namespace {

struct Walked {
  std::vector<float> logits;
  std::vector<float> hidden;
  std::vector<std::int32_t> best;
  std::int64_t positions = 0;
  std::int64_t calls = 0;

  TakeRows take() {
    return [this](const PassRows& rows) {
      EXPECT_EQ(rows.first, positions) << "positions come in order, each once";
      positions += rows.rows;
      ++calls;
      logits.insert(logits.end(), rows.logits.begin(), rows.logits.end());
      hidden.insert(hidden.end(), rows.hidden.begin(), rows.hidden.end());
      best.insert(best.end(), rows.best.begin(), rows.best.end());
    };
  }
};

class ForcedPasses : public testing::Test {
 protected:
  std::unique_ptr<engine::Checkpoint> checkpoint_ =
      engine::open_checkpoint((source_folder() / "tests" / "fixtures" / "hybrid-small").string());
  std::vector<std::int32_t> tokens_;

  void SetUp() override {
    Philox random(4);
    for (int i = 0; i < 61; ++i)
      tokens_.push_back(
          static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(checkpoint_->config().vocab_size))));
  }
  std::unique_ptr<engine::Backend> backend(const std::vector<std::string>& assignments = {}) const {
    engine::EngineOptions options;
    engine::apply_option(options, "cpu.threads=1");
    for (const std::string& assignment : assignments) engine::apply_option(options, assignment);
    return engine::make_backend(*checkpoint_, options);
  }
  Walked decode(engine::Backend& engine, std::int64_t nodes) const {
    Walked walked;
    decode_window(engine, tokens_, nodes, 7, {.logits = true, .hidden = true}, walked.take());
    return walked;
  }
};

float largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  float largest = 0;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) largest = std::max(largest, std::abs(a[i] - b[i]));
  return largest;
}

TEST_F(ForcedPasses, RoundsThatRejectSayWhatTokenByTokenSays) {
  const auto engine = backend();
  const Walked alone = decode(*engine, 1);
  EXPECT_EQ(alone.positions, 60) << "the last token has no successor to be scored";
  EXPECT_EQ(alone.calls, 60);
  for (const std::int64_t nodes : {2, 5, 16}) {
    const Walked rounds = decode(*engine, nodes);
    EXPECT_EQ(rounds.positions, 60);
    EXPECT_LT(rounds.calls, 60);
    EXPECT_GT(rounds.calls, 60 / nodes) << "some nodes must have been rejected";
    EXPECT_EQ(rounds.logits, alone.logits) << nodes << " nodes";
    EXPECT_EQ(rounds.hidden, alone.hidden) << nodes << " nodes";
    EXPECT_EQ(rounds.best, alone.best) << nodes << " nodes";
  }
}

// What decoding keeps between rounds is what is scored: keys in FP32 differ from BF16 there, and only a little.
TEST_F(ForcedPasses, DecodingReadsTheCachesItWrote) {
  const Walked exact = decode(*backend(), 1);
  const Walked small = decode(*backend({"kv.key=fp32"}), 1);
  EXPECT_GT(largest_difference(small.logits, exact.logits), 0);
  EXPECT_LT(largest_difference(small.logits, exact.logits), 1.0F);
}

TEST_F(ForcedPasses, AWindowAsAPromptSaysTheSameToRounding) {
  const auto engine = backend();
  const Walked alone = decode(*engine, 1);
  Walked prompt;
  prefill_window(*engine, tokens_, {.logits = true, .hidden = true}, prompt.take());
  EXPECT_EQ(prompt.positions, 61);
  prompt.logits.resize(alone.logits.size());
  EXPECT_LT(largest_difference(prompt.logits, alone.logits), 1e-3F);
}

TEST_F(ForcedPasses, TheExactHeadIsTheHead) {
  const auto engine = backend();
  const Walked alone = decode(*engine, 1);
  const ExactHead head(*checkpoint_);
  ThreadPool pool(2);
  std::vector<float> logits(alone.logits.size());
  head.apply(pool, alone.hidden, logits);
  EXPECT_LT(largest_difference(logits, alone.logits), 1e-4F);
  const Walked quantised = decode(*backend({"weights.format=q4"}), 1);
  head.apply(pool, quantised.hidden, logits);
  EXPECT_GT(largest_difference(logits, quantised.logits), 1e-3F) << "the q4 head is another head";
  EXPECT_GT(largest_difference(logits, alone.logits), 1e-3F) << "and the q4 layers other layers";
}

TEST_F(ForcedPasses, AScreenedHeadSaysItsChoiceAlone) {
  const auto engine = backend({"head.screen=q4"});
  Walked walked;
  decode_window(*engine, tokens_, 4, 7, {.logits = true, .hidden = true}, walked.take());
  EXPECT_EQ(walked.logits.size(), static_cast<std::size_t>(checkpoint_->config().vocab_size)) << "of the prefill alone";
  EXPECT_EQ(walked.best.size(), 59U);
  EXPECT_EQ(walked.positions, 60);
}

TEST_F(ForcedPasses, RefuseRoundsWithoutANode) {
  const auto engine = backend();
  EXPECT_THROW(decode(*engine, 0), Error);
}

}  // namespace
}  // namespace tare::forced
