#include "forced/validation.h"

#include <gtest/gtest.h>

namespace tare::forced {
namespace {

ReplayText text() {
  ReplayText result;
  result.prompt_id = "12";
  result.prompt_tokens = {1};
  result.tokens = {5, 6, 7, 8};
  result.round_tokens = {1, 1, 1};
  return result;
}
ForcedRun same() {
  return {{5, 6, 7, 8}, {5, 6, 7, 8}, {1, 1, 1}};
}

TEST(Compare, FindsNothingInAReproducedText) {
  EXPECT_EQ(compare(text(), same()), std::nullopt);
}

TEST(Compare, NamesTheFirstNaturalChoiceThatDiffers) {
  ForcedRun run = same();
  run.natural[2] = 9;
  run.natural[3] = 1;
  const auto difference = compare(text(), run);
  ASSERT_TRUE(difference);
  EXPECT_EQ(difference->kind, DifferenceKind::kNatural);
  EXPECT_EQ(to_text(*difference), "prompt 12, position 2: natural choice 9, the text has 7");
}

TEST(Compare, CatchesOtherCommittedTokensRoundsAndLengths) {
  ForcedRun run = same();
  run.committed[0] = 4;
  EXPECT_EQ(compare(text(), run)->kind, DifferenceKind::kCommitted);
  run = same();
  run.round_tokens = {2, 1};
  EXPECT_EQ(compare(text(), run)->kind, DifferenceKind::kRounds);
  run = same();
  run.committed.pop_back();
  EXPECT_EQ(compare(text(), run)->kind, DifferenceKind::kLength);
}

TEST(Compare, HoldsAGivenTextToTheBaselinesChoices) {
  ReplayText given = text();
  given.natural = {9, 9, 9, 9};
  ForcedRun run = same();
  EXPECT_EQ(compare(given, run)->kind, DifferenceKind::kNatural);
  run.natural = given.natural;
  EXPECT_EQ(compare(given, run), std::nullopt);
}

TEST(Validation, PassesOnlyWithEveryTextAndAtLeastOne) {
  Validation validation;
  EXPECT_FALSE(validation.passed());
  add(validation, text(), same());
  EXPECT_TRUE(validation.passed());
  ForcedRun other = same();
  other.natural[0] = 0;
  add(validation, text(), other);
  EXPECT_FALSE(validation.passed());
  EXPECT_EQ(validation.reproduced, 1);
  EXPECT_EQ(validation.first_difference->position, 0);
}

// The engine's honest answer to a spoiled text: it commits what it is told, and chooses what it would have chosen.
TEST(Controls, OfAnHonestEngineAreCaught) {
  const auto moved = off_by_one_control(text());
  ASSERT_TRUE(moved);
  EXPECT_EQ(moved->tokens, (std::vector<std::int32_t>{6, 7, 8, 8}));
  EXPECT_TRUE(compare(*moved, {moved->tokens, text().tokens, {1, 1, 1}}));

  const auto flipped = flipped_token_control(text(), 10);
  ASSERT_TRUE(flipped);
  const auto difference = compare(*flipped, {flipped->tokens, text().tokens, {1, 1, 1}});
  ASSERT_TRUE(difference);
  EXPECT_EQ(difference->position, 2);
}

// An engine that echoes the forced text as its natural choice would pass a validation; the controls tell it apart.
TEST(Controls, OfAnEchoingEngineAreNotCaught) {
  const auto moved = off_by_one_control(text());
  EXPECT_EQ(compare(*moved, {moved->tokens, moved->tokens, {1, 1, 1}}), std::nullopt);
}

TEST(Controls, TakeTheTokensOfAnotherPrompt) {
  ReplayText other = text();
  other.prompt_id = "13";
  EXPECT_FALSE(other_text_control(text(), std::vector<ReplayText>{text(), other}));  // the same tokens prove nothing
  other.tokens = {9, 9};
  other.round_tokens = {1};
  const auto swapped = other_text_control(text(), std::vector<ReplayText>{text(), other});
  ASSERT_TRUE(swapped);
  EXPECT_EQ(swapped->tokens, other.tokens);
  EXPECT_EQ(swapped->prompt_id, "12");
  EXPECT_TRUE(compare(*swapped, {swapped->tokens, {5, 6}, {1}}));
}

TEST(Controls, NeedATextTheyCanChange) {
  ReplayText constant = text();
  constant.tokens = {5, 5, 5};
  EXPECT_FALSE(off_by_one_control(constant));
  constant.tokens = {5};
  EXPECT_FALSE(flipped_token_control(constant, 10));
  EXPECT_EQ(flipped_token_control(text(), 8)->tokens[2], 0);  // 7 is the last id: the flip wraps
}

}  // namespace
}  // namespace tare::forced
