#include "base/philox.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace tare {
namespace {

// Known answers of the Random123 distribution for philox4x32 with 10 rounds.
TEST(Philox, MatchesKnownAnswers) {
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}),
            (std::array<std::uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (std::array<std::uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (std::array<std::uint32_t, 4>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, NumberDependsOnSeedStreamAndIndexOnly) {
  Philox stepped(7, 3);
  for (std::uint64_t i = 0; i < 5; ++i) EXPECT_EQ(stepped.uniform(), Philox(7, 3).uniform_at(i));
  EXPECT_NE(Philox(7, 3).bits_at(0), Philox(8, 3).bits_at(0));
  EXPECT_NE(Philox(7, 3).bits_at(0), Philox(7, 4).bits_at(0));
  EXPECT_NE(Philox(7, 3).bits_at(0), Philox(7, 3).bits_at(1));
}

TEST(Philox, NormalHasZeroMeanAndUnitVariance) {
  Philox numbers(11);
  constexpr int kCount = 100'000;
  double sum = 0;
  double squares = 0;
  for (int i = 0; i < kCount; ++i) {
    const double value = numbers.normal();
    sum += value;
    squares += value * value;
  }
  // Standard errors are 0.0032 and 0.0045: five of each.
  EXPECT_NEAR(sum / kCount, 0.0, 0.016);
  EXPECT_NEAR(squares / kCount, 1.0, 0.023);
}

TEST(Philox, BelowIsUniformOverItsRange) {
  Philox numbers(5);
  std::vector<int> counts(7, 0);
  for (int i = 0; i < 70'000; ++i) ++counts[numbers.below(7)];
  for (const int count : counts) EXPECT_NEAR(count, 10'000, 5 * std::sqrt(10'000 * 6.0 / 7.0));
}

}  // namespace
}  // namespace tare
