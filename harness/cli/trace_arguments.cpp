#include "harness/cli/trace_arguments.h"

#include <spdlog/spdlog.h>

#include "base/file.h"
#include "base/text.h"

namespace tare::harness {

void TraceArguments::add_to(CLI::App& command) {
  command.add_option("--trace", file, "draw the first rounds into this file, for ui.perfetto.dev");
  command.add_option("--trace-rounds", rounds, "so many of them")->check(CLI::PositiveNumber)->capture_default_str();
}

void TraceArguments::write(const std::vector<profiles::TraceTrack>& tracks, const Json& about) const {
  const std::string text = profiles::chrome_trace(tracks, about);
  write_file_atomically(file, text);
  spdlog::info("{} has {}; open it in ui.perfetto.dev", file, human_bytes(text.size()));
}

}  // namespace tare::harness
