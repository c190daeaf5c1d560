#include "stats/regression.h"

#include <fmt/format.h>

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "base/error.h"
#include "stats/distributions.h"
#include "stats/schedule.h"

namespace tare::stats {
namespace {

using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr double kWideningWarned = 1.25;       // drift columns may widen an interval by a quarter before we say so
constexpr double kDriftCheckedResiduals = 10;  // coverage was checked for drifts up to ten residual deviations
constexpr double kOutlierLevel = 0.01;         // Bonferroni over runs, so one false alarm in a hundred experiments

// Global slot number: blocks in ascending order, each as long as the longest.
std::vector<double> run_positions(std::span<const Run> runs, DriftVariable variable) {
  std::vector<double> positions;
  positions.reserve(runs.size());
  if (variable == DriftVariable::kMidTime) {
    for (const Run& run : runs) positions.push_back(run.mid_time_s);
    return positions;
  }
  std::set<int> blocks;
  int slots_per_block = 0;
  for (const Run& run : runs) {
    blocks.insert(run.block);
    slots_per_block = std::max(slots_per_block, run.slot + 1);
  }
  std::map<int, int> rank;
  for (const int block : blocks) rank.emplace(block, static_cast<int>(rank.size()));
  for (const Run& run : runs) positions.push_back(rank.at(run.block) * slots_per_block + run.slot);
  return positions;
}

// Positions centred on their mean and scaled so that the farthest is at 1: keeps the powers of one size.
struct ScaledPositions {
  VectorXd value;
  double half_range = 0;
};

ScaledPositions scale_positions(const std::vector<double>& positions) {
  ScaledPositions scaled{
      .value = Eigen::Map<const VectorXd>(positions.data(), static_cast<Eigen::Index>(positions.size())),
      .half_range = 0};
  scaled.value.array() -= scaled.value.mean();
  scaled.half_range = scaled.value.cwiseAbs().maxCoeff();
  if (scaled.half_range > 0) scaled.value /= scaled.half_range;
  return scaled;
}

// Columns: 1, arms 1..arms-1, x..x^degree, covariates less their means.
MatrixXd design_matrix(std::span<const Run> runs, int arms, const VectorXd& x, int degree,
                       std::span<const Covariate> covariates) {
  MatrixXd design = MatrixXd::Zero(x.size(), arms + degree + static_cast<Eigen::Index>(covariates.size()));
  design.col(0).setOnes();
  for (Eigen::Index r = 0; r < x.size(); ++r) {
    const int arm = runs[static_cast<std::size_t>(r)].arm;
    if (arm > 0) design(r, arm) = 1;
  }
  for (int k = 1; k <= degree; ++k) design.col(arms + k - 1) = x.array().pow(k).matrix();
  for (std::size_t c = 0; c < covariates.size(); ++c) {
    const VectorXd values = Eigen::Map<const VectorXd>(covariates[c].values.data(), x.size());
    design.col(arms + degree + static_cast<Eigen::Index>(c)) = (values.array() - values.mean()).matrix();
  }
  return design;
}

struct LeastSquares {
  VectorXd coefficients;
  MatrixXd inverse_gram;  // (X'X)^-1
  VectorXd residual;
  VectorXd leverage;
  double residual_sd = 0;
};

LeastSquares solve(const MatrixXd& design, const VectorXd& y) {
  const Eigen::ColPivHouseholderQR<MatrixXd> qr(design);
  const Eigen::Index columns = design.cols();
  if (qr.rank() < columns) {
    throw Error(ErrorKind::kInvalid, "arms and drift cannot be told apart: the runs do not mix the arms over time",
                "run-level regression", "run the arms in a balanced order");
  }
  LeastSquares fit;
  fit.coefficients = qr.solve(y);
  const MatrixXd r_inverse = qr.matrixR()
                                 .topLeftCorner(columns, columns)
                                 .triangularView<Eigen::Upper>()
                                 .solve(MatrixXd::Identity(columns, columns));
  const MatrixXd permuted = qr.colsPermutation() * r_inverse;
  fit.inverse_gram = permuted * permuted.transpose();
  fit.residual = y - design * fit.coefficients;
  fit.leverage = (design * fit.inverse_gram).cwiseProduct(design).rowwise().sum();
  const Eigen::Index df = design.rows() - columns;
  if (df > 0) fit.residual_sd = std::sqrt(fit.residual.squaredNorm() / static_cast<double>(df));
  if (fit.residual_sd < kNoSpread) fit.residual_sd = 0;
  return fit;
}

// The largest degree up to `degree` whose columns are not a mixture of the arms'. An order that no drift term can be
// told from is left to solve(), which refuses it.
int separable_degree(std::span<const Run> runs, int arms, const VectorXd& x, int degree,
                     std::span<const Covariate> covariates) {
  for (int lower = degree; lower > 0; --lower) {
    const MatrixXd design = design_matrix(runs, arms, x, lower, covariates);
    if (Eigen::ColPivHouseholderQR<MatrixXd>(design).rank() == design.cols()) return lower;
  }
  return degree;
}

double correlation(const std::vector<double>& a, const std::vector<double>& b) {
  const Moments of_a = moments(a);
  const Moments of_b = moments(b);
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - of_a.mean) * (b[i] - of_b.mean);
  const double scale = of_a.standard_deviation * of_b.standard_deviation * (static_cast<double>(a.size()) - 1);
  return scale > 0 ? sum / scale : 0;
}

// Of [run is the arm's] with a number of each run, over the runs of the arm and of the baseline.
template <typename ValueOfRun>
double treatment_correlation(std::span<const Run> runs, int arm, const ValueOfRun& value_of) {
  std::vector<double> treated;
  std::vector<double> value;
  for (std::size_t r = 0; r < runs.size(); ++r) {
    if (runs[r].arm != 0 && runs[r].arm != arm) continue;
    treated.push_back(runs[r].arm == arm ? 1.0 : 0.0);
    value.push_back(value_of(r));
  }
  return correlation(treated, value);
}

std::vector<double> drift_correlations(std::span<const Run> runs, const VectorXd& x, int arm, int degree) {
  std::vector<double> correlations;
  for (int k = 1; k <= degree; ++k) {
    correlations.push_back(
        treatment_correlation(runs, arm, [&](std::size_t r) { return std::pow(x[static_cast<Eigen::Index>(r)], k); }));
  }
  return correlations;
}

void fill_drift(DriftFit& drift, const LeastSquares& fit, const ScaledPositions& x, int arms, double level) {
  const Eigen::Index runs = x.value.size();
  VectorXd fitted = VectorXd::Zero(runs);
  for (int k = 1; k <= drift.degree; ++k) {
    fitted += fit.coefficients[arms + k - 1] * x.value.array().pow(k).matrix();
  }
  fitted.array() -= fitted.mean();
  drift.drift.assign(fitted.data(), fitted.data() + runs);
  drift.residual.assign(fit.residual.data(), fit.residual.data() + runs);
  drift.residual_sd = fit.residual_sd;
  if (drift.degree == 0) return;
  // Last minus first as a contrast of the coefficients, so that its standard error follows from (X'X)^-1.
  const double last = x.value.maxCoeff();
  const double first = x.value.minCoeff();
  const double slots_between =
      drift.variable == DriftVariable::kSlot ? (last - first) * x.half_range : static_cast<double>(runs - 1);
  VectorXd contrast = VectorXd::Zero(fit.coefficients.size());
  for (int k = 1; k <= drift.degree; ++k) {
    contrast[arms + k - 1] = (std::pow(last, k) - std::pow(first, k)) / slots_between;
  }
  drift.per_slot = contrast.dot(fit.coefficients);
  if (drift.residual_degrees_of_freedom < 1) return;
  const double standard_error = fit.residual_sd * std::sqrt(contrast.dot(fit.inverse_gram * contrast));
  drift.per_slot_interval = t_interval(drift.per_slot, standard_error, drift.residual_degrees_of_freedom, level);
}

void check_covariates(std::span<const Covariate> covariates, std::size_t runs) {
  for (const Covariate& covariate : covariates) {
    if (covariate.values.size() != runs) throw internal_error("regress_runs: a covariate needs one value a run");
    for (const double value : covariate.values) {
      if (!std::isfinite(value)) throw input_error("covariate " + covariate.name, "is not known for every run");
    }
  }
}

std::vector<CovariateFit> covariate_fits(std::span<const Run> runs, std::span<const Covariate> covariates,
                                         const LeastSquares& fit, const DriftFit& drift, int arms, double level) {
  std::vector<CovariateFit> fits;
  for (std::size_t c = 0; c < covariates.size(); ++c) {
    const Eigen::Index column = arms + drift.degree + static_cast<Eigen::Index>(c);
    CovariateFit of_covariate{.name = covariates[c].name, .slope = fit.coefficients[column]};
    if (drift.residual_degrees_of_freedom >= 1) {
      of_covariate.slope_interval =
          t_interval(of_covariate.slope, fit.residual_sd * std::sqrt(fit.inverse_gram(column, column)),
                     drift.residual_degrees_of_freedom, level);
    }
    for (int arm = 1; arm < arms; ++arm) {
      of_covariate.treatment_correlation.push_back(
          treatment_correlation(runs, arm, [&](std::size_t r) { return covariates[c].values[r]; }));
    }
    fits.push_back(std::move(of_covariate));
  }
  return fits;
}

// Externally studentised residuals against t(df - 1), Bonferroni over the runs; the worst one is named.
void warn_of_outlier(std::span<const Run> runs, const LeastSquares& fit, int df, std::vector<Warning>& warnings) {
  if (df < 2 || fit.residual_sd == 0) return;
  double worst_p = 1;
  std::size_t worst = 0;
  for (std::size_t r = 0; r < runs.size(); ++r) {
    const auto row = static_cast<Eigen::Index>(r);
    const double freedom = 1 - fit.leverage[row];
    if (freedom < 1e-9) continue;  // a run that its own column fits exactly has no residual to judge
    const double internal = fit.residual[row] / (fit.residual_sd * std::sqrt(freedom));
    const double rest = static_cast<double>(df) - internal * internal;
    const double p = rest > 0 ? student_t_two_sided(internal * std::sqrt((df - 1) / rest), df - 1) : 0.0;
    if (p >= worst_p) continue;
    worst_p = p;
    worst = r;
  }
  const double adjusted = worst_p * static_cast<double>(runs.size());
  if (adjusted >= kOutlierLevel) return;
  const Run& run = runs[worst];
  warnings.push_back(
      {.code = WarningCode::kOutlierRun,
       .text = fmt::format("the run of arm {} in block {} slot {} lies {:+.3f} % from the fit; it is kept", run.arm,
                           run.block, run.slot, percent(fit.residual[static_cast<Eigen::Index>(worst)])),
       .numbers = {{"run", static_cast<double>(worst)},
                   {"percent", percent(fit.residual[static_cast<Eigen::Index>(worst)])},
                   {"p_value", adjusted}}});
}

void warn_of_drift(const DriftFit& drift, std::vector<Warning>& warnings) {
  if (drift.residual_sd == 0 || drift.residual_degrees_of_freedom < kMinimumDegreesOfFreedom) return;
  const auto [low, high] = std::minmax_element(drift.drift.begin(), drift.drift.end());
  const double range = *high - *low;
  if (range <= kDriftCheckedResiduals * drift.residual_sd) return;
  warnings.push_back(
      {.code = WarningCode::kDriftLarge,
       .text = fmt::format("the fitted drift spans {:.3f} %, {:.0f} residual deviations, beyond the {:.0f} for which "
                           "coverage was checked",
                           percent(range), range / drift.residual_sd, kDriftCheckedResiduals),
       .numbers = {{"drift_range", range}, {"residual_sd", drift.residual_sd}}});
}

void warn_of_order(std::span<const Run> runs, const std::vector<double>& positions, int arms,
                   std::vector<Warning>& warnings) {
  std::vector<std::size_t> order(runs.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return positions[a] < positions[b]; });
  std::vector<int> sequence;
  sequence.reserve(order.size());
  for (const std::size_t r : order) sequence.push_back(runs[r].arm);
  const int degree = balanced_degree(sequence, arms, 3);
  if (degree >= 1) return;
  warnings.push_back({.code = WarningCode::kSlotOrderUnbalanced,
                      .text = degree < 0 ? "the arms do not have the same number of runs"
                                         : "the order of the runs does not cancel linear drift by itself",
                      .numbers = {{"balanced_degree", degree}}});
}

