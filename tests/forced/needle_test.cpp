#include "forced/needle.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "base/philox.h"

namespace tare::forced {
namespace {

engine::Reference windows_of(std::int64_t count, std::int64_t tokens, std::int64_t vocab = 4096) {
  std::vector<engine::ReferenceWindow> windows;
  for (std::int64_t i = 0; i < count; ++i) windows.push_back({"w" + std::to_string(i), "prose"});
  engine::Reference reference = engine::make_reference(std::move(windows), tokens, vocab);
  Philox random(5);
  for (std::int32_t& token : reference.tokens)
    token = static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(vocab)));
  return reference;
}

std::int64_t places_of(const std::vector<std::int32_t>& text, const std::vector<std::int32_t>& part) {
  std::int64_t places = 0;
  for (std::size_t i = 0; i + part.size() <= text.size(); ++i)
    places += std::equal(part.begin(), part.end(), text.begin() + static_cast<std::ptrdiff_t>(i)) ? 1 : 0;
  return places;
}

TEST(Needle, TheFactIsInTheHayOnceAndTheKeyAtTheEnd) {
  const engine::Reference reference = windows_of(3, 400);
  const std::vector<Needle> needles = make_needles(reference);
  const std::vector<Needle> absent = make_needles(reference, true);
  ASSERT_EQ(needles.size(), 18U);
  for (std::size_t i = 0; i < needles.size(); ++i) {
    const Needle& needle = needles[i];
    ASSERT_EQ(needle.values.size(), static_cast<std::size_t>(kNeedleChoices));
    std::vector<std::int32_t> question(needle.prompt.end() - (kNeedleKey - 1), needle.prompt.end());
    question.push_back(needle.anchor);
    std::vector<std::int32_t> fact = question;
    fact.insert(fact.end(), needle.values.front().begin(), needle.values.front().end());
    EXPECT_EQ(static_cast<std::int64_t>(needle.prompt.size()) + 1 + kNeedleValue, needle.length);
    EXPECT_TRUE(std::equal(fact.begin(), fact.end(), needle.prompt.begin() + needle.fact));
    EXPECT_EQ(places_of(needle.prompt, fact), 1);
    for (std::size_t a = 0; a < needle.values.size(); ++a)
      for (std::size_t b = 0; b < a; ++b) EXPECT_NE(needle.values[a], needle.values[b]);
    EXPECT_NEAR(static_cast<double>(needle.fact), needle.depth * static_cast<double>(needle.length - 18), 1);
    // The control asks the same question of a text that says something else, and is as long.
    EXPECT_EQ(absent[i].values, needle.values);
    EXPECT_EQ(absent[i].anchor, needle.anchor);
    EXPECT_EQ(absent[i].prompt.size(), needle.prompt.size());
    EXPECT_EQ(places_of(absent[i].prompt, fact), 0);
  }
  EXPECT_EQ(needles.front().length, 100);
  EXPECT_EQ(needles[3].length, 400);
  EXPECT_EQ(make_needles(reference)[7].prompt, needles[7].prompt) << "the same every time";
  EXPECT_THROW((void)make_needles(windows_of(2, 255)), Error);
  engine::Reference alike = windows_of(2, 400);
  std::fill(alike.tokens.begin(), alike.tokens.end(), 3);
  EXPECT_THROW((void)make_needles(alike), Error);
}

TEST(Needle, LogProbabilitiesAreThoseOfTheSoftmax) {
  const std::vector<float> logits = {0, 1, 2, 3, 1, 1, 1, 1, -1, 0, 700, 2};
  const std::vector<std::int32_t> value = {3, 0, 1};
  const double first = 3 - std::log(1 + std::exp(1.0) + std::exp(2.0) + std::exp(3.0));
  EXPECT_NEAR(value_log_probability(logits, value), first - std::log(4.0) - 700, 1e-9);
}

TEST(Needle, IsFoundWhenNoOtherValueIsAsProbable) {
  std::vector<double> scores(kNeedleChoices, -20);
  scores[0] = -11;
  EXPECT_TRUE(score_needle(scores).found);
  EXPECT_NEAR(score_needle(scores).margin, 3, 1e-12);
  scores[9] = -11;
  EXPECT_FALSE(score_needle(scores).found) << "a tie finds nothing";
  scores[9] = -5;
  EXPECT_NEAR(score_needle(scores).margin, -2, 1e-12);
  const std::vector<NeedleScore> all = {{true, 3}, {true, 1}, {false, -2}};
  const NeedleSummary summary = summarise_needles(all);
  EXPECT_EQ(summary.found, 2);
  EXPECT_NEAR(summary.mean_margin, 2.0 / 3, 1e-12);
  EXPECT_LT(summary.interval.low, 2.0 / 3);
  EXPECT_GT(summary.interval.high, 2.0 / 3);
  EXPECT_THROW((void)summarise_needles({}), Error);
}

}  // namespace
}  // namespace tare::forced
