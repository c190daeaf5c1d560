// Wilson (1927) score interval of a proportion: centre (p + z^2/2n) / (1 + z^2/n), half z/(1 + z^2/n) sqrt(p(1-p)/n +
// z^2/4n^2). Assumes independent trials; tokens of one text are not.
#pragma once

#include <cstdint>

#include "stats/effect.h"

namespace tare::stats {

// Bounds on the proportion itself (not logs). Throws Error (input) for trials = 0 or successes > trials.
[[nodiscard]] Interval wilson_interval(std::uint64_t successes, std::uint64_t trials, double level = 0.95);

// Clopper and Pearson (1934), exact: bounds at which the binomial leaves (1 - level) / 2 on either side. Never too
// narrow; for few trials, where Wilson's may be. Throws as above.
[[nodiscard]] Interval exact_binomial_interval(std::uint64_t successes, std::uint64_t trials, double level = 0.95);

}  // namespace tare::stats
