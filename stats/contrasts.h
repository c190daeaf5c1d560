// Differences between groups of arms, and what the factors of a matrix do.
//
// A contrast is a weighted sum of the arms' log rates whose weights add up to zero; arm against baseline is +1 and -1.
// Granularity `run`: of the coefficients of the run-level regression (regression.h), w'b with variance w'Vw, t with the
// regression's degrees of freedom. Granularity `prompt`: the weighted sum within each block, then as block effects
// (block_effects.h). Both speak of this suite of prompts, any launch.
//
// Factors. Every arm has one level of every factor; the baseline's levels are the reference. An arm is a cell.
//   effect of level a of F      mean over the combinations c of the other factors that have both cells of
//                               cell(a, c) - cell(reference, c)
//   interaction of a and b      mean over the combinations c of the factors other than F and G that have all four of
//                               [cell(a, b, c) - cell(a, ref, c)] - [cell(ref, b, c) - cell(ref, ref, c)]
// In a full design these are the least-squares effects of the model with all interactions, averaged with equal weights
// over the other factors (Montgomery, Design and Analysis of Experiments, ch. 5). Where combinations are excluded only
// matched cells are averaged, so that no level is held against another's company. One factor at a time leaves one
// combination, the baseline's: the effect is then the simple one, and there is no interaction to estimate.
// Does not claim that a mean effect holds in every combination: a shown interaction says that it does not.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "stats/analysis.h"
#include "stats/effect.h"
#include "stats/observations.h"

namespace tare::stats {

// `weights` per arm, adding up to zero. `analysis` is that of the same observations and granularity. Throws Error
// (internal) for weights that are not one an arm or do not add up to zero.
[[nodiscard]] Estimate contrast_estimate(const Observations& observations, const Analysis& analysis,
                                         Granularity granularity, std::span<const double> weights, double level = 0.95);

// Which level of each factor an arm has: [arm][factor], arm 0 the baseline.
using ArmLevels = std::vector<std::vector<std::size_t>>;

struct FactorContrast {
  std::size_t factor = 0;
  std::size_t level = 0;             // against the baseline's
  std::size_t combinations = 0;      // of the other factors, averaged over
  std::vector<double> weights = {};  // per arm
};
struct InteractionContrast {
  std::size_t factor = 0;
  std::size_t level = 0;
  std::size_t other_factor = 0;  // > factor
  std::size_t other_level = 0;
  std::size_t combinations = 0;
  std::vector<double> weights = {};
};

// Of every level that the baseline has not, in the order of factors and levels; a level without a matched pair of
// arms has none. `levels` must be rectangular with no two arms alike (Error (internal)).
[[nodiscard]] std::vector<FactorContrast> factor_contrasts(const ArmLevels& levels);
// Of every two factors; only where all four cells are there.
[[nodiscard]] std::vector<InteractionContrast> interaction_contrasts(const ArmLevels& levels);

}  // namespace tare::stats
