#include "tests/house/include_rules.h"

#include <algorithm>
#include <fstream>
#include <functional>
#include <map>
#include <set>

namespace tare::house {
namespace {

namespace fs = std::filesystem;

bool is_source(const fs::path& path) {
  static const std::set<std::string> kExtensions = {".h", ".cpp", ".cu", ".cuh"};
  return kExtensions.contains(path.extension().string());
}

std::string top_folder(const std::string& path) {
  return path.substr(0, path.find('/'));
}

// The room with the longest name that is a prefix of the path; null when there is none.
const Room* room_of(const std::string& path, const std::vector<Room>& rooms) {
  const Room* best = nullptr;
  for (const Room& room : rooms) {
    const bool inside =
        path.size() > room.folder.size() && path.starts_with(room.folder) && path[room.folder.size()] == '/';
    if (inside && (best == nullptr || room.folder.size() > best->folder.size())) best = &room;
  }
  return best;
}

void find_circles(const std::vector<Room>& rooms, std::vector<std::string>& faults) {
  std::map<std::string, std::vector<std::string>> edges;
  for (const Room& room : rooms) edges[room.folder] = room.may_include;
  std::set<std::string> done;
  std::vector<std::string> path;
  const std::function<void(const std::string&)> visit = [&](const std::string& folder) {
    if (done.contains(folder)) return;
    if (std::find(path.begin(), path.end(), folder) != path.end()) {
      faults.push_back("circle through " + folder);
      return;
    }
    path.push_back(folder);
    for (const std::string& next : edges[folder]) visit(next);
    path.pop_back();
    done.insert(folder);
  };
  for (const Room& room : rooms) visit(room.folder);
}

void check_file(const fs::path& root, const std::string& name, const Room& room, const std::vector<Room>& rooms,
                std::vector<std::string>& faults) {
  std::ifstream file(root / name);
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    const std::size_t begin = line.find("#include \"");
    if (begin != 0) continue;
    const std::size_t start = std::string("#include \"").size();
    const std::string included = line.substr(start, line.find('"', start) - start);
    const std::string place = name + ":" + std::to_string(number) + " includes " + included + ": ";
    const Room* target = room_of(included, rooms);
    if (target == nullptr) {
      faults.push_back(place + "not a path from the repository root into a known folder");
    } else if (!fs::exists(root / included)) {
      // Generated headers are named by the folder that generates them, so they too must exist in the tree as templates.
      if (!fs::exists(root / (included + ".in"))) faults.push_back(place + "no such file");
    } else if (target != &room &&
               std::find(room.may_include.begin(), room.may_include.end(), target->folder) == room.may_include.end()) {
      faults.push_back(place + room.folder + " may not include " + target->folder);
    }
  }
}

}  // namespace

std::vector<Room> rooms_of_tare() {
  const std::string base = "base";
  std::vector<Room> rooms = {{base, {}}, {"stats", {base}}};
  // Inside engine: each may include those before it.
  std::vector<std::string> below = {base};
  for (const char* name : {"formats", "checkpoint", "tokenizer", "backend", "speculate", "quantize", "cpu", "cuda",
                           "streamed", "backends", "decode"}) {
    const std::string folder = std::string("engine/") + name;
    rooms.push_back({folder, below});
    if (folder == "engine/cuda" || folder == "engine/streamed") {  // backends do not know each other
      std::erase(rooms.back().may_include, "engine/cpu");
      std::erase(rooms.back().may_include, "engine/cuda");
    }
    below.push_back(folder);
  }
  // Inside engine/cuda: each may include those before it, and what engine/cuda may.
  const std::vector<std::string> cuda_below = {
      base, "engine/formats", "engine/checkpoint", "engine/tokenizer", "engine/backend", "engine/speculate"};
  std::vector<std::string> cuda = cuda_below;
  for (const char* name : {"device", "product", "gdn", "attention", "weights"}) {
    const std::string folder = std::string("engine/cuda/") + name;
    rooms.push_back({folder, cuda});
    cuda.push_back(folder);
    below.push_back(folder);
  }
  std::erase(rooms[rooms.size() - 2].may_include, "engine/cuda/gdn");  // the two kinds of layer do not know each other
  // The reference on a GPU shares the device, cuBLAS and the making of synthetic weights with the fast backend, and no
  // kernel that computes.
  std::vector<std::string> streamed = cuda_below;
  for (const char* name : {"engine/cuda/device", "engine/cuda/product", "engine/cuda/weights", "engine/streamed"})
    streamed.emplace_back(name);
  rooms.push_back({"engine/streamed/cuda", streamed});
  below.emplace_back("engine/streamed/cuda");
  for (Room& room : rooms) {
    if (room.folder == "engine/cuda") room.may_include = cuda;
    if (room.folder != "engine/backends") continue;
    room.may_include.emplace_back("engine/cuda/device");  // which GPU was found
    room.may_include.emplace_back("engine/streamed/cuda");
  }
  const std::vector<std::string> engine = below;  // base and all of engine
  std::vector<std::string> engine_and_stats = engine;
  engine_and_stats.emplace_back("stats");
  rooms.push_back({"forced", engine_and_stats});
  rooms.push_back({"profiles", engine_and_stats});
  rooms.push_back({"reports", {base, "stats"}});
  // Inside harness: each may include those before it and every library.
  std::vector<std::string> libraries = engine_and_stats;
  for (const char* name : {"forced", "profiles", "reports"}) libraries.emplace_back(name);
  for (const char* name : {"experiment", "environment", "ledger", "worker", "fidelity", "analysis", "gate", "compare",
                           "export", "driver", "cli"}) {
    rooms.push_back({std::string("harness/") + name, libraries});
    libraries.push_back(std::string("harness/") + name);
  }
  return rooms;
}

std::vector<std::string> faults_of(const fs::path& root, const std::vector<Room>& rooms) {
  std::vector<std::string> faults;
  find_circles(rooms, faults);
  std::set<std::string> tops;
  for (const Room& room : rooms) tops.insert(top_folder(room.folder));
  for (const std::string& top : tops) {
    if (!fs::exists(root / top)) continue;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root / top)) {
      if (!entry.is_regular_file() || !is_source(entry.path())) continue;
      const std::string name = fs::relative(entry.path(), root).generic_string();
      const Room* room = room_of(name, rooms);
      if (room == nullptr) {
        faults.push_back(name + ": lies in no known folder");
      } else {
        check_file(root, name, *room, rooms, faults);
      }
    }
  }
  std::sort(faults.begin(), faults.end());
  return faults;
}

}  // namespace tare::house
