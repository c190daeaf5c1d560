#include <memory>
#include <string>

#include "harness/cli/commands.h"
#include "harness/cli/finish_report.h"

namespace tare::harness {

void add_report_command(CLI::App& app, Chosen& chosen) {
  struct Arguments {
    std::string directory;
    std::string ceiling;
    bool json = false;
  };
  const auto arguments = std::make_shared<Arguments>();
  CLI::App* command =
      app.add_subcommand("report", "write report, tables, figures and verdict.json from a run directory");
  command->add_option("directory", arguments->directory, "run directory (holds ledger.sqlite)")->required();
  command->add_option("--ceiling", arguments->ceiling,
                      "what tare ceiling --json printed on that machine: rates are held against its read rate");
  command->add_flag("--json", arguments->json, "print verdict.json");
  command->footer("Example: tare report runs/quickstart");
  command->callback([arguments, &chosen] {
    chosen.action = [arguments] { return finish_report(arguments->directory, arguments->json, arguments->ceiling); };
  });
}

}  // namespace tare::harness
