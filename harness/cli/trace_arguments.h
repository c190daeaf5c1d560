// The arguments of commands that can draw their rounds as a trace.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json_reader.h"
#include "harness/cli/command_line.h"
#include "profiles/trace/chrome_trace.h"

namespace tare::harness {

struct TraceArguments {
  std::string file;         // empty: no trace
  std::int64_t rounds = 8;  // a viewer loads some hundred megabytes at most

  void add_to(const Command& command);
  // Writes the file, and says so.
  void write(const std::vector<profiles::TraceTrack>& tracks, const Json& about) const;
};

}  // namespace tare::harness
