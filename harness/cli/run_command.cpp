#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "base/text.h"
#include "harness/cli/commands.h"
#include "harness/cli/finish_report.h"
#include "harness/cli/interruption.h"
#include "harness/cli/progress_printer.h"
#include "harness/driver/dry_run.h"
#include "harness/driver/run_experiment.h"
#include "harness/experiment/experiment.h"
#include "harness/ledger/ledger.h"

namespace tare::harness {
namespace {

struct Arguments {
  std::string experiment;
  std::string out;
  bool dry_run = false;
  bool json = false;
  bool blind = false;
};

void print_dry_run(const DryRun& plan, bool json) {
  if (json) {
    fmt::print("{}\n", to_json(plan).dump(2));
    return;
  }
  for (const std::string& order : plan.block_orders) fmt::print("block {}\n", order);
  for (std::size_t i = 0; i < plan.arms.size(); ++i)
    fmt::print("{} {}: {:.2f} s a run, {:.2f} s a launch\n", static_cast<char>('A' + i), plan.arms[i].name,
               plan.arms[i].run_seconds, plan.arms[i].launch_seconds);
  fmt::print("{} prompts, {} runs and {} warm-ups in {} launches\n", plan.prompts, plan.estimate.runs,
             plan.estimate.warmups, plan.estimate.launches);
  if (plan.twin_launches > 0) fmt::print("{} twin launches under a collector\n", plan.twin_launches);
  fmt::print("about {} and {} of ledger (from a launch of every arm and {} prompts tried just now)\n",
             human_seconds(plan.estimate.seconds), human_bytes(plan.estimate.ledger_bytes), plan.prompts_tried);
}

// Whoever began openly has seen the arms: nothing can be hidden any more.
void refuse_open_ledger(const std::filesystem::path& directory) {
  const std::filesystem::path file = directory / kLedgerFile;
  if (!std::filesystem::exists(file)) return;
  if (!Ledger::open_for_reading(file).identity().experiment.value("blind", false))
    throw input_error(file.string(), "was begun with open names, and cannot be blind now", "give another --out");
}

int run(const Arguments& arguments) {
  Experiment experiment = read_experiment(arguments.experiment);
  experiment.blind = experiment.blind || arguments.blind;
  if (arguments.dry_run) {
    DryRun plan = dry_run(experiment, own_program());
    if (experiment.blind) plan.arms.clear();  // how fast each of them is
    print_dry_run(plan, arguments.json);
    return 0;
  }
  if (arguments.out.empty())
    throw input_error("--out", "is missing", "where the ledger and the report go, for example --out runs/first");
  if (experiment.blind) refuse_open_ledger(arguments.out);
  ProgressPrinter printer;
  RunSettings settings;
  settings.directory = arguments.out;
  settings.own_program = own_program();
  settings.progress = [&](const Progress& progress) { printer.show(progress); };
  settings.interrupted = interruption();
  (void)run_experiment(experiment, settings);
  printer.finish();
  return finish_report(arguments.out, arguments.json);
}

}  // namespace

void add_run_command(CommandLine& line) {
  const auto arguments = std::make_shared<Arguments>();
  const Command command = line.add_command("run", "run an experiment, or go on with one, and write its report");
  command.add_option("experiment", arguments->experiment, "experiment file (JSON with comments)").required();
  command.add_option("--out", arguments->out, "run directory; the same directory goes on where it was");
  command.add_flag("--dry-run", arguments->dry_run, "say what would be run, how long it takes and what it stores");
  command.add_flag("--blind", arguments->blind, "hide in reports which arm is which, until tare report --unblind");
  command.add_flag("--json", arguments->json, "print verdict.json (or the plan) instead of text");
  command.set_footer("Example: tare run experiments/quickstart.json --out runs/quickstart");
  command.set_action([arguments] { return run(*arguments); });
}

}  // namespace tare::harness
