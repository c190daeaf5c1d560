#include "stats/block_effects.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/error.h"
#include "stats/distributions.h"
#include "stats/regression.h"

namespace tare::stats {
namespace {

struct BlockPair {
  std::vector<std::size_t> baseline;  // run numbers
  std::vector<std::size_t> arm;
};

// Runs of the baseline and of one arm, by block, each in the order of their slots.
std::map<int, BlockPair> group_by_block(std::span<const Run> runs, int arm) {
  std::map<int, BlockPair> blocks;
  for (std::size_t r = 0; r < runs.size(); ++r) {
    BlockPair& block = blocks[runs[r].block];
    if (runs[r].arm == 0) block.baseline.push_back(r);
    if (runs[r].arm == arm) block.arm.push_back(r);
  }
  const auto by_slot = [&](std::size_t a, std::size_t b) { return runs[a].slot < runs[b].slot; };
  for (auto& [number, block] : blocks) {
    std::sort(block.baseline.begin(), block.baseline.end(), by_slot);
    std::sort(block.arm.begin(), block.arm.end(), by_slot);
  }
  return blocks;
}

// d = effect + order_effect * s by least squares; centre and squared standard error of the intercept.
struct OrderFit {
  double effect = 0;
  double order_effect = 0;
  double standard_error = 0;
  int degrees_of_freedom = 0;
};

// By block the run of every arm, where it has a weight.
std::map<int, std::vector<std::size_t>> runs_by_block(const Observations& observations,
                                                      std::span<const double> weights) {
  constexpr std::size_t kNone = static_cast<std::size_t>(-1);
  std::map<int, std::vector<std::size_t>> blocks;
  std::map<int, std::vector<int>> counts;
  for (std::size_t r = 0; r < observations.runs.size(); ++r) {
    const Run& run = observations.runs[r];
    const auto arm = static_cast<std::size_t>(run.arm);
    if (weights[arm] == 0) continue;
    blocks.try_emplace(run.block, weights.size(), kNone).first->second[arm] = r;
    ++counts.try_emplace(run.block, weights.size(), 0).first->second[arm];
  }
  for (const auto& [number, of_arms] : counts) {
    for (std::size_t arm = 0; arm < weights.size(); ++arm) {
      if (weights[arm] == 0 || of_arms[arm] == 1) continue;
      throw Error(ErrorKind::kInvalid,
                  fmt::format("needs one run of arm {}{}, has {}", arm, arm == 0 ? ", the baseline" : "", of_arms[arm]),
                  fmt::format("block {}", number));
    }
  }
  return blocks;
}

double spread_or_none(double deviation) {
  return deviation < kNoSpread ? 0 : deviation;
}

OrderFit fit_mean(std::span<const double> effects) {
  const Moments of_effects = moments(effects);
  const double count = static_cast<double>(effects.size());
  return {.effect = of_effects.mean,
          .order_effect = 0,
          .standard_error = spread_or_none(of_effects.standard_deviation) / std::sqrt(count),
          .degrees_of_freedom = static_cast<int>(effects.size()) - 1};
}

OrderFit fit_with_order(std::span<const double> effects, std::span<const double> order) {
  const double count = static_cast<double>(effects.size());
  const double mean_effect = moments(effects).mean;
  const double mean_order = moments(order).mean;
  double order_squares = 0;
  double products = 0;
  for (std::size_t j = 0; j < effects.size(); ++j) {
    order_squares += (order[j] - mean_order) * (order[j] - mean_order);
    products += (order[j] - mean_order) * (effects[j] - mean_effect);
  }
  OrderFit fit;
  fit.order_effect = products / order_squares;
  fit.effect = mean_effect - fit.order_effect * mean_order;
  fit.degrees_of_freedom = static_cast<int>(effects.size()) - 2;
  double residual_squares = 0;
  for (std::size_t j = 0; j < effects.size(); ++j) {
    const double residual = effects[j] - fit.effect - fit.order_effect * order[j];
    residual_squares += residual * residual;
  }
  const double deviation = spread_or_none(std::sqrt(residual_squares / fit.degrees_of_freedom));
  fit.standard_error = deviation * std::sqrt(1 / count + mean_order * mean_order / order_squares);
  return fit;
}

void fill_interval(Estimate& estimate, double level) {
  const double df = *estimate.degrees_of_freedom;
  if (df < 1) return;
  estimate.interval = t_interval(estimate.log_effect, estimate.standard_error, df, level);
  estimate.p_value = two_sided_p(estimate.log_effect, estimate.standard_error, df);
  if (estimate.standard_error == 0) {
    estimate.warnings.push_back({.code = WarningCode::kDegenerate,
                                 .text = "all units show the same effect: a point instead of an interval",
                                 .numbers = {}});
  }
}

void warn_of_start_order(BlockEffects& result, bool order_varies) {
  const double mean_order = moments(result.start_order).mean;
  if (!order_varies && result.blocks.size() > 1 && std::abs(mean_order) > kNoSpread) {
    result.estimate.warnings.push_back(
        {.code = WarningCode::kStartOrderConfounded,
         .text = "the arms were started in the same order in every block: its effect cannot be told from the arm's",
         .numbers = {{"mean_start_order", mean_order}}});
  } else if (!result.order_effect && std::abs(mean_order) > kNoSpread) {
    result.estimate.warnings.push_back(
        {.code = WarningCode::kStartOrderUnbalanced,
         .text =
             fmt::format("{:.0f} % of any effect of the start order is in the estimate", 100 * std::abs(mean_order)),
         .numbers = {{"mean_start_order", mean_order}}});
  }
}

}  // namespace

BlockEffects block_effects(const Observations& observations, int arm, double level) {
  std::vector<double> weights(static_cast<std::size_t>(observations.arms), 0.0);
  weights.at(static_cast<std::size_t>(arm)) = 1;
  weights.front() = -1;
  return block_contrast(observations, weights, level);
}

BlockEffects block_contrast(const Observations& observations, std::span<const double> weights, double level) {
  const std::vector<double> log_rates = run_log_rates(observations);
  const double widest = std::max(1, observations.arms - 1);
  BlockEffects result;
  for (const auto& [number, of_arms] : runs_by_block(observations, weights)) {
    double effect = 0;
    double start = 0;
    for (std::size_t arm = 0; arm < weights.size(); ++arm) {
      if (weights[arm] == 0) continue;
      effect += weights[arm] * log_rates[of_arms[arm]];
      start += weights[arm] * observations.runs[of_arms[arm]].slot;
    }
    result.blocks.push_back(number);
    result.log_effects.push_back(effect);
    result.start_order.push_back(start / (2 * widest));
  }
  const int blocks = static_cast<int>(result.blocks.size());
  const auto [low, high] = std::minmax_element(result.start_order.begin(), result.start_order.end());
  const bool order_varies = blocks > 0 && *high > *low;
  const bool with_order = order_varies && blocks >= kBlocksForStartOrderTerm;
  const OrderFit fit =
      with_order ? fit_with_order(result.log_effects, result.start_order) : fit_mean(result.log_effects);

  Estimate& estimate = result.estimate;
  estimate.estimand = Estimand::kThesePromptsAnyLaunch;
  estimate.method = Method::kBlockEffects;
  estimate.log_effect = fit.effect;
  estimate.standard_error = fit.standard_error;
  estimate.degrees_of_freedom = fit.degrees_of_freedom;
  estimate.conclusive = blocks >= kMinimumBlocks && fit.degrees_of_freedom >= kMinimumDegreesOfFreedom;
  estimate.method_text = fmt::format("effects of {} blocks{}; t with {} degrees of freedom", blocks,
                                     with_order ? ", start order fitted" : "", fit.degrees_of_freedom);
  if (with_order) result.order_effect = fit.order_effect;
  fill_interval(estimate, level);
  if (!estimate.conclusive) {
    estimate.warnings.push_back({.code = WarningCode::kFewBlocks,
                                 .text = fmt::format("{} blocks, {} are needed for a verdict", blocks, kMinimumBlocks),
                                 .numbers = {{"blocks", blocks}, {"degrees_of_freedom", fit.degrees_of_freedom}}});
  }
  warn_of_start_order(result, order_varies);
  return result;
}

Estimate block_pair_estimate(std::span<const Run> runs, std::span<const double> log_rates, int arm, double level) {
  std::vector<double> differences;
  for (const auto& [number, block] : group_by_block(runs, arm)) {
    const std::size_t pairs = std::min(block.baseline.size(), block.arm.size());
    for (std::size_t i = 0; i < pairs; ++i) {
      differences.push_back(log_rates[block.arm[i]] - log_rates[block.baseline[i]]);
    }
  }
  if (differences.empty()) {
    throw Error(ErrorKind::kInvalid, fmt::format("no block holds both arm {} and the baseline", arm), "pairs of runs");
  }
  const OrderFit fit = fit_mean(differences);
  Estimate estimate;
  estimate.estimand = Estimand::kThesePromptsAnyLaunch;
  estimate.method = Method::kBlockPairs;
  estimate.log_effect = fit.effect;
  estimate.standard_error = fit.standard_error;
  estimate.degrees_of_freedom = fit.degrees_of_freedom;
  estimate.conclusive = fit.degrees_of_freedom >= kMinimumDegreesOfFreedom;
  estimate.method_text = fmt::format("differences of {} pairs of runs, no drift model; t with {} degrees of freedom",
                                     differences.size(), fit.degrees_of_freedom);
  fill_interval(estimate, level);
  return estimate;
}

}  // namespace tare::stats
