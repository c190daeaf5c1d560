#include "engine/decode/session.h"

#include <gtest/gtest.h>

#include <numeric>

#include "base/error.h"
#include "tests/engine/decode_fake_backend.h"

namespace tare::engine {
namespace {

const std::vector<std::int32_t> kPrompt = {3, 1, 4};

Generation run(FakeBackend& backend, std::unique_ptr<TokenPolicy> policy, std::int64_t max_tokens,
               std::vector<std::int32_t> ends = {}) {
  return generate(backend, kPrompt, *policy, {max_tokens, std::move(ends)});
}

TEST(Session, CommitsEveryTokenButTheLast) {
  FakeBackend backend(50, 100);
  const Generation result = run(backend, make_greedy_policy(), 6);
  EXPECT_EQ(result.outcome, Outcome::kLength);
  ASSERT_EQ(result.tokens.size(), 6U);
  EXPECT_EQ(result.rounds.size(), 5U);
  std::vector<std::int32_t> expected = kPrompt;
  expected.insert(expected.end(), result.tokens.begin(), result.tokens.end() - 1);
  EXPECT_EQ(backend.absorbed(), expected);
  EXPECT_EQ(result.natural, result.tokens);
}

TEST(Session, RefusesToSampleWithAScreenedHead) {
  EngineOptions options;
  options.head.screen = HeadScreen::kQ4;
  FakeBackend backend(50, 100, options);
  EXPECT_NO_THROW(run(backend, make_greedy_policy(), 4));
  EXPECT_FALSE(backend.last_request().logits);
  try {
    run(backend, make_sampled_policy(0.8, 5, "p"), 4);
    ADD_FAILURE() << "was not refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    EXPECT_EQ(error.parts().where, "head.screen");
    EXPECT_NE(error.parts().what.find("temperature"), std::string::npos);
  }
}

TEST(Session, DecodeTimeIsTheSumOfItsRounds) {
  FakeBackend backend(50, 100);
  const Generation result = run(backend, make_greedy_policy(), 8);
  std::int64_t sum = 0;
  for (const Round& round : result.rounds) sum += round.duration_ns;
  EXPECT_EQ(result.decode_ns, sum);
  EXPECT_LE(result.first_token_ns + result.decode_ns, result.total_ns);
  EXPECT_LE(result.prefill_ns, result.first_token_ns);
}

TEST(Session, ForcedOntoItsOwnTextChoosesTheSameNaturally) {
  for (const bool sampled : {false, true}) {
    FakeBackend backend(50, 100);
    const auto policy = [&] { return sampled ? make_sampled_policy(0.8, 5, "p") : make_greedy_policy(); };
    const Generation free = run(backend, policy(), 20);
    const Generation forced = run(backend, make_forced_policy(free.tokens, policy()), 0);
    EXPECT_EQ(forced.tokens, free.tokens);
    EXPECT_EQ(forced.natural, free.tokens);
    EXPECT_EQ(forced.rounds.size(), free.rounds.size());
    EXPECT_EQ(forced.outcome, Outcome::kForcedText);
  }
}

TEST(Session, ForcedOntoAnotherTextWalksItAndChoosesOtherwise) {
  FakeBackend backend(50, 100);
  std::vector<std::int32_t> other(12, 7);
  const Generation forced = run(backend, make_forced_policy(other, make_greedy_policy()), 0);
  EXPECT_EQ(forced.tokens, other);
  EXPECT_NE(forced.natural, other);
  EXPECT_EQ(backend.absorbed().back(), 7);
}

TEST(Session, EndOfTextEndsAFreeRunButNotAForcedOne) {
  FakeBackend backend(50, 100);
  const Generation free = run(backend, make_greedy_policy(), 20);
  const std::int32_t fourth = free.tokens[3];
  const Generation ended = run(backend, make_greedy_policy(), 20, {fourth});
  EXPECT_EQ(ended.outcome, Outcome::kEndOfText);
  EXPECT_EQ(ended.tokens, std::vector<std::int32_t>(free.tokens.begin(), free.tokens.begin() + 4));
  const Generation first = run(backend, make_greedy_policy(), 20, {free.tokens[0]});
  EXPECT_EQ(first.outcome, Outcome::kImmediateEnd);
  EXPECT_TRUE(first.rounds.empty());
  const Generation forced = run(backend, make_forced_policy(free.tokens, make_greedy_policy()), 0, {fourth});
  EXPECT_EQ(forced.tokens, free.tokens);
}

TEST(Session, StopsWhenTheCachesAreFull) {
  FakeBackend backend(50, 8);
  const Generation result = run(backend, make_greedy_policy(), 100);
  EXPECT_EQ(result.outcome, Outcome::kContextFull);
  EXPECT_EQ(backend.frontier(), 8);
  EXPECT_EQ(result.tokens.size(), 6U);  // the prefill's, and one a round for positions 3..7
}

TEST(Session, CallbackSeesEveryTokenAndCanStop) {
  FakeBackend backend(50, 100);
  std::vector<std::int32_t> seen;
  const auto policy = make_greedy_policy();
  const Generation all = generate(backend, kPrompt, *policy, {5, {}}, [&](std::int32_t token) {
    seen.push_back(token);
    return true;
  });
  EXPECT_EQ(seen, all.tokens);
  const Generation stopped = generate(backend, kPrompt, *policy, {5, {}}, [](std::int32_t) { return false; });
  EXPECT_EQ(stopped.outcome, Outcome::kStopped);
  EXPECT_EQ(stopped.tokens.size(), 1U);
}

TEST(Session, HandicapSpinsAtLeastWhatWasAskedAndReportsIt) {
  EngineOptions options;
  options.handicap = {HandicapPlace::kHost, 200'000, 0};
  FakeBackend backend(50, 100, options);
  const Generation result = run(backend, make_greedy_policy(), 4);
  for (const Round& round : result.rounds) {
    EXPECT_GE(round.spun_ns, 200'000);
    EXPECT_GE(round.duration_ns, round.spun_ns);
  }
  FakeBackend plain(50, 100);
  EXPECT_EQ(run(plain, make_greedy_policy(), 4).rounds[0].spun_ns, 0);
}

TEST(Session, PerturbationChangesTokensButNothingElse) {
  EngineOptions options;
  options.perturb = {PerturbPlace::kLogits, 1};
  FakeBackend perturbed(500, 100, options);
  FakeBackend plain(500, 100);
  const Generation rough = run(perturbed, make_greedy_policy(), 20);
  EXPECT_NE(rough.tokens, run(plain, make_greedy_policy(), 20).tokens);
  EXPECT_EQ(rough.tokens.size(), 20U);
}

TEST(Session, AsksForLogitsOnlyWhenSomethingLooksAtThem) {
  const std::vector<std::int32_t> text = {4, 5, 6};
  const auto asked = [&](std::unique_ptr<TokenPolicy> policy, const EngineOptions& options) {
    FakeBackend backend(50, 100, options);
    (void)run(backend, std::move(policy), 3);
    EXPECT_FALSE(backend.last_request().hidden);
    return backend.last_request().logits;
  };
  EngineOptions rounding;
  rounding.perturb = {PerturbPlace::kLogits, 20};
  EXPECT_FALSE(asked(make_greedy_policy(), {}));
  EXPECT_FALSE(asked(make_forced_policy(text, make_greedy_policy()), {}));
  EXPECT_TRUE(asked(make_sampled_policy(0.8, 5, "p"), {}));
  EXPECT_TRUE(asked(make_forced_policy(text, make_sampled_policy(0.8, 5, "p")), {}));
  EXPECT_TRUE(asked(make_greedy_policy(), rounding));
}

TEST(Session, RefusesEmptyPromptsNoTokensAndPromptsThatDoNotFit) {
  FakeBackend backend(50, 2);
  const auto policy = make_greedy_policy();
  EXPECT_THROW((void)generate(backend, {}, *policy, {5, {}}), Error);
  EXPECT_THROW((void)generate(backend, std::vector<std::int32_t>{1}, *policy, {0, {}}), Error);
  EXPECT_THROW((void)generate(backend, kPrompt, *policy, {5, {}}), Error);
}

}  // namespace
}  // namespace tare::engine
