// Rounds and kernel tables from an export of Nsight Systems, of any engine.
//
// A round is an NVTX range of a given name; its kernels are those whose API call began within it on the range's thread
// (kernels of a graph belong to the call that launched the graph). Without ranges, the capture can be cut into equal
// parts. Times are summed as for our own profiles (timeline.h, round_table.h). A row's part is the path of ranges
// within the round around the launch, and for kernels of graphs the path around the capture of their node.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "profiles/nsys/range_sweep.h"
#include "profiles/nvtx/range_backend.h"
#include "profiles/timeline/round_table.h"

namespace tare::profiles {

// A decoder of four layers launches about this many kernels a round even when each layer is fused into four. Captures
// of whole graphs come out far below: one launch a graph, a few a round.
constexpr double kLeastKernels = 16;

struct NsysSettings {
  std::string round_range =
      kRoundRange;                // of our own programs;   // a name, or the beginning of names with * at its end
  std::int64_t equal_rounds = 0;  // > 0: no ranges; so many parts with equally many kernels
  std::int64_t skip_rounds = 0;   // left out at the beginning, warm-ups
  std::optional<std::int32_t> device = {};  // needed when rounds use several
  double least_kernels = kLeastKernels;     // a round; fewer are refused
};

// With the means over the rounds. Copies and fills have rows like kernels, with their bytes.
struct NsysProfile : RoundTable {
  std::string schema_version;  // of the export; empty when it says none
  std::string nsys_version;
  std::int32_t device = 0;
  double kernels_only = 0;          // a round, without copies
  std::int64_t fewest_kernels = 0;  // of a round, without copies
  std::int64_t most_kernels = 0;
  std::uint64_t outside = 0;     // kernels and copies of the device that lie in no round
  double overhead_us = 0;        // a round: what nsys says it spent on its own between first and last round
  std::vector<double> range_us;  // length of every round's range on the host; empty for equal parts
  std::vector<std::string> warnings;

  // What the table was summed from.
  std::vector<std::vector<KernelRecord>> rounds;
  std::vector<std::vector<RecordLabel>> labels;  // of every record
  std::vector<std::string> names;
  std::vector<engine::LaunchRecord> launches;  // paths of ranges, as parts
  std::vector<HostRange> ranges;               // all that were recorded
  std::vector<std::string> range_names;
};

// What the ranges directly within a round add up to.
struct PhaseRow {
  std::string phase;  // a range's name; empty: launched in the round itself
  double calls = 0;   // a round
  double us = 0;      // a round, of completion intervals
};

// Most time first; with the idle time they add up to the span.
[[nodiscard]] std::vector<PhaseRow> phases_of(const NsysProfile& profile);

// Throws Error (input): what NsysExport refuses; no kernels, no API calls, no range of that name, several devices.
// Error (invalid): graphs recorded whole, too few kernels a round, kernels without valid times, parts of unequal size.
[[nodiscard]] NsysProfile import_nsys(const std::filesystem::path& file, const NsysSettings& settings);

}  // namespace tare::profiles
