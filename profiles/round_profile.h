// Where the time of a decode round goes: on a GPU kernel by kernel, on the CPU op by op.
//
// On a GPU rounds are timed first, without a collector in the process, and then run again under it; on the CPU timed
// and profiled rounds take turns, so that drift falls on both. The two round times are shown side by side, and nothing
// is scaled. Kernel times are completion intervals (timeline.h), so that they and the idle time add up to the span from
// a round's first kernel to its last. Ops follow one another, so theirs are their durations, and idle is what the host
// does between them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/backend/backend.h"
#include "profiles/timeline/kernel_records.h"
#include "profiles/timeline/round_table.h"
#include "profiles/trace/chrome_trace.h"

namespace tare::profiles {

struct RoundProfileSettings {
  std::int64_t context = 64;  // tokens in the caches before the first round
  std::int64_t width = 1;     // tokens a round verifies and commits, after a draft where there is a drafter
  std::int64_t rounds = 32;   // timed, and as many profiled
  std::uint64_t seed = 1;     // of the random tokens
  bool alternate = false;     // timed and profiled rounds take turns; for a collector that can pause
};

// With the means over the profiled rounds.
struct RoundProfile : RoundTable {
  double prefill_us = 0;            // of the first context, by the host's clock, the second time it was fed
  std::int64_t first_context = 0;   // tokens in the caches at the first profiled round
  std::vector<double> timed_us;     // verify and commit by the host's clock, without the collector
  std::vector<double> profiled_us;  // under it
  // The profiled rounds themselves, kernels in order; names and launches as make_round_table takes them.
  std::vector<std::vector<KernelRecord>> rounds;
  std::vector<std::string> names;
  std::vector<engine::LaunchRecord> launches;    // of match_launches, or as the collector was told them
  std::vector<std::vector<RecordLabel>> labels;  // of every kernel of every round
  bool of_ops = false;                           // of the CPU, not kernels of a GPU
  std::string unmatched;                         // why records carry no declared launch; empty when they do

  // What of the mean timed round lies outside of the ops or kernels and the time between them; of either sign, for the
  // two come from different rounds.
  [[nodiscard]] double residual_us() const;
};

// The collector is made after the timed rounds, unless they alternate. Throws Error (input): settings that do not fit
// the backend; Error (invalid): what split_rounds refuses; what the collector throws.
[[nodiscard]] RoundProfile profile_rounds(engine::Backend& backend, const RoundProfileSettings& settings,
                                          const std::function<std::unique_ptr<KernelCollector>()>& make_collector);

// The first `rounds` profiled rounds as tracks of a trace.
[[nodiscard]] std::vector<TraceTrack> profile_tracks(const RoundProfile& profile, std::size_t rounds);

}  // namespace tare::profiles
