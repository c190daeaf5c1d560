#include "harness/driver/real_calibration.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "harness/analysis/analysis.h"
#include "harness/environment/environment.h"
#include "harness/ledger/ledger.h"
#include "stats/proportions.h"

namespace tare::harness {
namespace {

constexpr double kPercent = 100;

double load_now() {
  return sample_environment().load_1min.value_or(-1);
}

CalibratedExperiment judged(const std::filesystem::path& directory) {
  CalibratedExperiment result;
  result.directory = directory.filename().string();
  const reports::Findings findings = analyse(Ledger::open_for_reading(directory / kLedgerFile));
  const reports::Effect* effect = reports::find_effect(findings, 1, findings.effect_measure);
  const reports::Interval* interval = effect == nullptr ? nullptr : reports::verdict_interval(*effect);
  if (effect != nullptr) result.verdict = effect->verdict;
  if (!findings.validity.valid) {
    result.why_not = findings.validity.why_invalid;
    return result;
  }
  if (interval == nullptr || !reports::is_known(*interval)) {
    result.why_not = "no interval";
    return result;
  }
  const double truth = effect->truth ? effect->truth->effect_log : 0;
  result.estimate_percent = reports::percent_of_log(effect->estimate_log);
  result.low_percent = reports::percent_of_log(interval->low_log);
  result.high_percent = reports::percent_of_log(interval->high_log);
  result.truth_percent = reports::percent_of_log(truth);
  result.holds = interval->low_log <= truth && truth <= interval->high_log;
  result.shown = effect->difference_shown;
  return result;
}

stats::Interval share_of(int count, int of) {
  if (of == 0) return {.low = 0, .high = 1};
  return stats::exact_binomial_interval(static_cast<std::uint64_t>(count), static_cast<std::uint64_t>(of));
}

void count(CalibrationRung& rung) {
  double estimates = 0;
  double truths = 0;
  for (const CalibratedExperiment& experiment : rung.experiments) {
    if (!experiment.why_not.empty()) continue;
    ++rung.counted;
    rung.held += experiment.holds ? 1 : 0;
    rung.shown += experiment.shown ? 1 : 0;
    estimates += stats::log_effect_of_percent(experiment.estimate_percent);
    truths += stats::log_effect_of_percent(experiment.truth_percent);
  }
  rung.held_share = share_of(rung.held, rung.counted);
  rung.shown_share = share_of(rung.shown, rung.counted);
  if (truths != 0) rung.recovered = estimates / truths;
}

Json interval_json(const stats::Interval& interval) {
  return Json::array({interval.low, interval.high});
}

}  // namespace

Experiment calibration_experiment(const Experiment& from, double injected_percent, int number) {
  if (!(injected_percent >= 0 && injected_percent < kPercent))
    throw input_error("--ladder", "must lie from 0 to below 100", "percent of a round's time that is spun");
  const Arm& first = from.arms.front();
  if (!first.program.empty() || first.options.contains("handicap"))
    throw input_error("arm '" + first.name + "'", "cannot be calibrated: it has a program or a handicap of its own",
                      "the first arm must be this program's, without a handicap");
  Json json = to_json(from);
  json["name"] = fmt::format("{}-{}-{}", from.name, injected_percent, number);
  Json plain = json["arms"][0];
  // Of a matrix the baseline alone is calibrated.
  plain.erase("levels");
  json.erase("factors");
  json.erase("design");
  plain["name"] = "plain";
  Json handicap = plain;
  handicap["name"] = "handicap";
  if (injected_percent > 0)
    handicap["options"]["handicap"] = {{"place", "host"}, {"share", injected_percent / kPercent}};
  json["arms"] = Json::array({plain, handicap});
  // Another order of arms and other draws in every experiment, the same texts.
  json["schedule"]["seed"] = from.schedule.seed + static_cast<std::uint64_t>(number);
  return parse_experiment(json.dump(), from.file);
}

RealCalibration calibrate_here(
    const Experiment& from, const CalibrationLadder& ladder, const RunSettings& settings,
    const std::function<void(const CalibrationRung&, const CalibratedExperiment&)>& finished) {
  if (ladder.repeat < 1 || ladder.injected_percent.empty())
    throw input_error("calibration", "needs a rung and at least one experiment on it");
  RealCalibration calibration;
  calibration.experiment = from.name;
  calibration.load_before = load_now();
  for (const double injected : ladder.injected_percent)
    calibration.rungs.push_back({.injected_percent = injected, .experiments = {}, .held_share = {}, .shown_share = {}});
  // Rung after rung in turn, so that what the machine does weighs on all of them alike.
  for (int number = 1; number <= ladder.repeat; ++number) {
    for (CalibrationRung& rung : calibration.rungs) {
      const Experiment experiment = calibration_experiment(from, rung.injected_percent, number);
      RunSettings of_this = settings;
      of_this.directory = settings.directory / experiment.name;
      (void)run_experiment(experiment, of_this);
      rung.experiments.push_back(judged(of_this.directory));
      if (finished) finished(rung, rung.experiments.back());
    }
  }
  for (CalibrationRung& rung : calibration.rungs) count(rung);
  calibration.load_after = load_now();
  return calibration;
}

Json to_json(const RealCalibration& calibration) {
  Json rungs = Json::array();
  for (const CalibrationRung& rung : calibration.rungs) {
    Json experiments = Json::array();
    for (const CalibratedExperiment& experiment : rung.experiments)
      experiments.push_back({{"directory", experiment.directory},
                             {"estimate_percent", experiment.estimate_percent},
                             {"low_percent", experiment.low_percent},
                             {"high_percent", experiment.high_percent},
                             {"truth_percent", experiment.truth_percent},
                             {"holds", experiment.holds},
                             {"difference_shown", experiment.shown},
                             {"verdict", experiment.verdict},
                             {"why_not", experiment.why_not}});
    rungs.push_back({{"injected_percent", rung.injected_percent},
                     {"counted", rung.counted},
                     {"held", rung.held},
                     {"held_share_95", interval_json(rung.held_share)},
                     {"difference_shown", rung.shown},
                     {"difference_shown_share_95", interval_json(rung.shown_share)},
                     {"recovered", rung.recovered},
                     {"experiments", std::move(experiments)}});
  }
  return {{"experiment", calibration.experiment},
          {"load_1min_before", calibration.load_before},
          {"load_1min_after", calibration.load_after},
          {"rungs", std::move(rungs)}};
}

}  // namespace tare::harness
