// The control group this process runs in: how much of the cores it may use, and how often it was stopped for that.
#pragma once

#include <cstdint>
#include <optional>

#include "harness/environment/environment.h"

namespace tare::harness {

struct CgroupCpu {
  std::optional<double> quota_cores;              // absent: no limit, or none that can be read
  std::optional<std::int64_t> throttled_us;       // running total: time in which a task was ready and not let run
  std::optional<std::int64_t> throttled_periods;  // running total
};

// Version 2 (cpu.stat, cpu.max) or version 1 (cpu.stat, cpu.cfs_quota_us) of the control groups; the innermost group
// that has the file counts for the totals, the smallest quota on the way up for the limit.
[[nodiscard]] CgroupCpu read_cgroup_cpu(const SystemFiles& files = {});

}  // namespace tare::harness
