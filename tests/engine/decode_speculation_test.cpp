// Rounds with drafts: the text is that of decoding without them, forced texts meet the same rounds again, and recorded
// rounds can be walked by a model that would have accepted other drafts.
#include <gtest/gtest.h>

#include <numeric>

#include "base/error.h"
#include "engine/decode/session.h"
#include "tests/engine/decode_fake_backend.h"

namespace tare::engine {
namespace {

const std::vector<std::int32_t> kPrompt = {3, 1, 4};
constexpr std::int64_t kVocabulary = 50;
constexpr std::int64_t kContext = 200;

EngineOptions drafting(std::int64_t nodes, std::int64_t candidates, std::int64_t tokens = 7) {
  EngineOptions options;
  options.speculate.draft_tokens = tokens;
  options.speculate.tree_nodes = nodes;
  options.speculate.candidates = candidates;
  return options;
}

FakeBackend drafter(const EngineOptions& options, std::int64_t wrong_every = 4, std::int64_t context = kContext) {
  FakeBackend backend(kVocabulary, context, options);
  backend.draft_well_but_every(wrong_every);
  return backend;
}

std::unique_ptr<TokenPolicy> policy_of(bool sampled) {
  return sampled ? make_sampled_policy(0.3, 5, "p") : make_greedy_policy();
}

Generation plain(bool sampled, const GenerationLimits& limits) {
  FakeBackend backend(kVocabulary, kContext);
  const std::unique_ptr<TokenPolicy> policy = policy_of(sampled);
  return generate(backend, kPrompt, *policy, limits);
}

std::vector<std::int32_t> tokens_of(const std::vector<Round>& rounds) {
  std::vector<std::int32_t> tokens;
  for (const Round& round : rounds) tokens.push_back(round.tokens);
  return tokens;
}

void expect_identities(const Generation& result) {
  const std::vector<std::int32_t> tokens = tokens_of(result.rounds);
  EXPECT_EQ(std::accumulate(tokens.begin(), tokens.end(), 0), static_cast<int>(result.tokens.size()) - 1);
  for (const Round& round : result.rounds) {
    EXPECT_GE(round.tokens, 1);
    EXPECT_LE(round.tokens, round.nodes);
    EXPECT_LE(round.tokens, round.drafted + 1);
    const RoundPhases& phases = round.phases;
    EXPECT_LE(phases.draft_ns + phases.tree_ns + phases.verify_ns + phases.accept_ns + phases.commit_ns,
              round.duration_ns);
  }
}

TEST(Speculation, TheTextIsThatOfDecodingWithoutDrafts) {
  for (const bool sampled : {false, true}) {
    const Generation expected = plain(sampled, {.max_tokens = 60});
    for (const auto& [nodes, candidates] : {std::pair{1, 1}, {2, 1}, {8, 1}, {8, 3}, {16, 4}, {40, 8}}) {
      FakeBackend backend = drafter(drafting(nodes, candidates));
      const std::unique_ptr<TokenPolicy> policy = policy_of(sampled);
      const Generation result = generate(backend, kPrompt, *policy, {.max_tokens = 60});
      EXPECT_EQ(result.tokens, expected.tokens) << nodes << " nodes, " << candidates << " candidates";
      EXPECT_EQ(result.natural, expected.tokens);
      EXPECT_EQ(result.outcome, Outcome::kLength);
      expect_identities(result);
      std::vector<std::int32_t> absorbed = kPrompt;
      absorbed.insert(absorbed.end(), expected.tokens.begin(), expected.tokens.end() - 1);
      EXPECT_EQ(backend.absorbed(), absorbed);
      EXPECT_EQ(backend.drafts() > 0, nodes > 1);
      if (nodes >= 8) {
        EXPECT_LT(result.rounds.size(), expected.rounds.size());
      }
    }
  }
}

TEST(Speculation, ATreeGoesOnWhereItsChainStops) {
  const auto rounds = [](std::int64_t nodes, std::int64_t candidates) {
    FakeBackend backend = drafter(drafting(nodes, candidates));
    const std::unique_ptr<TokenPolicy> policy = make_greedy_policy();
    return generate(backend, kPrompt, *policy, {.max_tokens = 100}).rounds.size();
  };
  EXPECT_LT(rounds(32, 2), rounds(8, 1));
}

TEST(Speculation, ForcedOntoItsOwnTextAConfigurationMeetsTheSameRounds) {
  for (const bool sampled : {false, true}) {
    FakeBackend backend = drafter(drafting(16, 4));
    const Generation free = generate(backend, kPrompt, *policy_of(sampled), {.max_tokens = 60, .record_shapes = true});
    const std::unique_ptr<TokenPolicy> forced = make_forced_policy(free.tokens, policy_of(sampled));
    const Generation again = generate(backend, kPrompt, *forced, {.max_tokens = 0, .record_shapes = true});
    EXPECT_EQ(again.tokens, free.tokens);
    EXPECT_EQ(again.natural, free.tokens);
    EXPECT_EQ(tokens_of(again.rounds), tokens_of(free.rounds));
    EXPECT_EQ(again.shapes, free.shapes);
  }
}

// Why texts are forced: rounding the logits changes which text a free run takes and so its rounds; under a forced text
// the drafts meet the same tokens, and no round changes.
TEST(Speculation, RoundedLogitsChangeNoRoundOfAForcedText) {
  EngineOptions options = drafting(16, 4);
  FakeBackend exact = drafter(options);
  const Generation free = generate(exact, kPrompt, *policy_of(false), {.max_tokens = 150});
  options.perturb = {.place = PerturbPlace::kLogits, .bits = 1};
  FakeBackend rounded = drafter(options);
  const Generation other = generate(rounded, kPrompt, *policy_of(false), {.max_tokens = 150});
  EXPECT_NE(other.tokens, free.tokens);
  EXPECT_NE(tokens_of(other.rounds), tokens_of(free.rounds));
  const std::unique_ptr<TokenPolicy> policy = make_forced_policy(free.tokens, make_greedy_policy());
  const Generation forced = generate(rounded, kPrompt, *policy, {.max_tokens = 0});
  EXPECT_NE(forced.natural, free.tokens);
  EXPECT_EQ(tokens_of(forced.rounds), tokens_of(free.rounds));
}

TEST(Speculation, RecordedRoundsAreWalkedByAModelThatWouldAcceptOthers) {
  FakeBackend recorder = drafter(drafting(16, 4));
  const Generation recorded = generate(recorder, kPrompt, *policy_of(false), {.max_tokens = 60, .record_shapes = true});
  for (const bool drafts : {true, false}) {
    FakeBackend other(kVocabulary + 13, kContext, drafting(16, 4));
    if (drafts) other.draft_well_but_every(1);
    const std::unique_ptr<TokenPolicy> policy = make_forced_policy(recorded.tokens, make_greedy_policy());
    const Generation result =
        generate(other, kPrompt, *policy, {.max_tokens = 0, .record_shapes = true, .recorded = recorded.shapes});
    EXPECT_EQ(result.tokens, recorded.tokens);
    EXPECT_NE(result.natural, recorded.tokens);
    EXPECT_EQ(result.shapes, recorded.shapes);
    EXPECT_EQ(other.drafts() > 0, drafts);
  }
}

TEST(Speculation, RecordedRoundsThatDoNotFitTheTextAreRefused) {
  FakeBackend backend = drafter(drafting(16, 4));
  const Generation recorded = generate(backend, kPrompt, *policy_of(false), {.max_tokens = 30, .record_shapes = true});
  const auto refused = [&](std::vector<RoundShape> shapes, bool forced = true) {
    const std::unique_ptr<TokenPolicy> policy =
        forced ? make_forced_policy(recorded.tokens, make_greedy_policy()) : make_greedy_policy();
    EXPECT_THROW((void)generate(backend, kPrompt, *policy, {.max_tokens = 30, .recorded = std::move(shapes)}), Error);
  };
  refused(recorded.shapes, false);
  std::vector<RoundShape> few = recorded.shapes;
  few.pop_back();
  refused(few);
  std::vector<RoundShape> broken = recorded.shapes;
  broken.front().parents.back() = static_cast<std::int32_t>(broken.front().parents.size());
  refused(broken);
  std::vector<RoundShape> empty = recorded.shapes;
  empty.front().path.clear();
  refused(empty);
}

TEST(Speculation, AStopTokenInsideAnAcceptedPathEndsTheTextThere) {
  const GenerationLimits limits{.max_tokens = 60};
  const Generation whole = plain(false, limits);
  int tried = 0;
  for (const std::size_t length : {std::size_t{4}, std::size_t{5}, std::size_t{6}, std::size_t{7}}) {
    const std::int32_t stop = whole.tokens[length - 1];
    if (std::find(whole.tokens.begin(), whole.tokens.end(), stop) - whole.tokens.begin() + 1 !=
        static_cast<std::ptrdiff_t>(length))
      continue;
    ++tried;
    FakeBackend backend = drafter(drafting(16, 1), 100);
    const Generation result =
        generate(backend, kPrompt, *policy_of(false), {.max_tokens = 60, .end_of_text_tokens = {stop}});
    EXPECT_EQ(result.tokens, std::vector<std::int32_t>(whole.tokens.begin(), whole.tokens.begin() + length));
    EXPECT_EQ(result.outcome, Outcome::kEndOfText);
    EXPECT_EQ(backend.frontier(), static_cast<std::int64_t>(kPrompt.size() + length - 1));
    expect_identities(result);
    EXPECT_TRUE(result.rounds.back().cut);
  }
  EXPECT_GT(tried, 0) << "every candidate occurs earlier in the text: nothing was tested";
}

TEST(Speculation, LengthLimitAndContextCutARoundShort) {
  const Generation whole = plain(false, {.max_tokens = 60});
  for (std::int64_t length = 1; length <= 20; ++length) {
    FakeBackend backend = drafter(drafting(8, 1), 100);
    const Generation result = generate(backend, kPrompt, *policy_of(false), {.max_tokens = length});
    EXPECT_EQ(result.tokens, std::vector<std::int32_t>(whole.tokens.begin(), whole.tokens.begin() + length));
    EXPECT_EQ(result.outcome, Outcome::kLength);
    expect_identities(result);
  }
  for (std::int64_t context = 3; context <= 24; ++context) {
    FakeBackend backend = drafter(drafting(8, 1), 100, context);
    const Generation result = generate(backend, kPrompt, *policy_of(false), {.max_tokens = 60});
    EXPECT_EQ(result.outcome, Outcome::kContextFull);
    EXPECT_EQ(backend.frontier(), context);  // the last slot is used
    EXPECT_EQ(result.tokens,
              std::vector<std::int32_t>(whole.tokens.begin(), whole.tokens.begin() + context -
                                                                  static_cast<std::int64_t>(kPrompt.size()) + 1));
    expect_identities(result);
  }
}

TEST(Speculation, ACallbackMayStopInsideARound) {
  const Generation whole = plain(false, {.max_tokens = 60});
  for (std::size_t stop_at = 1; stop_at < 20; ++stop_at) {
    FakeBackend backend = drafter(drafting(8, 1), 100);
    std::vector<std::int32_t> told;
    const Generation result =
        generate(backend, kPrompt, *policy_of(false), {.max_tokens = 60}, [&](std::int32_t token) {
          told.push_back(token);
          return told.size() < stop_at;
        });
    EXPECT_EQ(result.outcome, Outcome::kStopped);
    EXPECT_EQ(told, std::vector<std::int32_t>(whole.tokens.begin(), whole.tokens.begin() + stop_at));
    EXPECT_EQ(result.tokens, told);
    expect_identities(result);
  }
}

TEST(Speculation, DraftsAreKeptWhenAskedFor) {
  FakeBackend backend = drafter(drafting(8, 3));
  const Generation result = generate(backend, kPrompt, *policy_of(false), {.max_tokens = 30, .record_drafts = true});
  ASSERT_EQ(result.drafts.size(), result.rounds.size());
  for (const RecordedDraft& draft : result.drafts) {
    EXPECT_EQ(draft.candidates, 3);
    EXPECT_EQ(draft.tokens.size(), static_cast<std::size_t>(draft.rows * draft.candidates));
    EXPECT_EQ(draft.log_probabilities.size(), draft.tokens.size());
  }
  EXPECT_TRUE(result.shapes.empty());
}

}  // namespace
}  // namespace tare::engine
