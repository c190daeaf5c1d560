#include "forced/replay_text.h"

#include <gtest/gtest.h>

#include <numeric>

namespace tare::forced {
namespace {

std::vector<std::int32_t> counting(int count) {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(count));
  std::iota(tokens.begin(), tokens.end(), 0);
  return tokens;
}

TEST(Repetition, OfDistinctTokensIsNone) {
  const Repetition repetition = measure_repetition(counting(64));
  EXPECT_EQ(repetition.distinct_4gram_share, 1.0);
  EXPECT_EQ(repetition.period, 0);
  EXPECT_FALSE(is_repetitive(repetition, 64));
}

TEST(Repetition, FindsTheLoopAtTheEnd) {
  std::vector<std::int32_t> tokens = counting(20);
  for (int i = 0; i < 30; ++i) tokens.push_back(100 + i % 6);
  const Repetition repetition = measure_repetition(tokens);
  EXPECT_EQ(repetition.period, 6);
  EXPECT_EQ(repetition.periodic_suffix_tokens, 30);
  EXPECT_TRUE(is_repetitive(repetition, 50));
}

TEST(Repetition, TwoPeriodsAreNotYetALoop) {
  std::vector<std::int32_t> tokens = counting(20);
  for (int i = 0; i < 12; ++i) tokens.push_back(100 + i % 6);
  EXPECT_EQ(measure_repetition(tokens).period, 0);
}

TEST(Repetition, FindsADominantToken) {
  std::vector<std::int32_t> tokens;
  for (int i = 0; i < 32; ++i) {
    tokens.push_back(7);
    if (i % 3 == 0) tokens.push_back(i);
  }
  EXPECT_TRUE(is_repetitive(measure_repetition(tokens), static_cast<std::int64_t>(tokens.size())));
}

TEST(Repetition, OfShortTextsIsNeverCalled) {
  const std::vector<std::int32_t> tokens(8, 5);
  EXPECT_FALSE(is_repetitive(measure_repetition(tokens), 8));
  EXPECT_EQ(measure_repetition({}).dominant_token_share, 0.0);
}

TEST(ReplayDigest, CoversPromptAndText) {
  ReplayText text;
  text.prompt_tokens = {1, 2};
  text.tokens = {3};
  ReplayText moved = text;
  moved.prompt_tokens = {1};
  moved.tokens = {2, 3};
  EXPECT_NE(replay_digest(text), replay_digest(moved));
  EXPECT_EQ(replay_digest(text), replay_digest(ReplayText(text)));
}

}  // namespace
}  // namespace tare::forced
