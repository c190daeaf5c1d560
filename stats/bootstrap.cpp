#include "stats/bootstrap.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "stats/distributions.h"
#include "stats/quantiles.h"

namespace tare::stats {
namespace {

constexpr double kTieTolerance = 1e-12;  // relative: sums of the same terms in another order are ties

struct Totals {
  double baseline_numerator = 0;
  double baseline_denominator = 0;
  double arm_numerator = 0;
  double arm_denominator = 0;

  Totals& operator+=(const Totals& other) {
    baseline_numerator += other.baseline_numerator;
    baseline_denominator += other.baseline_denominator;
    arm_numerator += other.arm_numerator;
    arm_denominator += other.arm_denominator;
    return *this;
  }
  [[nodiscard]] Totals without(const Totals& other) const {
    return {baseline_numerator - other.baseline_numerator, baseline_denominator - other.baseline_denominator,
            arm_numerator - other.arm_numerator, arm_denominator - other.arm_denominator};
  }
  [[nodiscard]] double ratio() const {
    return arm_numerator * baseline_denominator / (arm_denominator * baseline_numerator);
  }
};

std::vector<Totals> interleave(const PromptTotals& baseline, const PromptTotals& arm) {
  const std::size_t count = baseline.numerator.size();
  if (count == 0 || baseline.denominator.size() != count || arm.numerator.size() != count ||
      arm.denominator.size() != count) {
    throw input_error("bootstrap", "needs the same number of prompts, at least one, in both arms");
  }
  std::vector<Totals> rows(count);
  for (std::size_t i = 0; i < count; ++i) {
    rows[i] = {baseline.numerator[i], baseline.denominator[i], arm.numerator[i], arm.denominator[i]};
  }
  return rows;
}

Totals sum(const std::vector<Totals>& rows) {
  Totals total;
  for (const Totals& row : rows) total += row;
  return total;
}

// What of the rows a resample has to add up when the text was forced: its tokens are equal in both arms and cancel.
struct DenominatorTotals {
  double baseline = 0;
  double arm = 0;

