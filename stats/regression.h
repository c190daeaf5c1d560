// Run-level regression: ln rate of each run on arm columns and a drift polynomial, ordinary least squares, t intervals.
//
// y_r = intercept + sum over arms a >= 1 of effect_a [arm_r = a] + sum over k = 1..degree of c_k x_r^k
//       + sum over covariates of g (z_r - mean z) + e_r,
// where x is the slot number (or the run's mid-time), centred; z a covariate, such as ln of the clock during the run.
// Launches are the independent units, so the t interval is about any launch of this suite of prompts. In a balanced
// order the polynomial leaves the estimate and removes drift from the residual.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "stats/effect.h"
#include "stats/observations.h"

namespace tare::stats {

enum class DriftVariable { kSlot, kMidTime };

// Below this many residual degrees of freedom a t interval is no basis for a verdict (t(3) is a third wider than t(6)).
inline constexpr int kMinimumDegreesOfFreedom = 4;

// 2 for one block, 3 from two blocks on: fixed beforehand, never chosen by the data.
[[nodiscard]] int drift_degree_rule(int blocks);

struct DriftFit {
  int degree = 0;
  DriftVariable variable = DriftVariable::kSlot;
  // Mean drift of ln rate per slot: fitted drift at the last slot minus the first, over the number of slots between.
  double per_slot = 0;
  std::optional<Interval> per_slot_interval = {};
  double residual_sd = 0;  // of ln rate, after arms and drift
  int residual_degrees_of_freedom = 0;
  // Correlation of arm a's column (against the baseline's runs) with x^k, [arm - 1][k - 1].
  std::vector<std::vector<double>> treatment_correlation = {};
  // Standard error with drift columns over the one without, for the same residual sd, [arm - 1]; 1 in an orthogonal
  // design.
  std::vector<double> width_inflation = {};
  std::vector<double> position = {};  // per run: the global slot number or the mid-time
  std::vector<double> drift = {};     // per run: fitted drift, mean zero over the runs
  std::vector<double> residual = {};  // per run
};

// A reading of each run that explains part of its rate: ln of its mean clock. It takes noise out of the residual, and
// changes the question where the arm itself moves it (a hungrier kernel under a power cap lowers the clock): the effect
// is then "at equal clock", so it stands beside the verdict's and never in its place.
struct Covariate {
  std::string name = {};            // "ln clock"
  std::vector<double> values = {};  // per run, finite
};

struct CovariateFit {
  std::string name = {};
  double slope = 0;  // of ln rate; for ln clock 1 where the clock decides, 0 where it does not
  std::optional<Interval> slope_interval = {};
  std::vector<double> treatment_correlation = {};  // with arm a's column, [arm - 1]: far from 0 the arm moves it
};

struct RegressionResult {
  std::vector<Estimate> estimates = {};     // per arm 1..arms-1
  std::vector<double> arm_covariance = {};  // of the estimates, (arms-1) x (arms-1): what a contrast's error is made of
  DriftFit drift = {};
  std::vector<CovariateFit> covariates = {};
  std::vector<Warning> warnings = {};  // about the fit as a whole: drift, outliers, order
};

// `log_rates` per run, as run_log_rates gives them. With too few runs for the degree it is lowered until one degree of
// freedom remains, and with an order in which the arms cannot be told from a power of the position (one palindrome: its
// halves have equal squares) until they can; the estimate is then inconclusive and says so. Throws Error (invalid) when
// the columns are not independent: an arm without runs, runs of one arm only at one time, a covariate that never
// changes.
[[nodiscard]] RegressionResult regress_runs(std::span<const Run> runs, std::span<const double> log_rates, int arms,
                                            int degree, DriftVariable variable = DriftVariable::kSlot,
                                            double level = 0.95, std::span<const Covariate> covariates = {});

}  // namespace tare::stats
