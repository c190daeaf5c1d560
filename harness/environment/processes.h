// Other processes of the machine: is a build going on, who uses the cores, and how much of it was us.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/environment/environment.h"

namespace tare::harness {

struct ProcessEntry {
  pid_t pid = 0;
  pid_t group = 0;
  std::string name;             // as the kernel cuts it: 15 characters
  std::int64_t cpu_ticks = 0;   // its own: user and system, USER_HZ
  std::int64_t dead_ticks = 0;  // of its children that ended and were waited for
};

// Every process this one can see; in a container those of the container. Absent when /proc cannot be read.
[[nodiscard]] std::optional<std::vector<ProcessEntry>> list_processes(const SystemFiles& files = {});

// Compilers, linkers and build drivers: what starts and ends within a run and takes every core meanwhile.
[[nodiscard]] bool is_build_tool(std::string_view name);

// What is ours in a list of processes: this program, and the workers by their process groups.
[[nodiscard]] bool is_ours(const ProcessEntry& process, std::span<const pid_t> worker_groups);

// "2 cc1plus, ninja": build tools that are not ours, by name; empty when there is none.
[[nodiscard]] std::string running_builds(std::span<const ProcessEntry> processes, std::span<const pid_t> worker_groups);

// Ticks that this program and its living workers have used so far, children that they waited for included.
[[nodiscard]] std::int64_t own_cpu_ticks(std::span<const ProcessEntry> processes, std::span<const pid_t> worker_groups);

// Who used the cores between two lists, the largest first; ours are left out, and so are those that used none.
struct BusyProcess {
  pid_t pid = 0;
  std::string name;
  double cores = 0;
};
[[nodiscard]] std::vector<BusyProcess> busy_processes(std::span<const ProcessEntry> before,
                                                      std::span<const ProcessEntry> after, double seconds,
                                                      std::span<const pid_t> worker_groups);

// Ticks of USER_HZ a second.
[[nodiscard]] double ticks_per_second();

}  // namespace tare::harness