Estimate arm_estimate(int arm, const LeastSquares& fit, const DriftFit& drift, int wanted_degree, double level) {
  const int df = drift.residual_degrees_of_freedom;
  Estimate estimate;
  estimate.estimand = Estimand::kThesePromptsAnyLaunch;
  estimate.method = Method::kRunRegression;
  estimate.log_effect = fit.coefficients[arm];
  estimate.standard_error = fit.residual_sd * std::sqrt(fit.inverse_gram(arm, arm));
  estimate.degrees_of_freedom = df;
  estimate.conclusive = df >= kMinimumDegreesOfFreedom;
  estimate.method_text = fmt::format(
      "least squares over {} runs: arms and drift of degree {} in {}; t with {} degrees of freedom",
      fit.residual.size(), drift.degree, drift.variable == DriftVariable::kSlot ? "slot number" : "mid-time", df);
  if (df >= 1) {
    estimate.interval = t_interval(estimate.log_effect, estimate.standard_error, df, level);
    estimate.p_value = two_sided_p(estimate.log_effect, estimate.standard_error, df);
    if (fit.residual_sd == 0) {
      estimate.warnings.push_back({.code = WarningCode::kDegenerate,
                                   .text = "all runs of an arm are the same: a point instead of an interval",
                                   .numbers = {}});
    }
  }
  if (!estimate.conclusive) {
    estimate.warnings.push_back(
        {.code = WarningCode::kFewDegreesOfFreedom,
         .text = fmt::format("{} degrees of freedom, {} are needed for a verdict", df, kMinimumDegreesOfFreedom),
         .numbers = {
             {"degrees_of_freedom", df}, {"drift_degree_wanted", wanted_degree}, {"drift_degree", drift.degree}}});
  }
  const double inflation = drift.width_inflation[static_cast<std::size_t>(arm - 1)];
  if (inflation > kWideningWarned) {
    estimate.warnings.push_back(
        {.code = WarningCode::kDriftConfounded,
         .text = fmt::format(
             "the drift terms widen the interval {:.2f} times: the order does not separate arm and drift", inflation),
         .numbers = {{"width_inflation", inflation}}});
  }
  return estimate;
}

