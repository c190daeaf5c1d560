#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json_reader.h"
#include "base/text.h"
#include "harness/analysis/gathered.h"
#include "harness/analysis/measured_spread.h"
#include "harness/cli/commands.h"
#include "harness/ledger/ledger.h"
#include "stats/planning.h"

namespace tare::harness {
namespace {

constexpr double kPercent = 100;

struct Arguments {
  std::string directory;
  std::string granularity = "run";
  int arms = 2;
  double unit_sd_percent = 0;
  double block_seconds = 0;
  std::vector<double> effects_percent = {1, 0.5, 0.3, 0.1};
  std::vector<int> blocks = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32};
  double alpha = 0.05;
  double power = 0.8;
  bool json = false;
};

// What the plan is made from: a run that was measured, or numbers that were given.
struct Basis {
  stats::DesignQuestion question;
  double block_seconds = 0;  // 0: not known
  std::optional<MeasuredSpread> measured;
};

std::string time_text(double seconds) {
  return seconds > 0 ? human_seconds(seconds) : std::string("time not known");
}

Basis basis_of(const Arguments& arguments) {
  Basis basis;
  basis.question.alpha = arguments.alpha;
  basis.question.power = arguments.power;
  if (arguments.directory.empty()) {
    if (!(arguments.unit_sd_percent > 0))
      throw input_error("plan", "needs a run directory or --unit-sd", "tare plan runs/quickstart, or --unit-sd 0.15");
    basis.question.granularity =
        arguments.granularity == "run" ? stats::Granularity::kRun : stats::Granularity::kPrompt;
    basis.question.arms = arguments.arms;
    basis.question.unit_sd = stats::log_effect_of_percent(arguments.unit_sd_percent);
    basis.block_seconds = arguments.block_seconds;
    return basis;
  }
  if (arguments.unit_sd_percent > 0)
    throw input_error("--unit-sd", "is known from the run directory", "give one of them");
  const Ledger ledger = Ledger::open_for_reading(std::filesystem::path(arguments.directory) / kLedgerFile);
  basis.measured = measured_spread(gather(ledger));
  basis.question.granularity = basis.measured->split.granularity;
  basis.question.arms = basis.measured->arms;
  basis.question.unit_sd = basis.measured->split.unit_sd;
  basis.block_seconds = basis.measured->block_seconds;
  return basis;
}

Json to_json(const stats::DesignPower& design, double block_seconds) {
  return {{"blocks", design.blocks},
          {"runs", design.runs},
          {"degrees_of_freedom", design.degrees_of_freedom},
          {"standard_error_percent", stats::percent(design.standard_error)},
          {"detectable_percent", stats::percent(design.detectable)},
          {"seconds", block_seconds > 0 ? Json(block_seconds * design.blocks) : Json()}};
}

void print_measured(const MeasuredSpread& spread) {
  const stats::VarianceSplit& split = spread.split;
  const bool by_run = split.granularity == stats::Granularity::kRun;
  fmt::print("from {} blocks, {} prompts, arm {}; standard deviations, percent:\n", spread.blocks, split.prompts,
             spread.arm);
  fmt::print("  {:<34}{:8.4f}\n", by_run ? "launch" : "launches, a block's difference", kPercent * split.launch_sd);
  fmt::print("  {:<34}{:8.4f}\n", by_run ? "one prompt in one run" : "one prompt's difference in one block",
             kPercent * split.residual_sd);
  fmt::print("  {:<34}{:8.4f}\n", "prompts' reactions to the arm", kPercent * split.prompt_sd);
  if (by_run) fmt::print("  {:<34}{:8.4f}\n", "drift, removed by order and fit", kPercent * split.drift_sd);
  for (const stats::Warning& warning : split.warnings) fmt::print("  {}\n", warning.text);
}

int plan_experiment(const Arguments& arguments) {
  const Basis basis = basis_of(arguments);
  Json wanted = Json::array();
  Json table = Json::array();
  std::vector<std::string> lines;
  for (const double effect : arguments.effects_percent) {
    const auto design = stats::smallest_design(basis.question, stats::log_effect_of_percent(effect));
    Json entry = {{"effect_percent", effect}, {"design", Json()}};
    if (design) {
      entry["design"] = to_json(*design, basis.block_seconds);
      lines.push_back(fmt::format("{} % needs {} blocks, {} runs, {}", effect, design->blocks, design->runs,
                                  time_text(basis.block_seconds * design->blocks)));
    } else {
      lines.push_back(fmt::format("{} % needs more than {} blocks", effect, stats::kMostPlannedBlocks));
    }
    wanted.push_back(std::move(entry));
  }
  for (const int blocks : arguments.blocks) {
    const stats::DesignPower design = stats::power_of_design(basis.question, blocks);
    if (design.conclusive) table.push_back(to_json(design, basis.block_seconds));
  }
  if (arguments.json) {
    Json json = {{"granularity", basis.question.granularity == stats::Granularity::kRun ? "run" : "prompt"},
                 {"arms", basis.question.arms},
                 {"unit_sd_percent", kPercent * basis.question.unit_sd},
                 {"alpha", basis.question.alpha},
                 {"power", basis.question.power},
                 {"wanted", std::move(wanted)},
                 {"detectable", std::move(table)}};
    if (basis.measured) {
      const stats::VarianceSplit& split = basis.measured->split;
      json["spread"] = {{"arm", basis.measured->arm},
                        {"blocks", basis.measured->blocks},
                        {"prompts", split.prompts},
                        {"launch_sd_percent", kPercent * split.launch_sd},
                        {"residual_sd_percent", kPercent * split.residual_sd},
                        {"prompt_sd_percent", kPercent * split.prompt_sd},
                        {"drift_sd_percent", kPercent * split.drift_sd},
                        {"block_seconds", basis.block_seconds}};
    }
    fmt::print("{}\n", json.dump(2));
    return 0;
  }
  if (basis.measured) print_measured(*basis.measured);
  fmt::print("{:.0f} % power at alpha {}, {} arms:\n", kPercent * basis.question.power, basis.question.alpha,
             basis.question.arms);
  for (const std::string& line : lines) fmt::print("{}\n", line);
  fmt::print("\n{:>7}{:>7}{:>14}{:>16}\n", "blocks", "runs", "detectable", "time");
  for (const Json& row : table)
    fmt::print("{:>7}{:>7}{:>12.3f} %{:>16}\n", row["blocks"].get<int>(), row["runs"].get<int>(),
               row["detectable_percent"].get<double>(),
               row["seconds"].is_null() ? std::string() : human_seconds(row["seconds"].get<double>()));
  return 0;
}

}  // namespace

