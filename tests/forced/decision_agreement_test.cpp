#include "forced/decision_agreement.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/error.h"

namespace tare::forced {
namespace {

// Logits that fall by `step` from token to token: the choice is token 0, its margin `step`.
std::vector<float> falling(std::size_t size, float step) {
  std::vector<float> logits(size);
  for (std::size_t i = 0; i < size; ++i) logits[i] = -step * static_cast<float>(i);
  return logits;
}

TEST(DecisionAgreement, OfARowWithItself) {
  const DecisionScore score = compare_decisions(falling(300, 0.25F), falling(300, 0.25F));
  EXPECT_TRUE(score.matches && score.winner_is_near && score.identical);
  EXPECT_EQ(score.overlap, 1);
  EXPECT_EQ(score.log_probability_error, 0);
  EXPECT_NEAR(score.margin, 0.25, 1e-12);
}

TEST(DecisionAgreement, CountsWhatAChangedChoiceLeaves) {
  // Token 0 falls to the fourth place; token 40 rises to the first.
  std::vector<float> arm = falling(300, 1);
  arm[0] = -2.5F;
  arm[40] = 5;
  const DecisionScore score = compare_decisions(falling(300, 1), arm);
  EXPECT_FALSE(score.matches);
  EXPECT_TRUE(score.winner_is_near);
  EXPECT_NEAR(score.overlap, 0.9, 1e-12) << "token 9 left the ten best for token 40";
  EXPECT_FALSE(score.identical);
  arm[0] = -20.5F;
  EXPECT_FALSE(compare_decisions(falling(300, 1), arm).winner_is_near);
  // A constant on every logit is the same distribution.
  std::vector<float> shifted = falling(300, 1);
  for (float& logit : shifted) logit += 8;
  EXPECT_NEAR(compare_decisions(falling(300, 1), shifted).log_probability_error, 0, 1e-6);
}

TEST(DecisionAgreement, BreaksTiesToTheLowestIdOnBothSides) {
  std::vector<float> tied = falling(20, 1);
  tied[1] = 0;
  EXPECT_TRUE(compare_decisions(falling(20, 1), tied).matches);
  EXPECT_EQ(compare_decisions(tied, tied).margin, 0);
}

TEST(DecisionAgreement, SumsStatesApartByMargin) {
  std::vector<DecisionScore> scores(10);
  for (std::size_t i = 0; i < scores.size(); ++i) {
    scores[i].matches = i != 3;
    scores[i].margin = i < 4 ? 0.1 : 2;
    scores[i].log_probability_error = i == 7 ? 1 : 0;
  }
  const DecisionAgreement agreement = summarise_decisions(scores);
  EXPECT_EQ(agreement.matches, 9);
  EXPECT_EQ(agreement.high_margin_states, 6);
  EXPECT_EQ(agreement.high_margin_matches, 6);
  EXPECT_NEAR(agreement.mean_log_probability_error, 0.1, 1e-12);
  EXPECT_EQ(agreement.largest_log_probability_error, 1);
  EXPECT_NEAR(agreement.match_interval.low, 0.595850, 1e-6);  // Wilson of 9/10
  EXPECT_THROW((void)summarise_decisions({}), Error);
}

TEST(DecisionAgreement, RefusesWhatIsNoRow) {
  std::vector<float> wrong = falling(20, 1);
  wrong[4] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THROW((void)compare_decisions(falling(20, 1), wrong), Error);
  EXPECT_THROW((void)compare_decisions(falling(20, 1), falling(21, 1)), Error);
}

}  // namespace
}  // namespace tare::forced
