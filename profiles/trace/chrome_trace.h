// Tracks of slices as the JSON that Perfetto (ui.perfetto.dev) and chrome://tracing open. Format:
// docs/protocol/trace.md.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json_reader.h"

namespace tare::profiles {

struct TraceSlice {
  std::int64_t start_ns = 0;  // any clock, the same for all tracks
  std::int64_t end_ns = 0;    // >= start_ns
  std::string name;
  std::string category;  // "kernel", "round", "range"
  Json details;          // an object shown beside the slice, or null
};

struct TraceTrack {
  std::string group;  // tracks of one group stand together, in the order of their first track
  std::string name;
  bool nests = false;  // a slice inside another is drawn below it, as calls are; else it gets a lane of its own
  std::vector<TraceSlice> slices;
};

// Times become microseconds from the first slice's start, written from integers: an epoch in nanoseconds does not fit a
// double. A viewer takes slices of one track that overlap for nested calls or drops them; kernels overlap under
// programmatic launch, so a track has as many lanes as it needs ("stream 7", "stream 7, lane 2"): only the picture
// changes, every slice keeps its times. `about` is kept as the file's "otherData". Bytes that are no UTF-8 are
// replaced. Throws Error (internal) for a slice that ends before it starts.
[[nodiscard]] std::string chrome_trace(const std::vector<TraceTrack>& tracks, const Json& about);

}  // namespace tare::profiles
