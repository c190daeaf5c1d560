// Recorded rounds: the file keeps what was written and refuses what cannot be walked; other trees are replayed from its
// drafts as the session would have gone through them.
#include "forced/rounds_file.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "forced/tree_replay.h"
#include "tests/engine/decode_fake_backend.h"

namespace tare::forced {
namespace {

constexpr std::int64_t kVocabulary = 50;
const std::vector<std::int32_t> kPrompt = {3, 1, 4};

engine::EngineOptions drafting(std::int64_t nodes, std::int64_t candidates) {
  engine::EngineOptions options;
  options.speculate.draft_tokens = 7;
  options.speculate.tree_nodes = nodes;
  options.speculate.candidates = candidates;
  return options;
}

engine::Generation rollout(std::int64_t nodes, std::int64_t candidates, bool drafts) {
  engine::FakeBackend backend(kVocabulary, 200, drafting(nodes, candidates));
  backend.draft_well_but_every(4);
  const std::unique_ptr<engine::TokenPolicy> policy = engine::make_greedy_policy();
  return engine::generate(backend, kPrompt, *policy,
                          {.max_tokens = 60, .record_shapes = true, .record_drafts = drafts});
}

class RoundsFileTest : public ::testing::Test {
 protected:
  std::filesystem::path path_ =
      std::filesystem::temp_directory_path() /
      (std::string("tare-") + ::testing::UnitTest::GetInstance()->current_test_info()->name() + ".jsonl");
  ~RoundsFileTest() override { std::filesystem::remove(path_); }

  std::string write(std::int64_t nodes, std::int64_t candidates, bool drafts) {
    write_rounds(path_, {"fake",
                         kVocabulary,
                         Json{{"a", 1}},
                         {recorded_text("7", "code", kPrompt, rollout(nodes, candidates, drafts))}});
    return read_text_file(path_);
  }
  // The file with one text replaced is refused, and the error speaks of `about`.
  void refuse(std::string content, const std::string& from, const std::string& to, const std::string& about) {
    const std::size_t at = content.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    write_file_atomically(path_, content.replace(at, from.size(), to));
    try {
      (void)read_rounds(path_);
      FAIL() << "accepted with " << to;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(about), std::string::npos) << error.what();
    }
  }
};

TEST_F(RoundsFileTest, KeepsWhatWasWritten) {
  const RecordedText text = recorded_text("7", "code", kPrompt, rollout(16, 4, true));
  write_rounds(path_, {"fake", kVocabulary, Json{{"a", 1}}, {text}});
  const RoundsFile file = read_rounds(path_);
  EXPECT_EQ(file.model, "fake");
  EXPECT_EQ(file.vocab_size, kVocabulary);
  EXPECT_EQ(file.options, (Json{{"a", 1}}));
  ASSERT_EQ(file.texts.size(), 1U);
  EXPECT_EQ(file.texts[0].prompt_id, "7");
  EXPECT_EQ(file.texts[0].category, "code");
  EXPECT_EQ(file.texts[0].prompt_tokens, kPrompt);
  EXPECT_EQ(file.texts[0].tokens, text.tokens);
  EXPECT_EQ(file.texts[0].rounds, text.rounds);
  ASSERT_EQ(file.texts[0].drafts.size(), text.drafts.size());
  for (std::size_t i = 0; i < text.drafts.size(); ++i) {
    EXPECT_EQ(file.texts[0].drafts[i].round, text.drafts[i].round);
    EXPECT_EQ(file.texts[0].drafts[i].rows, text.drafts[i].rows);
    EXPECT_EQ(file.texts[0].drafts[i].tokens, text.drafts[i].tokens);
    EXPECT_EQ(file.texts[0].drafts[i].log_probabilities, text.drafts[i].log_probabilities);
  }
}

TEST_F(RoundsFileTest, RefusesWhatCannotBeWalked) {
  const std::string good = write(4, 1, false);
  refuse(good, "\"tare_rounds\":1", "\"tare_rounds\":9", "version 9");
  refuse(good, "\"tare_rounds\":1", "\"other\":1", "not a file of recorded rounds");
  refuse(good, "\"prompt_tokens\":[3,1,4]", "\"prompt_tokens\":[3,1,50]", "from 0 to 49");
  refuse(good, "\"parents\":[-1,0,1,2]", "\"parents\":[-1,0,2,2]", "parent");
  refuse(good, "\"parents\":[-1,0,1,2]", "\"parents\":[-1,0,-1,2]", "parent");
  refuse(good, "\"path\":[0", "\"path\":[1", "does not continue");
  refuse(good, "\"path\":[0,1", "\"path\":[0", "");
  refuse(good, "\"rounds\":[", "\"round\":[", "round");
  write_file_atomically(path_, good.substr(0, good.find('\n') + 1));
  EXPECT_THROW((void)read_rounds(path_), Error);
  write_file_atomically(path_, "");
  EXPECT_THROW((void)read_rounds(path_), Error);
}

// One draft at every position tells what a session with another tree commits round by round.
TEST_F(RoundsFileTest, ReplayedTreesAreThoseOfTheSession) {
  const RecordedText text = recorded_text("7", "code", kPrompt, rollout(1, 4, true));
  ASSERT_EQ(text.drafts.size(), text.tokens.size() - 1);
  for (const auto& [nodes, candidates] : {std::pair{1, 1}, {4, 1}, {8, 1}, {8, 2}, {16, 4}, {40, 4}}) {
    const engine::Generation session = rollout(nodes, candidates, false);
    const TextTally tally = replay_trees(text, {nodes, candidates, 1});
    ASSERT_EQ(tally.rounds.size(), session.rounds.size()) << nodes << " nodes";
    for (std::size_t i = 0; i < tally.rounds.size(); ++i) {
      EXPECT_EQ(tally.rounds[i].tokens, session.rounds[i].tokens) << i;
      EXPECT_EQ(tally.rounds[i].nodes, session.rounds[i].nodes) << i;
      EXPECT_EQ(tally.rounds[i].cut, session.rounds[i].cut) << i;
    }
  }
}

TEST_F(RoundsFileTest, ATemperatureReordersATreeNotAChain) {
  const RecordedText text = recorded_text("7", "code", kPrompt, rollout(1, 4, true));
  const auto tokens = [&](std::int64_t candidates, double temperature) {
    std::vector<std::int64_t> result;
    for (const RoundTally& round : replay_trees(text, {12, candidates, temperature}).rounds)
      result.push_back(round.tokens);
    return result;
  };
  EXPECT_EQ(tokens(1, 1), tokens(1, 8));
  EXPECT_NE(tokens(4, 0.2), tokens(4, 20));
}

TEST_F(RoundsFileTest, AReplayNeedsADraftWhereItsRoundsBegin) {
  RecordedText text = recorded_text("7", "code", kPrompt, rollout(1, 4, true));
  text.drafts.erase(text.drafts.begin() + 1);
  EXPECT_THROW((void)replay_trees(text, {1, 1, 1}), Error);
}

}  // namespace
}  // namespace tare::forced
