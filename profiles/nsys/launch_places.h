// Where the work of an export was asked for: its API call, the round that lies around it, and the path of ranges.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/backend/launch_record.h"
#include "profiles/nsys/nsys_reader.h"

namespace tare::profiles {

constexpr char kPathSeparator = '/';

class LaunchPlaces {
 public:
  // `rows` has its rounds marked (HostRange::is_round) and outlives the places.
  explicit LaunchPlaces(const NsysRows& rows);

  // Index of the call that asked for the work; absent when none was recorded.
  [[nodiscard]] std::optional<std::size_t> call_of(Correlation correlation) const;
  // Index of the range that is a call's round, or kNoRange.
  [[nodiscard]] std::int32_t round_of(std::size_t call) const { return sweep_.round[call]; }
  // Index into launches(): the path of ranges within the round around the call; for work of a graph, with the path
  // around the capture of its node beneath it. "verify/attention".
  [[nodiscard]] std::size_t path_of(const GpuWork& work, std::optional<std::size_t> call);
  // One a path, in its field part; the first one is empty.
  [[nodiscard]] const std::vector<engine::LaunchRecord>& launches() const { return launches_; }

 private:
  using Path = std::size_t;

  RangeSweep sweep_;                                                   // of the calls, then of the creations of nodes
  std::vector<std::pair<Correlation, std::uint32_t>> by_correlation_;  // calls, sorted
  std::vector<engine::LaunchRecord> launches_;
  std::unordered_map<std::string, Path> path_numbers_;
  std::vector<Path> range_paths_;                       // of every range
  std::unordered_map<std::uint64_t, Path> node_paths_;  // by node
  std::map<std::pair<Path, Path>, Path> joined_;

  Path path_number(const std::string& path);
  void number_paths(const NsysRows& rows);
  void place_nodes(const NsysRows& rows);
  Path join(Path outer, Path inner);
};

}  // namespace tare::profiles
