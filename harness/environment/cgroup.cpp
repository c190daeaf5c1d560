#include "harness/environment/cgroup.h"

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "harness/environment/proc_text.h"

namespace tare::harness {
namespace {

using std::filesystem::path;

constexpr std::int64_t kNsPerUs = 1000;

// A group of either version: where it is mounted, and its path below.
struct Place {
  path mount;
  path group;
  bool version_2 = false;
};

bool names_cpu(const std::string& controllers) {
  std::istringstream list(controllers);
  for (std::string controller; std::getline(list, controller, ',');)
    if (controller == "cpu") return true;
  return false;
}

// /proc/self/cgroup: "0::/path" (version 2), "1:cpu,cpuacct:/path" (version 1).
std::vector<Place> places_of(const SystemFiles& files) {
  const std::optional<std::string> content = content_of(files.proc / "self/cgroup");
  const path root = files.sys / "fs/cgroup";
  std::vector<Place> places;
  if (!content) return places;
  std::istringstream lines(*content);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos || second + 1 >= line.size()) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const path group = path(line.substr(second + 1)).relative_path();
    if (controllers.empty()) places.push_back({root, group, true});
    if (names_cpu(controllers)) {
      places.push_back({root / controllers, group, false});
      places.push_back({root / "cpu", group, false});
    }
  }
  return places;
}

// From the group up to the mount.
std::vector<path> way_up(const Place& place) {
  std::vector<path> folders;
  for (path group = place.group; !group.empty(); group = group.parent_path()) folders.push_back(place.mount / group);
  folders.push_back(place.mount);
  return folders;
}

// "150000 100000" or "max 100000".
std::optional<double> quota_2(const path& folder) {
  const std::optional<std::string> line = line_of(folder / "cpu.max");
  if (!line) return std::nullopt;
  const std::size_t space = line->find(' ');
  const auto quota = number_in<double>(*line);
  const auto period = space == std::string::npos ? std::nullopt : number_in<double>(line->substr(space));
  if (!quota || !period || *period <= 0) return std::nullopt;
  return *quota / *period;
}

std::optional<double> quota_1(const path& folder) {
  const auto quota = number_of<double>(folder / "cpu.cfs_quota_us");  // -1: no limit
  const auto period = number_of<double>(folder / "cpu.cfs_period_us");
  if (!quota || !period || *quota <= 0 || *period <= 0) return std::nullopt;
  return *quota / *period;
}

}  // namespace

CgroupCpu read_cgroup_cpu(const SystemFiles& files) {
  CgroupCpu cpu;
  for (const Place& place : places_of(files)) {
    for (const path& folder : way_up(place)) {
      const auto quota = place.version_2 ? quota_2(folder) : quota_1(folder);
      if (quota) cpu.quota_cores = std::min(*quota, cpu.quota_cores.value_or(*quota));
      if (cpu.throttled_us) continue;  // the innermost group has told
      cpu.throttled_periods = number_after<std::int64_t>(folder / "cpu.stat", "nr_throttled");
      if (place.version_2) {
        cpu.throttled_us = number_after<std::int64_t>(folder / "cpu.stat", "throttled_usec");
      } else if (const auto ns = number_after<std::int64_t>(folder / "cpu.stat", "throttled_time")) {
        cpu.throttled_us = *ns / kNsPerUs;
      }
    }
  }
  return cpu;
}

}  // namespace tare::harness
