// Exact tests on paired differences, two-sided, no distribution assumed beyond symmetry (Wilcoxon, sign-flip) or the
// median (sign). All-zero differences give p = 1, never a NaN. With n pairs the smallest attainable sign-flip p is
// 2^(1-n): six pairs are the least for p < 0.05.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "stats/warning.h"

namespace tare::stats {

struct ExactTest {
  double statistic = 0;         // Wilcoxon: W+; sign: number positive; sign-flip: mean difference
  double p_value = 1;           // two-sided, exact
  std::size_t used = 0;         // differences that entered
  double smallest_p_value = 1;  // attainable with that many
  std::vector<Warning> warnings = {};
};

// Signed ranks, mid-ranks for ties, zeros dropped; exact distribution by dynamic programming. Up to 500 differences.
[[nodiscard]] ExactTest wilcoxon_signed_rank(std::span<const double> differences);
// Zeros dropped; binomial(n, 1/2).
[[nodiscard]] ExactTest sign_test(std::span<const double> differences);
// All 2^n sign patterns of the mean; n <= 24, Error (input) beyond.
[[nodiscard]] ExactTest sign_flip_test(std::span<const double> differences);

}  // namespace tare::stats
