// The rows of an export, in our words. Columns of all known schemas are looked for; texts are resolved once each.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "profiles/nsys/nsys_export.h"
#include "profiles/nsys/range_sweep.h"
#include "profiles/timeline/kernel_records.h"

namespace tare::profiles {

// A process and a correlation id: what ties work on the GPU to the call that asked for it.
using Correlation = std::uint64_t;

// Something that ran on a GPU: a kernel, or a copy ("[memcpy HtoD]", "[memset]").
struct GpuWork {
  KernelRecord record;  // name as index into NsysRows::names
  Correlation correlation = 0;
  std::uint64_t bytes = 0;  // that a copy moved
  std::int32_t device = 0;
  std::uint32_t process = 0;
  bool kernel = true;
  bool valid = true;  // its times can be true
};

// A call of the CUDA API.
struct ApiCall {
  HostCall host;
  Correlation correlation = 0;
  bool launches_graph = false;
};

// A graph that was recorded whole, without its kernels.
struct GraphRun {
  Correlation correlation = 0;
  std::int32_t device = 0;
};

// The creation of a graph's node.
struct NodeCreation {
  HostCall host;
  std::uint64_t node = 0;
  std::uint64_t original = 0;  // the node it was cloned from when its graph was instantiated; 0: none
};

struct NsysRows {
  std::vector<std::string> names;  // of kernels and copies, shortened (kernel_name.h)
  std::vector<GpuWork> work;       // by start
  std::vector<ApiCall> calls;      // in stored order
  std::vector<GraphRun> graphs;
  std::vector<NodeCreation> nodes;
  std::vector<std::string> range_names;
  std::vector<HostRange> ranges;         // NVTX; is_round is not set
  std::vector<bool> open_ranges;         // of every range: no end was recorded; it ends with the last record
  std::vector<std::string> diagnostics;  // what nsys itself complained of
  std::vector<HostRange> overhead;       // of the profiler; only the times are set
  bool calls_recorded = false;           // there is a table of API calls
  bool processes_known = true;           // work names its process; else all calls are taken for one process's
};

// Throws Error (input) when rows cannot be read. Missing tables give no rows.
[[nodiscard]] NsysRows read_rows(const NsysExport& file);

}  // namespace tare::profiles
