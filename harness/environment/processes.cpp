#include "harness/environment/processes.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <sstream>
#include <system_error>

#include "base/text.h"
#include "harness/environment/proc_text.h"

namespace tare::harness {
namespace {

// Names as the kernel has them: at most 15 characters. Editors' language servers are not among them: they rest for most
// of the time, and when they do not, they are found as busy neighbours.
constexpr std::array<std::string_view, 34> kBuildTools = {
    "cc1",      "cc1plus", "g++",   "gcc",  "c++",   "clang", "clang++", "ld",    "ld.bfd",
    "ld.gold",  "ld.lld",  "lld",   "mold", "as",    "nvcc",  "cicc",    "ptxas", "fatbinary",
    "cudafe++", "nvlink",  "ninja", "make", "gmake", "cmake", "ctest",   "bazel", "cargo",
    "rustc",    "go",      "javac", "tsc",  "meson", "dpkg",  "apt-get"};

// "12350 (name (odd)) R 1 2 ...": fields after the last parenthesis, the state first.
std::optional<ProcessEntry> parse_stat(pid_t pid, const std::string& line) {
  const std::size_t open = line.find('(');
  const std::size_t close = line.rfind(')');
  if (open == std::string::npos || close == std::string::npos || close < open) return std::nullopt;
  ProcessEntry entry;
  entry.pid = pid;
  entry.name = line.substr(open + 1, close - open - 1);
  std::istringstream fields(line.substr(close + 1));
  std::string state;
  std::int64_t parent = 0;
  fields >> state >> parent >> entry.group;
  std::int64_t skipped = 0;
  for (int i = 0; i < 8; ++i) fields >> skipped;  // session tty tpgid flags minflt cminflt majflt cmajflt
  std::int64_t user = 0;
  std::int64_t system = 0;
  std::int64_t dead_user = 0;
  std::int64_t dead_system = 0;
  if (!(fields >> user >> system >> dead_user >> dead_system)) return std::nullopt;
  entry.cpu_ticks = user + system;
  entry.dead_ticks = dead_user + dead_system;
  return entry;
}

bool in_groups(pid_t group, std::span<const pid_t> groups) {
  return std::find(groups.begin(), groups.end(), group) != groups.end();
}

}  // namespace

std::optional<std::vector<ProcessEntry>> list_processes(const SystemFiles& files) {
  std::error_code failure;
  std::filesystem::directory_iterator folder(files.proc, failure);
  if (failure) return std::nullopt;
  std::vector<ProcessEntry> processes;
  for (; folder != std::filesystem::directory_iterator(); folder.increment(failure)) {
    if (failure) return std::nullopt;
    const std::string name = folder->path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const auto pid = number_in<pid_t>(name);
    const auto line = line_of(folder->path() / "stat");  // absent when it has ended meanwhile
    auto entry = pid && line ? parse_stat(*pid, *line) : std::nullopt;
    if (entry) processes.push_back(std::move(*entry));
  }
  if (processes.empty()) return std::nullopt;  // at least this one runs: what was read is no list of processes
  return processes;
}

bool is_build_tool(std::string_view name) {
  return std::find(kBuildTools.begin(), kBuildTools.end(), name) != kBuildTools.end();
}

bool is_ours(const ProcessEntry& process, std::span<const pid_t> worker_groups) {
  return process.pid == ::getpid() || in_groups(process.group, worker_groups);
}

std::string running_builds(std::span<const ProcessEntry> processes, std::span<const pid_t> worker_groups) {
  std::map<std::string, int> counts;
  for (const ProcessEntry& process : processes)
    if (is_build_tool(process.name) && !is_ours(process, worker_groups)) ++counts[process.name];
  std::vector<std::string> parts;
  parts.reserve(counts.size());
  for (const auto& [name, count] : counts) parts.push_back(count == 1 ? name : fmt::format("{} {}", count, name));
  return join(parts, ", ");
}

std::int64_t own_cpu_ticks(std::span<const ProcessEntry> processes, std::span<const pid_t> worker_groups) {
  std::int64_t ticks = 0;
  for (const ProcessEntry& process : processes) {
    // Workers that have ended are this program's dead children: their ticks would arrive all at once.
    if (process.pid == ::getpid()) ticks += process.cpu_ticks;
    if (in_groups(process.group, worker_groups)) ticks += process.cpu_ticks + process.dead_ticks;
  }
  return ticks;
}

std::vector<BusyProcess> busy_processes(std::span<const ProcessEntry> before, std::span<const ProcessEntry> after,
                                        double seconds, std::span<const pid_t> worker_groups) {
  std::map<pid_t, std::int64_t> ticks_before;
  for (const ProcessEntry& process : before) ticks_before[process.pid] = process.cpu_ticks;
  std::vector<BusyProcess> busy;
  for (const ProcessEntry& process : after) {
    const auto found = ticks_before.find(process.pid);
    const std::int64_t used = process.cpu_ticks - (found == ticks_before.end() ? 0 : found->second);
    if (used <= 0 || is_ours(process, worker_groups)) continue;
    busy.push_back({process.pid, process.name, static_cast<double>(used) / ticks_per_second() / seconds});
  }
  std::sort(busy.begin(), busy.end(), [](const BusyProcess& a, const BusyProcess& b) { return a.cores > b.cores; });
  return busy;
}

double ticks_per_second() {
  return static_cast<double>(::sysconf(_SC_CLK_TCK));
}

}  // namespace tare::harness
