// How this binary was made. The values are written at build time by build_info.cmake, only when they change.
#pragma once

#include <string>

#include "base/json_reader.h"

namespace tare::harness {

struct BuildInfo {
  std::string version;     // of the project: "0.1.0"
  std::string commit;      // 40 hexadecimal digits, or "unknown" outside a git checkout
  bool dirty = false;      // tracked files differ from the commit
  std::string compiler;    // "GNU 12.2.0"
  std::string flags;       // CMAKE_CXX_FLAGS and those of the build type
  std::string build_type;  // "RelWithDebInfo"
  std::string cuda;        // "none", or the toolkit's version
};

[[nodiscard]] BuildInfo build_info();
[[nodiscard]] Json to_json(const BuildInfo& build);

}  // namespace tare::harness