  DenominatorTotals& operator+=(const DenominatorTotals& other) {
    baseline += other.baseline;
    arm += other.arm;
    return *this;
  }
  [[nodiscard]] double ratio() const { return baseline / arm; }
};

template <typename Row>
double resample_ratio(const std::vector<Row>& rows, std::uint64_t seed, std::uint32_t resample,
                      std::vector<std::uint32_t>& drawn) {
  std::uint32_t* next = drawn.data();
  draw_with_replacement(seed, ResampleKind::kPrompts, resample, rows.size(), rows.size(),
                        [&next](std::size_t index) { *next++ = static_cast<std::uint32_t>(index); });
  // Two sums that do not wait for one another.
  Row even;
  Row odd;
  std::size_t i = 0;
  for (; i + 1 < drawn.size(); i += 2) {
    even += rows[drawn[i]];
    odd += rows[drawn[i + 1]];
  }
  if (i < drawn.size()) even += rows[drawn[i]];
  even += odd;
  return even.ratio();
}

std::vector<double> all_ratios(const std::vector<Totals>& rows, std::size_t total) {
  std::vector<double> ratios(total);
  for (std::size_t number = 0; number < total; ++number) {
    Totals sums;
    enumerated_resample(number, rows.size(), [&](std::size_t index) { sums += rows[index]; });
    ratios[number] = sums.ratio();
  }
  return ratios;
}

template <typename Row>
std::vector<double> random_ratios_of(const std::vector<Row>& rows, const BootstrapOptions& options) {
  std::vector<double> ratios(static_cast<std::size_t>(options.resamples));
  for_each_resample(ratios.size(), options.threads, [&](std::size_t begin, std::size_t end) {
    std::vector<std::uint32_t> drawn(rows.size());
    for (std::size_t b = begin; b < end; ++b) {
      ratios[b] = resample_ratio(rows, options.seed, static_cast<std::uint32_t>(b), drawn);
    }
  });
  return ratios;
}

std::vector<double> random_ratios(const std::vector<Totals>& rows, const BootstrapOptions& options) {
  const bool forced = std::all_of(rows.begin(), rows.end(),
                                  [](const Totals& row) { return row.baseline_numerator == row.arm_numerator; });
  if (!forced) return random_ratios_of(rows, options);
  std::vector<DenominatorTotals> denominators;
  denominators.reserve(rows.size());
  for (const Totals& row : rows) denominators.push_back({row.baseline_denominator, row.arm_denominator});
  return random_ratios_of(denominators, options);
}

// a = sum d^3 / (6 (sum d^2)^1.5), d the mean of the leave-one-out values minus each; 0 when they are all equal.
double jackknife_acceleration(const std::vector<Totals>& rows, const Totals& total) {
  if (rows.size() < 2) return 0;
  std::vector<double> left_out;
  left_out.reserve(rows.size());
  for (const Totals& row : rows) left_out.push_back(total.without(row).ratio());
  const double mean = moments(left_out).mean;
  double squares = 0;
  double cubes = 0;
  for (const double value : left_out) {
    const double difference = mean - value;
    squares += difference * difference;
    cubes += difference * difference * difference;
  }
  const double scale = std::pow(squares, 1.5);
  return std::sqrt(squares) > kNoSpread * mean && scale > 0 ? cubes / (6 * scale) : 0;
}

Interval log_quantiles(const std::vector<double>& ascending, double low, double high, double level) {
  return {.low = std::log(quantile_of_sorted(ascending, low)),
          .high = std::log(quantile_of_sorted(ascending, high)),
          .level = level};
}

// Bias-corrected level for the nominal one; nothing when it leaves (0, 1).
std::optional<double> bca_level(double nominal, double z0, double acceleration) {
  if (!std::isfinite(z0)) return std::nullopt;
  const double z = z0 + normal_quantile(nominal);
  const double scale = 1 - acceleration * z;
  if (scale <= 0) return std::nullopt;
  const double level = normal_cdf(z0 + z / scale);
  if (level > 0 && level < 1) return level;
  return std::nullopt;
}

void fill_bca(BootstrapResult& result, const std::vector<double>& ascending, double theta, const Interval& percentile) {
  double below = 0;
  double ties = 0;
  for (const double value : ascending) {
    if (std::abs(value - theta) <= kTieTolerance * theta) {
      ties += 1;
    } else if (value < theta) {
      below += 1;
    }
  }
  const double share = (below + ties / 2) / static_cast<double>(ascending.size());
  result.bias_z0 = share > 0 && share < 1 ? normal_quantile(share) : (share > 0 ? HUGE_VAL : -HUGE_VAL);
  const double level = percentile.level;
  const auto low = bca_level(0.5 - level / 2, result.bias_z0, result.acceleration);
  const auto high = bca_level(0.5 + level / 2, result.bias_z0, result.acceleration);
  if (low && high) {
    result.estimate.bca = log_quantiles(ascending, *low, *high, level);
    return;
  }
  result.estimate.bca = percentile;
  result.estimate.warnings.push_back({.code = WarningCode::kBcaFellBack,
                                      .text = "the BCa levels leave (0, 1): percentile bounds are given instead",
                                      .numbers = {{"z0", result.bias_z0}, {"acceleration", result.acceleration}}});
}

void warn_of_few_prompts(Estimate& estimate, std::size_t prompts) {
  if (prompts >= static_cast<std::size_t>(kFewPrompts)) return;
  estimate.warnings.push_back(
      {.code = WarningCode::kFewPrompts,
       .text = fmt::format("{} prompts: an interval over prompts is too narrow below {}", prompts, kFewPrompts),
       .numbers = {{"prompts", static_cast<double>(prompts)}}});
}

}  // namespace

BootstrapResult bootstrap_ratio(const PromptTotals& baseline, const PromptTotals& arm,
                                const BootstrapOptions& options) {
  check_bootstrap_options(options);
  const std::vector<Totals> rows = interleave(baseline, arm);
  const Totals total = sum(rows);
  const double theta = total.ratio();

  BootstrapResult result;
  const std::size_t all = exhaustive_count(rows.size(), static_cast<std::size_t>(options.resamples));
  result.exhaustive = all > 0;
  std::vector<double> ratios = result.exhaustive ? all_ratios(rows, all) : random_ratios(rows, options);
  result.resamples = ratios.size();
  std::sort(ratios.begin(), ratios.end());

  Estimate& estimate = result.estimate;
  estimate.estimand = Estimand::kThesePromptsTheseLaunches;
  estimate.method = Method::kPromptBootstrap;
  estimate.log_effect = std::log(theta);
  estimate.method_text =
      fmt::format("paired bootstrap over {} prompts, {} resamples{}; conditional on these launches", rows.size(),
                  result.resamples, result.exhaustive ? " (all)" : fmt::format(", seed {}", options.seed));
  estimate.conclusive = rows.size() >= static_cast<std::size_t>(kFewPrompts);
  warn_of_few_prompts(estimate, rows.size());
  if (rows.size() < 2) return result;  // one prompt has no spread over prompts

  std::vector<double> logs(ratios.size());
  std::transform(ratios.begin(), ratios.end(), logs.begin(), [](double ratio) { return std::log(ratio); });
  estimate.standard_error = moments(logs).standard_deviation;
  const Interval percentile = log_quantiles(ratios, 0.5 - options.level / 2, 0.5 + options.level / 2, options.level);
  estimate.interval = percentile;
  if (ratios.back() - ratios.front() <= kTieTolerance * theta) {
    estimate.standard_error = 0;
    estimate.bca = percentile;
    estimate.warnings.push_back({.code = WarningCode::kDegenerate,
                                 .text = "all prompts show the same ratio: a point instead of an interval",
                                 .numbers = {}});
    return result;
  }
  result.acceleration = jackknife_acceleration(rows, total);
  fill_bca(result, ratios, theta, percentile);
  return result;
}

Estimate delta_ratio(const PromptTotals& baseline, const PromptTotals& arm, double level) {
  const std::vector<Totals> rows = interleave(baseline, arm);
  const Totals total = sum(rows);
  const double count = static_cast<double>(rows.size());
  Estimate estimate;
  estimate.estimand = Estimand::kThesePromptsTheseLaunches;
  estimate.method = Method::kPromptDelta;
  estimate.log_effect = std::log(total.ratio());
  estimate.method_text =
      fmt::format("delta method over {} prompts; t with {} degrees of freedom", rows.size(), rows.size() - 1);
  estimate.conclusive = rows.size() >= static_cast<std::size_t>(kFewPrompts);
  warn_of_few_prompts(estimate, rows.size());
  if (rows.size() < 2) return estimate;
  std::vector<double> influence;
  influence.reserve(rows.size());
  for (const Totals& row : rows) {
    influence.push_back(count * (row.arm_numerator / total.arm_numerator - row.arm_denominator / total.arm_denominator -
                                 row.baseline_numerator / total.baseline_numerator +
                                 row.baseline_denominator / total.baseline_denominator));
  }
  estimate.standard_error = moments(influence).standard_deviation / std::sqrt(count);
  if (estimate.standard_error < kNoSpread) estimate.standard_error = 0;
  estimate.degrees_of_freedom = count - 1;
  estimate.interval = t_interval(estimate.log_effect, estimate.standard_error, count - 1, level);
  estimate.p_value = two_sided_p(estimate.log_effect, estimate.standard_error, count - 1);
  return estimate;
}

}  // namespace tare::stats