// A drift of the power that was left out would weigh on the arms, unseen: no verdict rests on that.
void mark_inseparable(Estimate& estimate, int wanted_degree, int degree) {
  estimate.conclusive = false;
  estimate.warnings.push_back(
      {.code = WarningCode::kDriftConfounded,
       .text =
           fmt::format("the order does not tell the arms from a drift of degree {}: only degree {} is fitted, and a "
                       "further block is needed for a verdict",
                       wanted_degree, degree),
       .numbers = {{"drift_degree_wanted", wanted_degree}, {"drift_degree", degree}}});
}

}  // namespace

int drift_degree_rule(int blocks) {
  return blocks <= 1 ? 2 : 3;
}

RegressionResult regress_runs(std::span<const Run> runs, std::span<const double> log_rates, int arms, int degree,
                              DriftVariable variable, double level, std::span<const Covariate> covariates) {
  if (runs.size() != log_rates.size()) throw internal_error("regress_runs: runs and log rates differ in number");
  if (arms < 2) throw input_error("run-level regression", "needs at least two arms");
  if (degree < 0) throw input_error("drift degree", "must not be negative");
  const int wanted_degree = degree;
  const int run_count = static_cast<int>(runs.size());
  check_covariates(covariates, runs.size());
  const int covariate_count = static_cast<int>(covariates.size());
  while (degree > 0 && run_count - arms - degree - covariate_count < 1) --degree;
  const std::vector<double> positions = run_positions(runs, variable);
  const ScaledPositions x = scale_positions(positions);
  const int enough_degree = degree;
  degree = separable_degree(runs, arms, x.value, degree, covariates);
  const bool inseparable = degree < enough_degree;

  RegressionResult result;
  DriftFit& drift = result.drift;
  drift.degree = degree;
  drift.variable = variable;
  drift.position = positions;
  drift.residual_degrees_of_freedom = run_count - arms - degree - covariate_count;
  const VectorXd y = Eigen::Map<const VectorXd>(log_rates.data(), run_count);
  const LeastSquares fit = solve(design_matrix(runs, arms, x.value, degree, covariates), y);

  for (int arm = 1; arm < arms; ++arm) {
    drift.treatment_correlation.push_back(drift_correlations(runs, x.value, arm, degree));
    const auto count = [&](int which) {
      return static_cast<double>(std::count_if(runs.begin(), runs.end(), [&](const Run& r) { return r.arm == which; }));
    };
    drift.width_inflation.push_back(std::sqrt(fit.inverse_gram(arm, arm) / (1 / count(arm) + 1 / count(0))));
  }
  fill_drift(drift, fit, x, arms, level);
  for (int arm = 1; arm < arms; ++arm) {
    result.estimates.push_back(arm_estimate(arm, fit, drift, wanted_degree, level));
    if (inseparable) mark_inseparable(result.estimates.back(), enough_degree, degree);
    for (const Covariate& covariate : covariates) {
      result.estimates.back().method_text += fmt::format("; at equal {}", covariate.name);
    }
  }
  const double residual_variance = fit.residual_sd * fit.residual_sd;
  for (int a = 1; a < arms; ++a)
    for (int b = 1; b < arms; ++b) result.arm_covariance.push_back(residual_variance * fit.inverse_gram(a, b));
  result.covariates = covariate_fits(runs, covariates, fit, drift, arms, level);
  warn_of_outlier(runs, fit, drift.residual_degrees_of_freedom, result.warnings);
  warn_of_drift(drift, result.warnings);
  warn_of_order(runs, drift.position, arms, result.warnings);
  return result;
}

}  // namespace tare::stats
