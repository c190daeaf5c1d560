// Where tests find what lies in the repository: fixtures, models, prompts.
#pragma once

#include <filesystem>
#include <string>

#include "base/file.h"

namespace tare {

// The folder that the test was built from, or the one that TARE_SOURCE_FOLDER names: on a GPU host without a checkout
// it is the packed folder (scripts/pack-gpu).
inline std::filesystem::path source_folder() {
  return environment_variable("TARE_SOURCE_FOLDER").value_or(TARE_SOURCE_DIR);
}

}  // namespace tare
