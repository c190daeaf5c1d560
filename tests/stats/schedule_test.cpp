#include "stats/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "base/error.h"

namespace tare::stats {
namespace {

using testing::ElementsAre;
using testing::ElementsAreArray;

std::string letters(const std::vector<int>& order) {
  std::string text;
  for (const int arm : order) text += static_cast<char>('A' + arm);
  return text;
}

// The order of a schedule with its arms renamed by first appearance, so that it does not depend on the seed's letters.
std::string canonical(const Schedule& schedule) {
  std::vector<int> names;
  std::string text;
  for (const Slot& slot : schedule.slots) {
    auto found = std::find(names.begin(), names.end(), slot.arm);
    if (found == names.end()) found = names.insert(names.end(), slot.arm);
    text += static_cast<char>('A' + (found - names.begin()));
  }
  return text;
}

TEST(Schedule, ThueMorseSignsSumToZeroBelowTheDegreeAndToTheKnownValueAtIt) {
  // Prouhet-Tarry-Escott: 2^m signs kill powers below m; sums at m and m + 1 as in reference tables.
  const std::vector<std::vector<std::int64_t>> expected = {{0, -1, -1, -1, -1, -1},
                                                           {0, 0, 4, 18, 64, 210},
                                                           {0, 0, 0, -48, -672, -6720},
                                                           {0, 0, 0, 0, 1536, 57600},
                                                           {0, 0, 0, 0, 0, -122880}};
  for (int m = 1; m <= 5; ++m) {
    std::vector<std::int64_t> sums(6, 0);
    for (std::int64_t i = 0; i < (std::int64_t{1} << m); ++i) {
      std::int64_t power = 1;
      for (auto& sum : sums) {
        sum += thue_morse_sign(static_cast<std::uint64_t>(i)) * power;
        power *= i;
      }
    }
    EXPECT_EQ(sums, expected[static_cast<std::size_t>(m - 1)]) << "m = " << m;
  }
}

TEST(Schedule, BlockOrdersBalanceCountsSlotsAndSquaredSlots) {
  EXPECT_EQ(letters(block_order(2)), "ABBABAAB");
  EXPECT_EQ(letters(block_order(3)), "ABCABCCCBBAABAACCB");
  EXPECT_EQ(letters(block_order(4)), "ABCDCDBDACABABDBCACDCDAB");
  EXPECT_EQ(letters(block_order(5)), "ABCDDAEEBCEECCDBBDBAAAACDDEECB");
  for (int arms = 2; arms <= 5; ++arms) EXPECT_EQ(balanced_degree(block_order(arms), arms), 2) << arms;
  for (int arms = 6; arms <= 16; ++arms) EXPECT_EQ(balanced_degree(block_order(arms), arms), 1) << arms;
}

TEST(Schedule, BalanceCheckCatchesWhatIsNotBalanced) {
  EXPECT_EQ(balanced_degree(std::vector<int>{0, 1, 0, 1, 0, 1, 0, 1}, 2), 0);
  EXPECT_EQ(balanced_degree(std::vector<int>{0, 1, 1, 0, 0, 1, 1, 0}, 2), 1);
  EXPECT_EQ(balanced_degree(std::vector<int>{0, 1, 1}, 2), -1);
  EXPECT_THAT(power_sums(block_order(2), 1, 3), ElementsAre(4, 14, 70, 416));
}

TEST(Schedule, TwoArmsContinueTheThueMorseSequenceOverBlocks) {
  const Schedule schedule = make_schedule(2, 4, 7);
  EXPECT_EQ(canonical(schedule), "ABBABAABBAABABBABAABABBAABBABAAB");
  EXPECT_EQ(balanced_degree(arm_sequence(make_schedule(2, 2, 7)), 2), 3);
  EXPECT_EQ(balanced_degree(arm_sequence(schedule), 2), 4);
}

TEST(Schedule, TwoBlocksOfMoreArmsBalanceCubedSlotsByReversal) {
  for (int arms = 3; arms <= 5; ++arms) {
    EXPECT_EQ(balanced_degree(arm_sequence(make_schedule(arms, 2, 1)), arms), 3) << arms;
    EXPECT_GE(balanced_degree(arm_sequence(make_schedule(arms, 3, 1)), arms), 2) << arms;
  }
}

TEST(Schedule, SlotsAreNumberedWithinBlocksAndEveryArmIsInEveryBlock) {
  for (int arms = 2; arms <= 7; ++arms) {
    const Schedule schedule = make_schedule(arms, 3, 5);
    const std::size_t length = block_order(arms).size();
    ASSERT_EQ(schedule.slots.size(), 3 * length);
    for (std::size_t i = 0; i < schedule.slots.size(); ++i) {
      EXPECT_EQ(schedule.slots[i].block, static_cast<int>(i / length));
      EXPECT_EQ(schedule.slots[i].slot, static_cast<int>(i % length));
    }
    EXPECT_GE(balanced_degree(arm_sequence(schedule), arms), 1);
  }
}

TEST(Schedule, TheSeedChoosesTheFirstArmAboutEvenly) {
  int baseline_first = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    const Schedule schedule = make_schedule(2, 1, seed);
    EXPECT_EQ(schedule, make_schedule(2, 1, seed));
    baseline_first += schedule.slots[0].arm == 0 ? 1 : 0;
  }
  EXPECT_GT(baseline_first, 160);  // 200 expected, sd 10
  EXPECT_LT(baseline_first, 240);
}

TEST(Schedule, ResidentBlocksStartInTheOtherOrderEachTime) {
  for (int arms = 2; arms <= 4; ++arms) {
    const Schedule schedule = make_resident_schedule(arms, 6, 3);
    ASSERT_EQ(schedule.slots.size(), static_cast<std::size_t>(6 * arms));
    const std::vector<int> sequence = arm_sequence(schedule);
    for (int block = 0; block < 6; block += 2) {
      const auto begin = sequence.begin() + block * arms;
      std::vector<int> even(begin, begin + arms);
      std::vector<int> odd(begin + arms, begin + 2 * arms);
      std::reverse(odd.begin(), odd.end());
      EXPECT_EQ(even, odd);
    }
  }
}

TEST(Schedule, VisitsOfTwoArmsAreOneThueMorseSequenceInvertedByBlock) {
  std::vector<int> visits;
  for (std::size_t prompt = 0; prompt < 8; ++prompt) {
    for (const int arm : prompt_visit_order(2, prompt, 0, 11)) visits.push_back(arm);
  }
  std::vector<int> expected;
  for (std::uint64_t i = 0; i < 16; ++i) expected.push_back(thue_morse_sign(i) > 0 ? visits[0] : 1 - visits[0]);
  EXPECT_THAT(visits, ElementsAreArray(expected));
  EXPECT_NE(prompt_visit_order(2, 0, 0, 11), prompt_visit_order(2, 0, 1, 11));
  EXPECT_EQ(prompt_visit_order(2, 0, 0, 11), prompt_visit_order(2, 0, 3, 11));
}

TEST(Schedule, EveryTwoPromptsBalanceTheVisitsOfAllArms) {
  for (int arms = 2; arms <= 5; ++arms) {
    for (std::size_t prompt = 0; prompt < 20; prompt += 2) {
      std::vector<int> visits = prompt_visit_order(arms, prompt, 1, 2);
      EXPECT_EQ(std::set<int>(visits.begin(), visits.end()).size(), static_cast<std::size_t>(arms));
      for (const int arm : prompt_visit_order(arms, prompt + 1, 1, 2)) visits.push_back(arm);
      EXPECT_GE(balanced_degree(visits, arms), 1);
    }
  }
}

// Over 2 * arms prompts: every place, and right behind every other arm, equally often.
TEST(Schedule, VisitsBalancePlacesAndFollowersOfAllArms) {
  for (int arms = 3; arms <= 16; ++arms) {
    const auto k = static_cast<std::size_t>(arms);
    std::vector<std::vector<int>> place(k, std::vector<int>(k, 0));
    std::vector<std::vector<int>> follows(k, std::vector<int>(k, 0));
    for (std::size_t prompt = 0; prompt < 2 * k; ++prompt) {
      const std::vector<int> visits = prompt_visit_order(arms, prompt, 1, 9);
      for (std::size_t i = 0; i < k; ++i) {
        ++place[static_cast<std::size_t>(visits[i])][i];
        if (i > 0) ++follows[static_cast<std::size_t>(visits[i])][static_cast<std::size_t>(visits[i - 1])];
      }
    }
    for (std::size_t arm = 0; arm < k; ++arm) {
      for (std::size_t i = 0; i < k; ++i) {
        EXPECT_EQ(place[arm][i], 2) << arms;
        EXPECT_EQ(follows[arm][i], i == arm ? 0 : 2) << arms << ": " << arm << " after " << i;
      }
    }
  }
}

TEST(Schedule, RefusesOneArmAndNoBlocks) {
  EXPECT_THROW((void)make_schedule(1, 1, 0), Error);
  EXPECT_THROW((void)make_schedule(2, 0, 0), Error);
  EXPECT_THROW((void)make_resident_schedule(2, 0, 0), Error);
}

}  // namespace
}  // namespace tare::stats
