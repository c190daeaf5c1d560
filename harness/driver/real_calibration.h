// Calibration on this machine: many small experiments with a known truth, run one after the other. The first arm of a
// template against itself (A/A), and against itself with a handicap that spins a known share of every round; the truth
// is what was really spun. What comes out are counts: how often the verdict's interval held the truth, how often a
// difference was claimed.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/json_reader.h"
#include "harness/driver/run_experiment.h"
#include "harness/experiment/experiment.h"
#include "stats/effect.h"

namespace tare::harness {

struct CalibrationLadder {
  std::vector<double> injected_percent = {0, 1};  // share of a round that is spun; 0: A/A
  int repeat = 6;                                 // experiments a rung
};

struct CalibratedExperiment {
  std::string directory;
  double estimate_percent = 0;
  double low_percent = 0;
  double high_percent = 0;
  double truth_percent = 0;
  bool holds = false;
  bool shown = false;
  std::string verdict;
  std::string why_not;  // invalid or without an interval: counted as neither
};

struct CalibrationRung {
  double injected_percent = 0;
  std::vector<CalibratedExperiment> experiments;
  int counted = 0;  // with an interval
  int held = 0;
  int shown = 0;               // false verdicts at 0, detections above
  stats::Interval held_share;  // exact binomial, 95 %; of `counted`, [0, 1] when that is 0
  stats::Interval shown_share;
  double recovered = 0;  // sum of estimates over sum of truths; 0 at 0
};

struct RealCalibration {
  std::string experiment;
  std::vector<CalibrationRung> rungs;
  double load_before = 0;  // average of the last minute; negative: not known
  double load_after = 0;
};

// The template with two arms, its first as it is and the same with the handicap. Throws Error (input) for a share
// outside [0, 100), or a first arm that has a program of its own or a handicap.
[[nodiscard]] Experiment calibration_experiment(const Experiment& from, double injected_percent, int number);

// Runs (or goes on with) every experiment in a folder of its own under settings.directory. `finished` is called after
// each.
[[nodiscard]] RealCalibration calibrate_here(
    const Experiment& from, const CalibrationLadder& ladder, const RunSettings& settings,
    const std::function<void(const CalibrationRung&, const CalibratedExperiment&)>& finished = {});

[[nodiscard]] Json to_json(const RealCalibration& calibration);

}  // namespace tare::harness
