#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>

#include "harness/analysis/blinding.h"
#include "harness/cli/commands.h"
#include "harness/cli/finish_report.h"
#include "harness/environment/environment.h"
#include "harness/fidelity/fidelity_files.h"
#include "harness/fidelity/fidelity_report.h"

namespace tare::harness {
namespace {

// A directory of tare fidelity: no ledger, one JSON file that holds all that was scored.
bool holds_fidelity_alone(const std::filesystem::path& directory) {
  return std::filesystem::exists(directory / "fidelity.json") && !std::filesystem::exists(directory / "ledger.sqlite");
}

int rewrite_fidelity(const std::filesystem::path& directory, bool json) {
  const Json fidelity = rewrite_fidelity_files(directory);
  fmt::print("{}", json ? fidelity.dump(2) + "\n" : fidelity_text(fidelity));
  return 0;
}

// To standard error: with --json the other is for verdict.json.
void print_unblinding(const UnblindingRecord& unblinding) {
  fmt::print(stderr, "unblinded {}; findings digest {}\n", utc_text(unblinding.utc_ns), unblinding.findings_digest);
}

}  // namespace

void add_report_command(CommandLine& line) {
  struct Arguments {
    std::string directory;
    std::string ceiling;
    std::string fidelity;
    bool json = false;
    bool unblind = false;
  };
  const auto arguments = std::make_shared<Arguments>();
  const Command command =
      line.add_command("report", "write report, tables, figures and verdict.json from a run directory");
  command.add_option("directory", arguments->directory, "run directory (holds ledger.sqlite), or one of tare fidelity")
      .required();
  command.add_option("--ceiling", arguments->ceiling,
                     "what tare ceiling --json printed on that machine: rates are held against its read rate");
  command.add_option("--fidelity", arguments->fidelity,
                     "what tare fidelity wrote of the same arms: fidelity is drawn against speed");
  command.add_flag("--json", arguments->json, "print verdict.json");
  command.add_flag("--unblind", arguments->unblind,
                   "freeze the analysis of a blind experiment, and name its arms from then on");
  command.set_footer("Example: tare report runs/quickstart");
  command.set_action([arguments] {
    if (arguments->unblind) print_unblinding(unblind(arguments->directory));
    if (holds_fidelity_alone(arguments->directory)) return rewrite_fidelity(arguments->directory, arguments->json);
    return finish_report(arguments->directory, arguments->json, arguments->ceiling, arguments->fidelity);
  });
}

}  // namespace tare::harness
