// McNemar's test (1947) on paired yes/no outcomes of two arms: the same tokens agreed or not with a reference, the same
// tasks solved or not. Only discordant pairs speak: b where only the baseline succeeded, c where only the arm did.
//
// p: exact binomial(b + c, 1/2), two-sided, when b + c < 25; else (|b - c| - 1)^2 / (b + c) against chi-squared with
// one degree of freedom. The difference of the shares (c - b) / n has the interval of Newcombe (1998, method 10: Wilson
// bounds of both shares joined by their correlation). Assumes independent pairs: tokens of one text are not; for those
// test the shares of whole texts (rank_tests.h) instead.
#pragma once

#include <cstdint>

#include "stats/effect.h"

namespace tare::stats {

struct PairedOutcomes {
  std::uint64_t both = 0;
  std::uint64_t only_baseline = 0;  // b
  std::uint64_t only_arm = 0;       // c
  std::uint64_t neither = 0;
};

struct McNemarTest {
  double p_value = 1;      // 1 without discordant pairs
  bool exact = false;      // by the binomial
  double difference = 0;   // share of successes, arm minus baseline
  Interval interval = {};  // of the difference (not logs)
  std::uint64_t discordant = 0;
};

inline constexpr std::uint64_t kExactDiscordant = 25;  // below it the approximation is not used

// Throws Error (input) for no pairs at all or a level outside (0, 1).
[[nodiscard]] McNemarTest mcnemar_test(const PairedOutcomes& outcomes, double level = 0.95);

}  // namespace tare::stats
