// Who may include whom, and a check of a source tree against it (design: dependencies run one way, no circles).
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace tare::house {

// A folder and the folders it may include besides itself. A folder is named by its path from the repository root;
// files below it belong to the longest name that matches.
struct Room {
  std::string folder;
  std::vector<std::string> may_include;
};

[[nodiscard]] std::vector<Room> rooms_of_tare();

// One line a fault: "engine/cpu/a.cpp:12 includes harness/b.h: engine/cpu may not include harness/worker", a file in no
// room, an include of ours that does not exist, or a circle among the rooms themselves.
[[nodiscard]] std::vector<std::string> faults_of(const std::filesystem::path& root, const std::vector<Room>& rooms);

}  // namespace tare::house
