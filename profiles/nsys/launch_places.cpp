#include "profiles/nsys/launch_places.h"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace tare::profiles {
namespace {

constexpr std::size_t kTop = 0;  // the empty path
constexpr int kMostClones = 8;   // a node is cloned when a graph is instantiated, or added to another: a few times

std::vector<HostCall> all_calls(const NsysRows& rows) {
  std::vector<HostCall> calls;
  calls.reserve(rows.calls.size() + rows.nodes.size());
  for (const ApiCall& call : rows.calls) calls.push_back(call.host);
  for (const NodeCreation& node : rows.nodes) calls.push_back(node.host);
  return calls;
}

}  // namespace

LaunchPlaces::LaunchPlaces(const NsysRows& rows) : sweep_(sweep_ranges(rows.ranges, all_calls(rows))) {
  by_correlation_.reserve(rows.calls.size());
  for (std::size_t i = 0; i < rows.calls.size(); ++i)
    by_correlation_.emplace_back(rows.calls[i].correlation, static_cast<std::uint32_t>(i));
  // A call of the runtime and the driver's call beneath it share a correlation: the first one is the outer one.
  std::sort(by_correlation_.begin(), by_correlation_.end(), [&](const auto& a, const auto& b) {
    if (a.first != b.first) return a.first < b.first;
    return rows.calls[a.second].host.start_ns < rows.calls[b.second].host.start_ns;
  });
  (void)path_number("");
  number_paths(rows);
  place_nodes(rows);
}

std::optional<std::size_t> LaunchPlaces::call_of(Correlation correlation) const {
  const auto found = std::lower_bound(by_correlation_.begin(), by_correlation_.end(), correlation,
                                      [](const auto& entry, Correlation wanted) { return entry.first < wanted; });
  if (found == by_correlation_.end() || found->first != correlation) return std::nullopt;
  return found->second;
}

std::size_t LaunchPlaces::path_of(const GpuWork& work, std::optional<std::size_t> call) {
  const std::int32_t range = call ? sweep_.innermost[*call] : kNoRange;
  const Path outer = range == kNoRange ? kTop : range_paths_[static_cast<std::size_t>(range)];
  if (work.record.graph_node == 0 || node_paths_.empty()) return outer;
  const auto node = node_paths_.find(work.record.graph_node);
  return node == node_paths_.end() ? outer : join(outer, node->second);
}

LaunchPlaces::Path LaunchPlaces::path_number(const std::string& path) {
  const auto [entry, fresh] = path_numbers_.try_emplace(path, launches_.size());
  if (fresh) launches_.push_back({{}, path, 0});
  return entry->second;
}

// Of every range, from its round downwards; parents come first.
void LaunchPlaces::number_paths(const NsysRows& rows) {
  std::vector<std::size_t> order(rows.ranges.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::tuple(rows.ranges[a].start_ns, -rows.ranges[a].end_ns, a) <
           std::tuple(rows.ranges[b].start_ns, -rows.ranges[b].end_ns, b);
  });
  range_paths_.assign(rows.ranges.size(), kTop);
  for (const std::size_t i : order) {
    if (rows.ranges[i].is_round) continue;
    const std::int32_t parent = sweep_.parent[i];
    const Path above = parent == kNoRange ? kTop : range_paths_[static_cast<std::size_t>(parent)];
    const std::string& name = rows.range_names[static_cast<std::size_t>(rows.ranges[i].name)];
    range_paths_[i] = path_number(above == kTop ? name : launches_[above].part + kPathSeparator + name);
  }
}

void LaunchPlaces::place_nodes(const NsysRows& rows) {
  std::unordered_map<std::uint64_t, std::uint64_t> originals;
  for (std::size_t i = 0; i < rows.nodes.size(); ++i) {
    const NodeCreation& node = rows.nodes[i];
    if (node.original != 0 && node.original != node.node) {
      originals[node.node] = node.original;
      continue;
    }
    const std::int32_t range = sweep_.innermost[rows.calls.size() + i];
    if (range != kNoRange) node_paths_[node.node] = range_paths_[static_cast<std::size_t>(range)];
  }
  for (const auto& [clone, original] : originals) {
    std::uint64_t source = original;
    for (int step = 0; step < kMostClones; ++step) {
      const auto further = originals.find(source);
      if (further == originals.end()) break;
      source = further->second;
    }
    const auto place = node_paths_.find(source);
    if (place != node_paths_.end()) node_paths_[clone] = place->second;
  }
}

// A graph that is captured within the round that launches it has the round's own ranges above it: they are not told
// twice.
LaunchPlaces::Path LaunchPlaces::join(Path outer, Path inner) {
  if (inner == kTop || inner == outer) return outer;
  if (outer == kTop) return inner;
  const auto [entry, fresh] = joined_.try_emplace({outer, inner}, kTop);
  if (fresh) {
    const std::string above = launches_[outer].part;
    const std::string below = launches_[inner].part;
    entry->second = path_number(below.starts_with(above + kPathSeparator) ? below : above + kPathSeparator + below);
  }
  return entry->second;
}

}  // namespace tare::profiles
