#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/json_reader.h"
#include "harness/analysis/analysis.h"
#include "harness/cli/commands.h"
#include "harness/cli/interruption.h"
#include "harness/cli/progress_printer.h"
#include "harness/driver/real_calibration.h"
#include "harness/experiment/experiment.h"
#include "stats/calibration.h"

namespace tare::harness {
namespace {

constexpr const char* kTableFile = "calibration.md";
constexpr const char* kJsonFile = "calibration.json";
constexpr double kPercent = 100;

struct Arguments {
  std::string experiment;
  std::string out;
  int experiments = 10'000;
  std::uint64_t seed = 1;
  int threads = 1;
  std::string only;  // scenarios whose name holds this
  CalibrationLadder ladder;
  bool json = false;
};

Json to_json(const stats::CalibrationRow& row) {
  return {{"name", row.name},
          {"group", row.group},
          {"outside", row.outside},
          {"experiments", row.experiments},
          {"true_percent", row.true_percent},
          {"verdict_holds", row.verdict_holds},
          {"verdict_holds_sd", row.holds_sd()},
          {"two_way_holds", row.two_way_holds},
          {"prompts_hold", row.prompts_hold},
          {"naive_holds", row.naive_holds},
          {"difference_shown", row.difference_shown},
          {"false_claims", row.false_claims},
          {"half_width_percent", row.half_width_percent},
          {"recovered", row.recovered},
          {"in_band", row.holds()}};
}

std::string table_of(const std::vector<stats::CalibrationRow>& rows) {
  std::string text =
      "| scenario | verdict holds the suite | two-way holds the population | per-prompt holds the suite | naive holds "
      "the suite | difference shown | false claims | half width | recovered |\n"
      "|---|---:|---:|---:|---:|---:|---:|---:|---:|\n";
  std::string group;
  for (const stats::CalibrationRow& row : rows) {
    if (row.group != group) text += fmt::format("| **{}** | | | | | | | | |\n", row.group);
    group = row.group;
    const std::string mark = !row.claimed() ? " (outside)" : row.holds() ? "" : " (**misses the band**)";
    text += fmt::format("| {}{} | {:.1f} % | {:.1f} % | {:.1f} % | {:.1f} % | {:.1f} % | {:.1f} % | {:.3f} % | {} |\n",
                        row.name, mark, kPercent * row.verdict_holds, kPercent * row.two_way_holds,
                        kPercent * row.prompts_hold, kPercent * row.naive_holds, kPercent * row.difference_shown,
                        kPercent * row.false_claims, row.half_width_percent,
                        row.recovered == 0 ? std::string("–") : fmt::format("{:.4f}", row.recovered));
  }
  return text;
}

void write(const Arguments& arguments, const Json& json, const std::string& table) {
  if (arguments.out.empty()) return;
  std::filesystem::create_directories(arguments.out);
  write_file_atomically(std::filesystem::path(arguments.out) / kTableFile, table);
  write_file_atomically(std::filesystem::path(arguments.out) / kJsonFile, json.dump(1) + "\n");
}

// A claimed scenario outside its band: the calibration failed, like a gate.
int calibrate_simulated(const Arguments& arguments) {
  std::vector<stats::CalibrationRow> rows;
  Json list = Json::array();
  bool good = true;
  for (const stats::CalibrationScenario& scenario : stats::calibration_scenarios()) {
    if (scenario.name.find(arguments.only) == std::string::npos) continue;
    rows.push_back(stats::calibrate(
        scenario, {.experiments = arguments.experiments, .seed = arguments.seed, .threads = arguments.threads}));
    good = good && rows.back().holds();
    list.push_back(to_json(rows.back()));
    fmt::print(stderr, "{}: {:.2f} %\n", rows.back().name, kPercent * rows.back().verdict_holds);
  }
  if (rows.empty()) throw input_error("--scenario", "no scenario's name holds '" + arguments.only + "'");
  const Json json = {{"harness_version", harness_version()},
                     {"seed", arguments.seed},
                     {"band", {stats::kLeastCoverage, stats::kMostCoverage}},
                     {"scenarios", std::move(list)}};
  const std::string table = table_of(rows);
  write(arguments, json, table);
  fmt::print("{}\n", arguments.json ? json.dump(2) : table);
  return good ? 0 : 1;
}

std::string table_of(const RealCalibration& calibration) {
  std::string text =
      "| injected | experiments | interval holds the truth | difference shown | recovered "
      "|\n|---:|---:|---|---|---:|\n";
  for (const CalibrationRung& rung : calibration.rungs)
    text += fmt::format("| {} % | {} | {} of {} [{:.0f}, {:.0f}] % | {} of {} [{:.0f}, {:.0f}] % | {} |\n",
                        rung.injected_percent, rung.experiments.size(), rung.held, rung.counted,
                        kPercent * rung.held_share.low, kPercent * rung.held_share.high, rung.shown, rung.counted,
                        kPercent * rung.shown_share.low, kPercent * rung.shown_share.high,
                        rung.recovered == 0 ? std::string("–") : fmt::format("{:.3f}", rung.recovered));
  text += "\n| experiment | truth | estimate | 95 % | verdict |\n|---|---:|---:|---|---|\n";
  for (const CalibrationRung& rung : calibration.rungs)
    for (const CalibratedExperiment& experiment : rung.experiments) {
      if (!experiment.why_not.empty()) {
        text += fmt::format("| {} | | | | not counted: {} |\n", experiment.directory, experiment.why_not);
        continue;
      }
      text += fmt::format("| {} | {:+.3f} % | {:+.3f} % | [{:+.3f}, {:+.3f}]{} | {}{} |\n", experiment.directory,
                          experiment.truth_percent, experiment.estimate_percent, experiment.low_percent,
                          experiment.high_percent, experiment.holds ? "" : " **misses**", experiment.verdict,
                          experiment.shown ? ", difference shown" : "");
    }
  return text;
}

int calibrate_really(const Arguments& arguments) {
  if (arguments.out.empty())
    throw input_error("--out", "is missing", "where the experiments go, for example --out runs/calibration");
  const Experiment from = read_experiment(arguments.experiment);
  ProgressPrinter printer;
  RunSettings settings;
  settings.directory = arguments.out;
  settings.own_program = own_program();
  settings.progress = [&](const Progress& progress) { printer.show(progress); };
  settings.interrupted = interruption();
  const RealCalibration calibration = calibrate_here(
      from, arguments.ladder, settings, [&](const CalibrationRung&, const CalibratedExperiment& experiment) {
        printer.finish();
        fmt::print(stderr, "{}: {:+.3f} % [{:+.3f}, {:+.3f}], truth {:+.3f} %\n", experiment.directory,
                   experiment.estimate_percent, experiment.low_percent, experiment.high_percent,
                   experiment.truth_percent);
      });
  Json json = to_json(calibration);
  json["harness_version"] = harness_version();
  const std::string table = table_of(calibration);
  write(arguments, json, table);
  fmt::print("{}\n", arguments.json ? json.dump(2) : table);
  return 0;
}

}  // namespace

void add_calibrate_command(CommandLine& line) {
  const auto arguments = std::make_shared<Arguments>();
  const Command command = line.add_command(
      "calibrate", "do intervals hold what they say? on simulated clocks, or with an experiment on this machine");
  command.add_option("experiment", arguments->experiment,
                     "run its first arm against itself with known handicaps; without it clocks are simulated");
  command.add_option("--out", arguments->out, "folder for calibration.md and calibration.json, and for experiments");
  command.add_option("--experiments", arguments->experiments, "simulated: of each scenario").whole_range(1, 10'000'000);
  command.add_option("--seed", arguments->seed, "simulated");
  command.add_option("--threads", arguments->threads, "simulated; the table does not depend on it")
      .whole_range(1, 1024);
  command.add_option("--scenario", arguments->only, "simulated: only those whose name holds this");
  command.add_option("--ladder", arguments->ladder.injected_percent, "real: percent of a round to spin; 0 is A/A")
      .comma_separated();
  command.add_option("--repeat", arguments->ladder.repeat, "real: experiments of each rung").whole_range(1, 10'000);
  command.add_flag("--json", arguments->json, "print JSON");
  command.set_footer("Example: tare calibrate --experiments 1000 --threads 2");
  command.set_action([arguments] {
    return arguments->experiment.empty() ? calibrate_simulated(*arguments) : calibrate_really(*arguments);
  });
}

}  // namespace tare::harness
