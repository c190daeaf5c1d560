#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <string>

#include "harness/analysis/blinding.h"
#include "harness/analysis/reconciliation.h"
#include "harness/cli/commands.h"
#include "harness/ledger/ledger.h"

namespace tare::harness {
namespace {

constexpr double kPercent = 100;

struct Arguments {
  std::string directory;
  bool json = false;
};

void print(const ReconciledArm& arm) {
  if (!arm.fault.empty()) {
    fmt::print("{}: not reconciled: {}\n\n", arm.arm, arm.fault);
    return;
  }
  fmt::print(
      "{}: round {:.2f} us as timed = {} {:.2f} + idle {:.2f} + host {:.2f} + stalls {:.2f} + residual {:.2f}\n  ({} "
      "prompts, {} "
      "walks; {:.2f} us under the collector, {:+.1f} %)\n",
      arm.arm, arm.timed_us, arm.source, arm.span_us - arm.idle_us, arm.idle_us, arm.host_us, arm.stalls_us,
      arm.residual_us, arm.prompts, arm.cells, arm.profiled_us,
      (arm.profiled_us / (arm.timed_us - arm.stalls_us) - 1) * kPercent);
  if (arm.dropped + arm.invalid > 0)
    fmt::print("  of {} records the collector dropped {}, and {} have no valid times\n", arm.records, arm.dropped,
               arm.invalid);
  if (arm.outputs_unsteady > 0)
    fmt::print("  its own launches would have emitted different tokens on {} prompts\n", arm.outputs_unsteady);
  if (!arm.unmatched.empty()) fmt::print("  kernels name no launch: {}\n", arm.unmatched);
  for (const ReconciledRow& row : arm.rows)
    fmt::print("{:10.2f} us {:5.1f} %  {}\n", row.arm_us, row.arm_us / arm.timed_us * kPercent, row.what);
  fmt::print("\n");
}

void print(const ReconciledRow& row, double total) {
  const std::string interval =
      row.interval ? fmt::format("[{:.2f}, {:.2f}]", row.interval->low, row.interval->high) : "-";
  fmt::print("{:10.2f} us {:>20} {:7.1f} %  {}\n", row.difference_us, interval,
             total == 0 ? 0.0 : row.difference_us / total * kPercent, row.what);
}

void print(const ReconciledDifference& difference, const std::string& baseline) {
  fmt::print("{} less {}: {:+.2f} us a round ({} prompts); 95 % intervals, paired over prompts; share of the whole\n",
             difference.arm, baseline, difference.timed.difference_us, difference.prompts);
  for (const std::string& what : difference.only_arm) fmt::print("  only {} launches: {}\n", difference.arm, what);
  for (const std::string& what : difference.only_baseline) fmt::print("  only {} launches: {}\n", baseline, what);
  if (difference.outputs_compared > 0)
    fmt::print("  {} and {}: both would have emitted the same tokens on {} of {} prompts\n",
               difference.only_arm.empty() && difference.only_baseline.empty() ? "the same launches" : "other launches",
               difference.outputs_equal == difference.outputs_compared ? "the same outputs" : "other outputs",
               difference.outputs_equal, difference.outputs_compared);
  const double total = difference.timed.difference_us;
  for (const ReconciledRow& row : difference.rows) print(row, total);
  print(difference.idle, total);
  print(difference.host, total);
  print(difference.stalls, total);
  print(difference.residual, total);
  print(difference.timed, total);
  fmt::print(
      "kernels or ops, idle, host and stalls explain {:.1f} %; the residual is {:+.2f} us, {:.2f} % of the round\n\n",
      difference.explained_share * kPercent, difference.residual.difference_us,
      difference.residual.difference_us / difference.timed.baseline_us * kPercent);
  if (difference.stalled)
    fmt::print(
        "STALLED: {:.0f} % of the difference are rounds that something held up, which came by chance to one arm more "
        "than "
        "to the other;\nwhat kernels or ops explain is the rest (a quieter machine, or more blocks)\n\n",
        difference.stalls.difference_us / total * kPercent);
  if (!difference.adds_up)
    fmt::print(
        "THE PARTS DO NOT ADD UP: the residual is more than {:.0f} % of the difference and more than {:.1f} % of a "
        "round;\nthe timed and the twin launches ran at different speeds (tare doctor says what may be the cause)\n\n",
        kMostResidualOfDifference * kPercent, kMostResidualOfRound * kPercent);
}

int run(const Arguments& arguments) {
  const Ledger ledger = Ledger::open_for_reading(std::filesystem::path(arguments.directory) / kLedgerFile);
  refuse_blind(ledger);
  const Reconciliation reconciliation = reconcile(ledger);
  if (arguments.json) {
    fmt::print("{}\n", to_json(reconciliation).dump(2));
    return 0;
  }
  for (const ReconciledArm& arm : reconciliation.arms) print(arm);
  for (const ReconciledDifference& difference : reconciliation.differences) print(difference, reconciliation.baseline);
  return 0;
}

}  // namespace

void add_reconcile_command(CommandLine& line) {
  const auto arguments = std::make_shared<Arguments>();
  const Command command = line.add_command("reconcile", "whether kernels or ops add up to what was timed, arm by arm");
  command.add_option("directory", arguments->directory, "run directory of an experiment with \"profile\"").required();
  command.add_flag("--json", arguments->json, "every row as JSON");
  command.set_footer("Example: tare reconcile runs/quickstart");
  command.set_action([arguments] { return run(*arguments); });
}

}  // namespace tare::harness
