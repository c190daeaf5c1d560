// Kernel executions and copies, or ops of the CPU, as a collector recorded them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "engine/backend/launch_record.h"

namespace tare::profiles {

struct KernelRecord {
  std::int32_t name = 0;  // index into KernelRecords::names
  std::uint32_t stream = 0;
  std::uint64_t graph_node = 0;  // 0: not launched by a graph
  std::int64_t start_ns = 0;     // of the steady clock
  std::int64_t end_ns = 0;
  bool copy = false;               // "[memcpy HtoD]", "[memset]": not one of the kernels that a backend declares
  std::uint64_t copied_bytes = 0;  // of a copy
};

// What is known of a record beside its times.
struct RecordLabel {
  std::size_t launch = 0;   // index into the launches
  std::uint64_t bytes = 0;  // that it moved
};

struct KernelRecords {
  std::vector<std::string> names;  // shortened (kernel_name.h); of copies as copy_name has them
  std::vector<KernelRecord> records;
  std::uint64_t dropped = 0;  // that the collector lost
  std::uint64_t invalid = 0;  // without times, or with an end before the start; not among the records
  // Of a collector that is told what it records: launches, and a label for each record. Records are in order then.
  std::vector<engine::LaunchRecord> launches;
  std::vector<RecordLabel> labels;
};

// Where records come from. Its cost lies in the rounds that it watches: those are never the timed ones.
class KernelCollector {
 public:
  virtual ~KernelCollector() = default;
  // Kernels launched from here on are recorded.
  virtual void start() = 0;
  // Nothing is recorded, and no time lost, until the next start. Returns false, and does nothing, where that cannot be.
  [[nodiscard]] virtual bool pause() { return false; }
  // Waits for the device and hands over what was recorded since start or the last take; goes on recording.
  [[nodiscard]] virtual KernelRecords take() = 0;
};

}  // namespace tare::profiles
