// How small an effect a plan can show. Paired differences with standard deviation sd, n pairs, two-sided alpha, power:
//   (t(1 - alpha/2) + t(power)) sd / sqrt(n), df n - 1: the usual approximation to the non-central t (a little low at n
//   = 4).
#pragma once

namespace tare::stats {

// In the unit of `difference_sd`. Throws Error (input) for pairs < 2, alpha or power outside (0, 1).
[[nodiscard]] double minimum_detectable_effect(double difference_sd, int pairs, double alpha = 0.05,
                                               double power = 0.8);

// Fewest pairs (at least 5, so that four degrees of freedom remain) with minimum_detectable_effect <= effect; effect >
// 0. Throws Error (input) when more than a million would be needed.
[[nodiscard]] int pairs_for_effect(double effect, double difference_sd, double alpha = 0.05, double power = 0.8);

}  // namespace tare::stats
