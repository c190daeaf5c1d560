// One effect from several sittings. A sitting has its own launches, its own hour, often its own build: between sittings
// an effect may differ by more than within them, and then the spread between them is what a claim must be held against.
//
// Random effects. With d_s, SE_s the effect of sitting s and w_s = 1/SE_s^2: Q = sum w_s (d_s - d_fixed)^2;
//   tau^2 = max(0, (Q - (S - 1)) / (sum w - sum w^2 / sum w))              (DerSimonian and Laird 1986)
//   d = sum v_s d_s / sum v_s,  v_s = 1 / (SE_s^2 + tau^2)
//   SE^2 = max(sum v_s (d_s - d)^2 / ((S - 1) sum v_s), 1 / sum v_s),  t(S - 1)   (Hartung and Knapp 2001, not
//   narrower than the plain one)
// Assumes that sittings are a sample of the sittings one cares about. With two sittings t(1) is honest and very wide;
// fewer than three give no verdict. Does not claim that what is common to all sittings (one machine, one suite) varied.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "stats/effect.h"

namespace tare::stats {

inline constexpr int kFewestSittings = 3;  // t(1) of two sittings is thirteen standard errors wide

struct PooledEffect {
  Estimate estimate = {};            // method "pooled_sittings"
  double between_sitting_sd = 0;     // tau, of the log effect
  double heterogeneity_q = 0;        // Q
  double heterogeneity_p = 1;        // P(chi-squared(S - 1) >= Q): small when sittings disagree beyond their errors
  double within_sitting_se = 0;      // standard error if sittings did not differ: 1 / sqrt(sum w)
  std::vector<double> weights = {};  // v_s, summing to 1
};

// Every estimate of one sitting needs a positive standard error and the same estimand. Throws Error (input) for fewer
// than two, Error (invalid) for estimands that differ or a standard error of 0.
[[nodiscard]] PooledEffect pool_sittings(std::span<const Estimate> sittings, double level = 0.95);

}  // namespace tare::stats
