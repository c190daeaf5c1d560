// An imported profile as tracks of a trace: rounds and streams of the GPU, and the NVTX ranges of every thread.
#pragma once

#include <vector>

#include "profiles/nsys/nsys_import.h"
#include "profiles/trace/chrome_trace.h"

namespace tare::profiles {

// Of the first `rounds` rounds and the ranges that overlap them in time: viewers do not load gigabytes.
[[nodiscard]] std::vector<TraceTrack> nsys_tracks(const NsysProfile& profile, std::size_t rounds);

}  // namespace tare::profiles
