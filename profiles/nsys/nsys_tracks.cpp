#include "profiles/nsys/nsys_tracks.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <span>
#include <utility>

#include "profiles/trace/round_tracks.h"

namespace tare::profiles {

std::vector<TraceTrack> nsys_tracks(const NsysProfile& profile, std::size_t rounds) {
  const std::span shown = std::span(profile.rounds).first(std::min(rounds, profile.rounds.size()));
  std::vector<TraceTrack> tracks =
      round_tracks(fmt::format("GPU {}", profile.device), shown, profile.names, profile.launches,
                   [&](std::size_t round, std::size_t i) { return profile.labels[round][i]; });
  std::int64_t begin_ns = std::numeric_limits<std::int64_t>::max();
  std::int64_t end_ns = std::numeric_limits<std::int64_t>::min();
  for (const TraceSlice& round : tracks.front().slices) {
    begin_ns = std::min(begin_ns, round.start_ns);
    end_ns = std::max(end_ns, round.end_ns);
  }
  // Launches come before their kernels: a round's range overlaps its kernels, or touches the time before them.
  std::map<std::pair<bool, std::uint64_t>, TraceTrack> threads;
  constexpr std::uint64_t kLowId = 0xFFFFFF;  // of a process or a thread, as the system names it
  for (const HostRange& range : profile.ranges) {
    if (range.end_ns < begin_ns || range.start_ns > end_ns) continue;
    const auto [entry, fresh] =
        threads.try_emplace({range.process_wide, range.process_wide ? range.process : range.thread});
    TraceTrack& track = entry->second;
    if (fresh) {
      track.group = fmt::format("process {}", range.process & kLowId);
      track.name = range.process_wide ? "ranges of the process" : fmt::format("thread {}", range.thread & kLowId);
      track.nests = true;
    }
    track.slices.push_back({range.start_ns, range.end_ns, profile.range_names[static_cast<std::size_t>(range.name)],
                            range.is_round ? "round" : "range", nullptr});
  }
  for (auto& [id, track] : threads) tracks.push_back(std::move(track));
  return tracks;
}

}  // namespace tare::profiles