void add_plan_command(CommandLine& line) {
  const auto arguments = std::make_shared<Arguments>();
  const Command command =
      line.add_command("plan", "how many blocks an effect needs, and what a number of blocks can show");
  command.add_option("directory", arguments->directory, "a run of the same kind, to know the spread from");
  command.add_option("--effect", arguments->effects_percent, "effects to be shown, percent")
      .comma_separated()
      .range(1e-6, 1000.0);
  command.add_option("--blocks", arguments->blocks, "rows of the table").comma_separated().whole_range(1, 100'000);
  command.add_option("--unit-sd", arguments->unit_sd_percent,
                     "without a directory: standard deviation of one run (granularity run) or of one block's "
                     "difference, percent");
  command.add_option("--granularity", arguments->granularity, "without a directory: run or prompt")
      .one_of({"run", "prompt"});
  command.add_option("--arms", arguments->arms, "without a directory").whole_range(2, 5);
  command.add_option("--block-seconds", arguments->block_seconds, "without a directory: what a block takes");
  command.add_option("--alpha", arguments->alpha, "error rate over all arms").range(1e-6, 0.5);
  command.add_option("--power", arguments->power, "chance to show the effect").range(0.01, 0.9999);
  command.add_flag("--json", arguments->json, "print JSON");
  command.set_footer("Example: tare plan runs/quickstart --effect 0.3,0.1");
  command.set_action([arguments] { return plan_experiment(*arguments); });
}

}  // namespace tare::harness
