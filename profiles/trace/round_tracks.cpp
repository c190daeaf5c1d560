#include "profiles/trace/round_tracks.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "profiles/timeline/timeline.h"

namespace tare::profiles {
namespace {

double us(std::int64_t ns) {
  constexpr double kUsPerNs = 1e-3;
  return static_cast<double>(ns) * kUsPerNs;
}

TraceSlice round_slice(std::size_t number, std::span<const KernelRecord> round, const Timeline& timeline) {
  const auto first = std::min_element(
      round.begin(), round.end(), [](const KernelRecord& a, const KernelRecord& b) { return a.start_ns < b.start_ns; });
  return {first->start_ns,
          first->start_ns + timeline.span_ns,
          fmt::format("round {}", number),
          "round",
          {{"kernels", round.size()}, {"span_us", us(timeline.span_ns)}, {"idle_us", us(timeline.idle_ns())}}};
}

TraceSlice kernel_slice(const KernelRecord& record, std::int64_t share_ns, const std::string& name,
                        const engine::LaunchRecord& launch, std::uint64_t bytes) {
  Json details = {{"share_us", us(share_ns)}};
  if (record.graph_node != 0) details["graph_node"] = record.graph_node;
  if (!launch.name.empty()) details["launch"] = launch.name;
  if (!launch.part.empty()) details["part"] = launch.part;
  if (bytes > 0) {
    details["bytes"] = bytes;
    // Bytes a nanosecond are GB/s.
    if (share_ns > 0) details["gb_per_s"] = static_cast<double>(bytes) / static_cast<double>(share_ns);
  }
  return {record.start_ns, record.end_ns, name, "kernel", std::move(details)};
}

}  // namespace

std::vector<TraceTrack> round_tracks(const std::string& group, std::span<const std::vector<KernelRecord>> rounds,
                                     std::span<const std::string> names, std::span<const engine::LaunchRecord> launches,
                                     const std::function<RecordLabel(std::size_t, std::size_t)>& label_of) {
  TraceTrack round_track{group, "rounds", false, {}};
  std::map<std::uint32_t, TraceTrack> streams;
  for (std::size_t r = 0; r < rounds.size(); ++r) {
    const std::vector<KernelRecord>& round = rounds[r];
    const Timeline timeline = make_timeline(round);
    round_track.slices.push_back(round_slice(r, round, timeline));
    for (std::size_t i = 0; i < round.size(); ++i) {
      const RecordLabel label = label_of(r, i);
      TraceTrack& stream = streams[round[i].stream];
      stream.slices.push_back(kernel_slice(round[i], timeline.share_ns[i],
                                           names[static_cast<std::size_t>(round[i].name)], launches[label.launch],
                                           label.bytes));
    }
  }
  std::vector<TraceTrack> tracks = {std::move(round_track)};
  for (auto& [number, stream] : streams) {
    stream.group = group;
    stream.name = fmt::format("stream {}", number);
    tracks.push_back(std::move(stream));
  }
  return tracks;
}

}  // namespace tare::profiles
