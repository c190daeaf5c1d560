#include "harness/cli/trace_arguments.h"

#include "base/file.h"
#include "base/text.h"
#include "harness/driver/log.h"

namespace tare::harness {

void TraceArguments::add_to(const Command& command) {
  command.add_option("--trace", file, "draw the first rounds into this file, for ui.perfetto.dev");
  command.add_option("--trace-rounds", rounds, "so many of them").positive().show_default();
}

void TraceArguments::write(const std::vector<profiles::TraceTrack>& tracks, const Json& about) const {
  const std::string text = profiles::chrome_trace(tracks, about);
  write_file_atomically(file, text);
  log_info("{} has {}; open it in ui.perfetto.dev", file, human_bytes(text.size()));
}

}  // namespace tare::harness
