#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/json_reader.h"
#include "base/text.h"
#include "harness/cli/commands.h"
#include "harness/export/export_run.h"

namespace tare::harness {
namespace {

struct Arguments {
  std::string directory;
  std::string out;
  bool anonymise = false;
  bool json = false;
};

int export_directory(const Arguments& arguments) {
  const Exported exported = export_run(arguments.directory, arguments.out, {.anonymise = arguments.anonymise});
  for (const Error& missing : exported.missing) {
    fmt::print(stderr, "warning: {}\n", missing.what());
    if (!missing.parts().hint.empty()) fmt::print(stderr, "hint: {}\n", missing.parts().hint);
  }
  if (arguments.json) {
    Json files = Json::array();
    for (const std::filesystem::path& file : exported.files) files.push_back(file.string());
    fmt::print("{}\n", Json{{"files", files}, {"taken_out", exported.taken_out}}.dump(2));
    return 0;
  }
  if (arguments.anonymise) {
    std::vector<std::string> counts;
    for (const auto& [kind, count] : exported.taken_out) counts.push_back(fmt::format("{} {}", count, kind));
    fmt::print("taken out: {}\n", counts.empty() ? "nothing was found" : join(counts, ", "));
  }
  fmt::print("{} files: {}\n", exported.files.size(), exported.files.front().string());
  return 0;
}

}  // namespace

void add_export_command(CommandLine& line) {
  const auto arguments = std::make_shared<Arguments>();
  const Command command = line.add_command(
      "export", "write a run as others can take it: CSV and JSON of everything, figures for print, LaTeX, methods");
  command.add_option("directory", arguments->directory, "run directory (holds ledger.sqlite)").required();
  command.add_option("--out", arguments->out, "new directory for the export").required();
  command.add_flag("--anonymise", arguments->anonymise,
                   "replace names of hosts, kernels, GPUs, users and absolute paths, also in the copied ledger");
  command.add_flag("--json", arguments->json, "print the files as JSON");
  command.set_footer("Example: tare export runs/quickstart --out quickstart-export --anonymise");
  command.set_action([arguments] { return export_directory(*arguments); });
}

}  // namespace tare::harness
