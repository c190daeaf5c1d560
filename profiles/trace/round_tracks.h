// Rounds of kernel records as tracks of a trace: the rounds, then every stream.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "profiles/timeline/kernel_records.h"
#include "profiles/timeline/round_table.h"
#include "profiles/trace/chrome_trace.h"

namespace tare::profiles {

// Arguments as of make_round_table. A round's slice lasts from its first kernel's start to its last one's end; beside a
// kernel stand its completion interval (share_us), what is known of the launch, and its GB/s.
[[nodiscard]] std::vector<TraceTrack> round_tracks(
    const std::string& group, std::span<const std::vector<KernelRecord>> rounds, std::span<const std::string> names,
    std::span<const engine::LaunchRecord> launches,
    const std::function<RecordLabel(std::size_t, std::size_t)>& label_of);

}  // namespace tare::profiles
