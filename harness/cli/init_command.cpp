#include <cstdio>
#include <filesystem>
#include <memory>

#include "base/error.h"
#include "base/file.h"
#include "harness/cli/commands.h"
#include "harness/experiment/experiment.h"

namespace tare::harness {

void add_init_command(CommandLine& line) {
  struct Arguments {
    std::string file = "experiment.json";
    bool force = false;
  };
  const auto arguments = std::make_shared<Arguments>();
  const Command command = line.add_command("init", "write an example experiment to start from");
  command.add_option("file", arguments->file, "where to write it").show_default();
  command.add_flag("--force", arguments->force, "overwrite an existing file");
  command.set_footer("Example: tare init my-experiment.json");
  command.set_action([arguments] {
    if (std::filesystem::exists(arguments->file) && !arguments->force)
      throw input_error(arguments->file, "is there already", "give another name, or --force");
    write_file_atomically(arguments->file, example_experiment());
    std::printf("%s\n", arguments->file.c_str());
    return 0;
  });
}

}  // namespace tare::harness
