#include "stats/calibration.h"

#include <cmath>

#include "base/digest.h"
#include "base/error.h"
#include "base/philox.h"
#include "base/thread_pool.h"
#include "stats/bootstrap.h"
#include "stats/distributions.h"
#include "stats/two_way.h"

namespace tare::stats {
namespace {

constexpr std::size_t kGrain = 16;

struct Trial {
  bool verdict_holds = false;
  bool two_way_holds = false;
  bool prompts_hold = false;
  bool naive_holds = false;
  bool shown = false;
  bool false_claim = false;
  double half_width = 0;
  double estimate = 0;
  double truth = 0;
};

// What a benchmark that knows no launches does: every prompt of every run is a sample, Welch's t on their log rates.
Interval naive_interval(const Observations& observations, int arm) {
  std::vector<double> baseline;
  std::vector<double> treated;
  for (std::size_t i = 0; i < observations.prompts; ++i) {
    // Prompts differ in difficulty, which any benchmark takes out: relative to the prompt's mean over all runs.
    double mean = 0;
    for (std::size_t r = 0; r < observations.runs.size(); ++r)
      mean += std::log(observations.denominator[observations.at(i, r)]) / static_cast<double>(observations.runs.size());
    for (std::size_t r = 0; r < observations.runs.size(); ++r) {
      const double value = mean - std::log(observations.denominator[observations.at(i, r)]);
      if (observations.runs[r].arm == 0) baseline.push_back(value);
      if (observations.runs[r].arm == arm) treated.push_back(value);
    }
  }
  const Moments a = moments(baseline);
  const Moments b = moments(treated);
  const double va = a.standard_deviation * a.standard_deviation / static_cast<double>(baseline.size());
  const double vb = b.standard_deviation * b.standard_deviation / static_cast<double>(treated.size());
  const double df = static_cast<double>(baseline.size() + treated.size()) - 2;
  return t_interval(b.mean - a.mean, std::sqrt(va + vb), df, 0.95);
}

Trial run_trial(const CalibrationScenario& scenario, const CalibrationOptions& options, std::size_t number) {
  const int arms = static_cast<int>(scenario.clock.log_effects.size());
  const std::uint64_t seed = Philox(options.seed, hash64(scenario.name)).bits_at(number);
  const bool by_run = scenario.granularity == Granularity::kRun;
  const Schedule schedule =
      by_run ? make_schedule(arms, scenario.blocks, seed) : make_resident_schedule(arms, scenario.blocks, seed);
  const SimulatedExperiment experiment =
      simulate(scenario.clock, schedule, scenario.granularity, scenario.prompts, seed);
  const Observations& observations = experiment.observations;
  std::vector<Estimate> family;
  if (by_run) {
    family = regress_runs(observations.runs, run_log_rates(observations), arms, drift_degree_rule(scenario.blocks))
                 .estimates;
  } else {
    for (int arm = 1; arm < arms; ++arm) family.push_back(block_effects(observations, arm).estimate);
  }
  Trial trial;
  const std::vector<VerdictResult> verdicts = decide(family, DecisionRule{});
  for (std::size_t i = 0; i < verdicts.size(); ++i) {
    if (!verdicts[i].difference_shown) continue;
    trial.shown = true;
    if (family[i].log_effect * experiment.suite_truth[i + 1] <= 0) trial.false_claim = true;
  }
  const Estimate& runs = family.front();
  const double suite = experiment.suite_truth[1];
  trial.verdict_holds = runs.interval->holds(suite);
  trial.half_width = runs.interval->half_width();
  trial.estimate = runs.log_effect;
  trial.truth = suite;
  trial.two_way_holds =
      two_way_estimate(observations, 1, runs, !by_run).interval->holds(experiment.population_truth[1]);
  trial.prompts_hold = bootstrap_ratio(prompt_totals(observations, 0), prompt_totals(observations, 1),
                                       {.resamples = options.resamples, .seed = seed})
                           .estimate.interval->holds(suite);
  trial.naive_holds = naive_interval(observations, 1).holds(suite);
  return trial;
}

}  // namespace

double CalibrationRow::holds_sd() const {
  return std::sqrt(verdict_holds * (1 - verdict_holds) / experiments);
}

CalibrationRow calibrate(const CalibrationScenario& scenario, const CalibrationOptions& options) {
  if (options.experiments < 1) throw input_error("calibration.experiments", "must be at least 1");
  check_bootstrap_options({.resamples = options.resamples, .threads = options.threads});
  std::vector<Trial> trials(static_cast<std::size_t>(options.experiments));
  ThreadPool pool(options.threads);
  pool.parallel_for(trials.size(), kGrain, [&](int, std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) trials[i] = run_trial(scenario, options, i);
  });
  CalibrationRow row;
  row.name = scenario.name;
  row.group = scenario.group;
  row.outside = scenario.outside;
  row.experiments = options.experiments;
  row.true_percent = percent(scenario.clock.log_effects[1]);
  const double count = options.experiments;
  double estimates = 0;
  double truths = 0;
  for (const Trial& trial : trials) {
    row.verdict_holds += trial.verdict_holds ? 1 : 0;
    row.two_way_holds += trial.two_way_holds ? 1 : 0;
    row.prompts_hold += trial.prompts_hold ? 1 : 0;
    row.naive_holds += trial.naive_holds ? 1 : 0;
    row.difference_shown += trial.shown ? 1 : 0;
    row.false_claims += trial.false_claim ? 1 : 0;
    row.half_width_percent += percent(trial.half_width);
    estimates += trial.estimate;
    truths += trial.truth;
  }
  for (double* sum : {&row.verdict_holds, &row.two_way_holds, &row.prompts_hold, &row.naive_holds,
                      &row.difference_shown, &row.false_claims, &row.half_width_percent})
    *sum /= count;
  row.recovered = scenario.clock.log_effects[1] != 0 ? estimates / truths : 0;
  return row;
}

}  // namespace tare::stats
