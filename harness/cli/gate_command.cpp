#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <system_error>

#include "base/error.h"
#include "base/file.h"
#include "harness/analysis/analysis.h"
#include "harness/analysis/blinding.h"
#include "harness/cli/commands.h"
#include "harness/gate/gate.h"
#include "harness/gate/policy.h"
#include "harness/ledger/ledger.h"
#include "reports/escape.h"
#include "reports/gate.h"

namespace tare::harness {
namespace {

constexpr const char* kJunitFile = "gate.xml";
constexpr const char* kSummaryFile = "gate.md";

struct Arguments {
  std::string directory;
  std::string policy;
  std::string baseline;
  std::string baseline_arm;
  bool github = false;
  bool json = false;
};

// GitHub's summary of a step is a file that steps append to, of 1 MiB in all.
void append_step_summary(const reports::GateFindings& findings) {
  const std::optional<std::string> path = environment_variable("GITHUB_STEP_SUMMARY");
  if (!path || path->empty()) return;
  std::error_code failure;
  const auto there = std::filesystem::file_size(*path, failure);
  const std::size_t used = failure ? 0 : static_cast<std::size_t>(there);
  if (used >= reports::kMostSummaryBytes) return;
  std::ofstream file(*path, std::ios::app);
  file << reports::gate_summary(findings, reports::kMostSummaryBytes - used);
  if (!file.flush()) throw Error(ErrorKind::kEnvironment, "the step's summary cannot be written", *path);
}

void print_checks(const reports::GateFindings& findings) {
  for (const reports::GateCheck& check : reports::worst_first(findings))
    fmt::print("{}: {}: {}: {}\n", reports::word_of(check.outcome), reports::running_text(check.name),
               stats::verdict_name(check.verdict), reports::running_text(check.text));
  fmt::print("gate: {} against {}\n", reports::word_of(reports::outcome_of(findings)),
             reports::running_text(findings.against));
}

int gate(const Arguments& arguments) {
  const std::filesystem::path directory = arguments.directory;
  // An older verdict must not be taken for this one's, whatever happens from here on.
  std::error_code ignored;
  std::filesystem::remove(directory / kVerdictFile, ignored);
  const GatePolicy policy = read_policy(arguments.policy);
  const Ledger ledger = Ledger::open_for_reading(directory / kLedgerFile);
  refuse_blind(ledger);
  std::optional<Ledger> baseline;
  std::optional<StoredBaseline> stored;
  if (!arguments.baseline.empty()) {
    baseline = Ledger::open_for_reading(std::filesystem::path(arguments.baseline) / kLedgerFile);
    stored = StoredBaseline{&*baseline, arguments.baseline_arm, arguments.baseline};
  } else if (!arguments.baseline_arm.empty()) {
    throw input_error("--baseline-arm", "needs --baseline", "the run directory that the arm is in");
  }
  const std::string name = std::filesystem::path(arguments.policy).filename().string();
  const reports::GateFindings findings = judge_gate(ledger, policy, name, directory, stored);
  write_file_atomically(directory / kJunitFile, reports::junit_of(findings));
  write_file_atomically(directory / kSummaryFile, reports::gate_summary(findings));
  if (arguments.github) append_step_summary(findings);
  Json verdict = verdict_json(analyse(ledger));
  verdict["gate"] = to_json(findings);
  if (arguments.json) {
    fmt::print("{}\n", verdict.dump(2));
  } else {
    print_checks(findings);
    if (arguments.github)
      for (const std::string& line : reports::annotations_of(findings)) fmt::print("{}\n", line);
  }
  write_file_atomically(directory / kVerdictFile, verdict.dump(2) + "\n");  // last: it says that all else is there
  return reports::exit_code_of(findings);
}

}  // namespace

void add_gate_command(CommandLine& line) {
  const auto arguments = std::make_shared<Arguments>();
  const Command command =
      line.add_command("gate", "hold a run against a policy: exit code, JUnit, summary, annotations");
  command.add_option("directory", arguments->directory, "run directory (holds ledger.sqlite)").required();
  command.add_option("--policy", arguments->policy, "margins and rules (docs/protocol/policy.md)").required();
  command.add_option("--baseline", arguments->baseline,
                     "another run directory, kept from before, to hold the arms against; without it the run's own "
                     "baseline");
  command.add_option("--baseline-arm", arguments->baseline_arm, "arm of that directory (its baseline)");
  command.add_flag("--github", arguments->github, "print annotations, append to the step's summary");
  command.add_flag("--json", arguments->json, "print verdict.json");
  command.set_footer("Example: tare gate runs/change --policy policy.json");
  command.set_action([arguments] {
    if (arguments->json && arguments->github)
      throw input_error("--github", "prints lines of its own beside --json", "choose one of them");
    return gate(*arguments);
  });
}

}  // namespace tare::harness
