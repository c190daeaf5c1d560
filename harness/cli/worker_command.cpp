#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <memory>

#include "base/json_reader.h"
#include "base/text.h"
#include "engine/backend/option_description.h"
#include "engine/backend/options.h"
#include "harness/cli/commands.h"
#include "harness/worker/engine_worker.h"

namespace tare::harness {
namespace {

void print_options(bool json) {
  Json list = Json::array();
  for (const engine::OptionDescription& option : engine::describe_options()) {
    list.push_back({{"path", option.path},
                    {"type", option.type},
                    {"words", option.words},
                    {"default", option.default_value},
                    {"meaning", option.meaning}});
    if (json) continue;
    const std::string type = option.words.empty() ? option.type : join(option.words, "|");
    fmt::print("{:<24} {:<32} default {}\n    {}\n", option.path, type, option.default_value.dump(), option.meaning);
  }
  if (json) fmt::print("{}\n", list.dump(2));
}

}  // namespace

void add_worker_command(CommandLine& line) {
  struct Arguments {
    bool options = false;
    bool json = false;
  };
  const auto arguments = std::make_shared<Arguments>();
  const Command command = line.add_command("worker", "be an arm: speak the worker protocol on the standard streams");
  command.add_flag("--options", arguments->options, "list every engine option and end");
  command.add_flag("--json", arguments->json, "with --options: as JSON");
  command.set_footer("Example: tare worker --options\nThe protocol: docs/protocol/worker.md");
  command.set_action([arguments] {
    if (arguments->options) {
      print_options(arguments->json);
      return 0;
    }
    // Whatever else writes to standard output must not disturb the protocol: it keeps a descriptor of its own.
    const int output = ::dup(STDOUT_FILENO);
    ::dup2(STDERR_FILENO, STDOUT_FILENO);
    return serve_worker(STDIN_FILENO, output);
  });
}

}  // namespace tare::harness
