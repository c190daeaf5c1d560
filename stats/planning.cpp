#include "stats/planning.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "stats/distributions.h"
#include "stats/schedule.h"

namespace tare::stats {
namespace {

constexpr int kFewestPairs = 5;  // four degrees of freedom
constexpr int kMostPairs = 1'000'000;

void check_error_rates(double alpha, double power) {
  if (!(alpha > 0 && alpha < 1) || !(power > 0 && power < 1)) {
    throw input_error("plan", "alpha and power must lie between 0 and 1");
  }
}

double detectable_at(double standard_error, double df, double alpha, double power) {
  return (student_t_quantile(1 - alpha / 2, df) + student_t_quantile(power, df)) * standard_error;
}

}  // namespace

double minimum_detectable_effect(double difference_sd, int pairs, double alpha, double power) {
  if (pairs < 2) throw input_error("plan.pairs", "at least two are needed");
  if (!(difference_sd >= 0)) throw input_error("plan.difference_sd", "must not be negative");
  check_error_rates(alpha, power);
  return detectable_at(difference_sd / std::sqrt(pairs), pairs - 1, alpha, power);
}

int pairs_for_effect(double effect, double difference_sd, double alpha, double power) {
  if (!(effect > 0)) throw input_error("plan.effect", "must be positive");
  const auto enough = [&](int pairs) {
    return minimum_detectable_effect(difference_sd, pairs, alpha, power) <= effect;
  };
  int high = kFewestPairs;
  while (!enough(high)) {
    if (high >= kMostPairs) throw input_error("plan.effect", "needs more than a million pairs");
    high *= 2;
  }
  int low = high == kFewestPairs ? kFewestPairs - 1 : high / 2;  // not enough, or never tried
  while (high - low > 1) {
    const int middle = low + (high - low) / 2;
    (enough(middle) ? high : low) = middle;
  }
  return high;
}

DesignPower power_of_design(const DesignQuestion& question, int blocks) {
  if (question.arms < 2) throw input_error("plan.arms", "at least two are needed");
  if (blocks < 1) throw input_error("plan.blocks", "at least one is needed");
  if (!(question.unit_sd >= 0)) throw input_error("plan.unit_sd", "must not be negative");
  check_error_rates(question.alpha, question.power);
  DesignPower design;
  design.blocks = blocks;
  if (question.granularity == Granularity::kRun) {
    design.runs = blocks * static_cast<int>(block_order(question.arms).size());
    design.degrees_of_freedom = design.runs - question.arms - drift_degree_rule(blocks);
    design.standard_error = question.unit_sd * std::sqrt(2.0 * question.arms / design.runs);
    design.conclusive = design.degrees_of_freedom >= kMinimumDegreesOfFreedom;
  } else {
    design.runs = blocks * question.arms;
    design.degrees_of_freedom = blocks - (blocks >= kBlocksForStartOrderTerm ? 2 : 1);
    design.standard_error = question.unit_sd / std::sqrt(blocks);
    design.conclusive = blocks >= kMinimumBlocks;
  }
  if (design.degrees_of_freedom < 1) {
    design.detectable = std::numeric_limits<double>::infinity();
    return design;
  }
  const double shared_alpha = question.alpha / (question.arms - 1);
  design.detectable = detectable_at(design.standard_error, design.degrees_of_freedom, shared_alpha, question.power);
  return design;
}

std::optional<DesignPower> smallest_design(const DesignQuestion& question, double log_effect) {
  if (!(log_effect > 0)) throw input_error("plan.effect", "must be positive");
  const auto enough = [&](const DesignPower& design) { return design.conclusive && design.detectable <= log_effect; };
  // Few blocks one by one: degrees of freedom jump there, so that more blocks need not detect less.
  constexpr int kFewBlocksTried = 16;
  for (int blocks = 1; blocks <= kFewBlocksTried; ++blocks) {
    const DesignPower design = power_of_design(question, blocks);
    if (enough(design)) return design;
  }
  int high = kFewBlocksTried;
  while (!enough(power_of_design(question, high))) {
    if (high >= kMostPlannedBlocks) return std::nullopt;
    high = std::min(2 * high, kMostPlannedBlocks);
  }
  int low = high / 2;
  while (high - low > 1) {
    const int middle = low + (high - low) / 2;
    (enough(power_of_design(question, middle)) ? high : low) = middle;
  }
  return power_of_design(question, high);
}

std::vector<int> repetitions_by_level(std::span<const NestedLevel> levels) {
  if (levels.size() < 2) throw input_error("plan.levels", "at least two are needed");
  std::vector<double> own;  // T_i^2: what a level adds itself
  for (std::size_t i = 0; i < levels.size(); ++i) {
    const NestedLevel& level = levels[i];
    if (!(level.mean_variance >= 0) || !(level.repetitions_seen >= 1) || !(level.cost > 0)) {
      throw input_error("plan.levels", "needs variances from 0, repetitions from 1 and positive costs");
    }
    own.push_back(i == 0 ? level.mean_variance
                         : level.mean_variance - levels[i - 1].mean_variance / levels[i - 1].repetitions_seen);
  }
  std::vector<int> repetitions;
  for (std::size_t i = 0; i + 1 < levels.size(); ++i) {
    if (own[i] <= 0) {
      repetitions.push_back(1);
    } else if (own[i + 1] <= 0) {
      repetitions.push_back(0);
    } else {
      const double ratio = levels[i + 1].cost / levels[i].cost * own[i] / own[i + 1];
      repetitions.push_back(std::max(1, static_cast<int>(std::ceil(std::sqrt(ratio) - 1e-9))));
    }
  }
  return repetitions;
}

}  // namespace tare::stats
