// Whether sources are compiled with the options that the precompiled headers they read were made with.
#pragma once

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace tare::house {

struct PrecompiledUse {
  int sources = 0;  // that read precompiled headers
  std::vector<std::string>
      faults;  // "FILE is compiled with OPTIONS, the headers it reads with OPTIONS", or no such headers
};

// `commands`: CMake's compile_commands.json. Options are those of optimisation and code (-O, -f, -m, -g, -std), as the
// compiler takes them: of several -O the last.
[[nodiscard]] PrecompiledUse use_of_precompiled_headers(const nlohmann::json& commands);

}  // namespace tare::house
