// An arm of this sitting against runs of another sitting, kept as a baseline: nothing was alternated, so neither drift
// nor what differs between two sittings of one machine cancels.
//   effect = mean ln rate here - mean ln rate there
//   SE^2 = s_here^2 / n_here + s_there^2 / n_there + between^2
//   df   = (V_here + V_there)^2 ... Welch and Satterthwaite of SE^2, `between` taken as known (no degrees of freedom)
// `between` is the standard deviation of the difference of two sittings of one and the same program, of ln rate: it
// must come from sittings that were measured (pool_sittings, or A/A experiments on other days), never from these two.
// Drift within a sitting widens s. A fresh A/B needs none of this and is an order of magnitude sharper.
#pragma once

#include <span>

#include "stats/effect.h"

namespace tare::stats {

inline constexpr std::size_t kFewestStoredRuns = 3;  // a side's spread over two runs is no spread

// Log rates of the runs of either side. Throws Error (input) for a negative `between`, Error (invalid) for a side
// without runs. Fewer than kFewestStoredRuns on a side: not conclusive.
[[nodiscard]] Estimate against_stored(std::span<const double> baseline_log_rates, std::span<const double> log_rates,
                                      double between, double level = 0.95);

}  // namespace tare::stats
