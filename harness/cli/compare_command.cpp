#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "harness/cli/commands.h"
#include "harness/compare/compare.h"

namespace tare::harness {

void add_compare_command(CommandLine& line) {
  struct Arguments {
    std::vector<std::string> directories;
    bool json = false;
  };
  const auto arguments = std::make_shared<Arguments>();
  const Command command = line.add_command("compare", "the same arms of several runs: do they agree, and pooled");
  command.add_option("directories", arguments->directories, "run directories of the same texts, two or more")
      .required();
  command.add_flag("--json", arguments->json, "print one JSON object");
  command.set_footer("Example: tare compare runs/monday runs/tuesday runs/wednesday");
  command.set_action([arguments] {
    const Comparison comparison = compare_runs({arguments->directories.begin(), arguments->directories.end()});
    fmt::print("{}", arguments->json ? to_json(comparison).dump(2) + "\n" : comparison_text(comparison));
    return 0;
  });
}

}  // namespace tare::harness
