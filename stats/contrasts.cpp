#include "stats/contrasts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "base/error.h"
#include "stats/block_effects.h"
#include "stats/distributions.h"

namespace tare::stats {
namespace {

constexpr double kNoWeight = 1e-12;  // sums of weights such as 1/3 are off by rounding

// w'b of the regression's coefficients; the baseline's is 0 and has no column.
Estimate of_regression(const Analysis& analysis, std::span<const double> weights, double level) {
  const std::size_t others = analysis.comparisons.size();
  const Estimate& first = analysis.comparisons.front().runs;
  Estimate estimate;
  estimate.estimand = first.estimand;
  estimate.method = Method::kRunRegression;
  estimate.degrees_of_freedom = first.degrees_of_freedom;
  estimate.conclusive = first.conclusive;
  double variance = 0;
  for (std::size_t a = 0; a < others; ++a) {
    estimate.log_effect += weights[a + 1] * analysis.comparisons[a].runs.log_effect;
    for (std::size_t b = 0; b < others; ++b)
      variance += weights[a + 1] * weights[b + 1] * analysis.arm_covariance[a * others + b];
  }
  estimate.standard_error = std::sqrt(std::max(0.0, variance));
  estimate.method_text = "contrast of the arms; " + first.method_text;
  const double df = first.degrees_of_freedom.value_or(0);
  if (df < 1) {
    estimate.warnings = first.warnings;
    return estimate;
  }
  estimate.interval = t_interval(estimate.log_effect, estimate.standard_error, df, level);
  estimate.p_value = two_sided_p(estimate.log_effect, estimate.standard_error, df);
  return estimate;
}

class Cells {
 public:
  explicit Cells(const ArmLevels& levels) {
    if (levels.empty()) throw internal_error("factor contrasts of no arms");
    for (std::size_t arm = 0; arm < levels.size(); ++arm) {
      if (levels[arm].size() != levels.front().size()) throw internal_error("every arm needs a level of every factor");
      if (!arms_.emplace(levels[arm], arm).second) throw internal_error("two arms have the same levels");
    }
  }
  // The arm with these levels but for some; the number of arms when there is none.
  [[nodiscard]] std::size_t arm(const std::vector<std::size_t>& levels) const {
    const auto found = arms_.find(levels);
    return found == arms_.end() ? arms_.size() : found->second;
  }
  [[nodiscard]] std::size_t none() const { return arms_.size(); }

 private:
  std::map<std::vector<std::size_t>, std::size_t> arms_;
};

std::vector<std::size_t> with(std::vector<std::size_t> levels, std::size_t factor, std::size_t level) {
  levels[factor] = level;
  return levels;
}

// Levels of a factor that some arm has and the baseline has not, ascending.
std::vector<std::size_t> other_levels(const ArmLevels& levels, std::size_t factor) {
  std::set<std::size_t> found;
  for (const auto& of_arm : levels) found.insert(of_arm[factor]);
  found.erase(levels.front()[factor]);
  return {found.begin(), found.end()};
}

void divide(std::vector<double>& weights, std::size_t by) {
  for (double& weight : weights) weight /= static_cast<double>(by);
}

}  // namespace

Estimate contrast_estimate(const Observations& observations, const Analysis& analysis, Granularity granularity,
                           std::span<const double> weights, double level) {
  if (weights.size() != analysis.comparisons.size() + 1) throw internal_error("a contrast needs one weight an arm");
  if (std::abs(std::accumulate(weights.begin(), weights.end(), 0.0)) > kNoWeight)
    throw internal_error("the weights of a contrast must add up to zero");
  if (granularity == Granularity::kRun) return of_regression(analysis, weights, level);
  return block_contrast(observations, weights, level).estimate;
}

std::vector<FactorContrast> factor_contrasts(const ArmLevels& levels) {
  const Cells cells(levels);
  const std::vector<std::size_t>& baseline = levels.front();
  std::vector<FactorContrast> contrasts;
  for (std::size_t factor = 0; factor < baseline.size(); ++factor) {
    for (const std::size_t level : other_levels(levels, factor)) {
      FactorContrast contrast{.factor = factor, .level = level, .weights = std::vector<double>(levels.size(), 0.0)};
      for (std::size_t arm = 0; arm < levels.size(); ++arm) {
        if (levels[arm][factor] != level) continue;
        const std::size_t reference = cells.arm(with(levels[arm], factor, baseline[factor]));
        if (reference == cells.none()) continue;
        contrast.weights[arm] += 1;
        contrast.weights[reference] -= 1;
        ++contrast.combinations;
      }
      if (contrast.combinations == 0) continue;
      divide(contrast.weights, contrast.combinations);
      contrasts.push_back(std::move(contrast));
    }
  }
  return contrasts;
}

std::vector<InteractionContrast> interaction_contrasts(const ArmLevels& levels) {
  const Cells cells(levels);
  const std::vector<std::size_t>& baseline = levels.front();
  std::vector<InteractionContrast> contrasts;
  const auto add = [&](std::size_t factor, std::size_t level, std::size_t other, std::size_t other_level) {
    InteractionContrast contrast{.factor = factor,
                                 .level = level,
                                 .other_factor = other,
                                 .other_level = other_level,
                                 .weights = std::vector<double>(levels.size(), 0.0)};
    for (std::size_t arm = 0; arm < levels.size(); ++arm) {
      if (levels[arm][factor] != level || levels[arm][other] != other_level) continue;
      const std::size_t without = cells.arm(with(levels[arm], factor, baseline[factor]));
      const std::size_t without_other = cells.arm(with(levels[arm], other, baseline[other]));
      const std::size_t neither = cells.arm(with(with(levels[arm], factor, baseline[factor]), other, baseline[other]));
      if (without == cells.none() || without_other == cells.none() || neither == cells.none()) continue;
      contrast.weights[arm] += 1;
      contrast.weights[without] -= 1;
      contrast.weights[without_other] -= 1;
      contrast.weights[neither] += 1;
      ++contrast.combinations;
    }
    if (contrast.combinations == 0) return;
    divide(contrast.weights, contrast.combinations);
    contrasts.push_back(std::move(contrast));
  };
  for (std::size_t factor = 0; factor < baseline.size(); ++factor)
    for (std::size_t other = factor + 1; other < baseline.size(); ++other)
      for (const std::size_t level : other_levels(levels, factor))
        for (const std::size_t other_level : other_levels(levels, other)) add(factor, level, other, other_level);
  return contrasts;
}

}  // namespace tare::stats
