#include "profiles/trace/chrome_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <numeric>

#include "base/error.h"

namespace tare::profiles {
namespace {

constexpr std::int64_t kNsPerUs = 1000;

std::string json_text(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// Microseconds with all three digits of the nanoseconds. `ns` is not negative.
std::string us_text(std::int64_t ns) {
  return fmt::format("{}.{:03}", ns / kNsPerUs, ns % kNsPerUs);
}

// Slices in the order a viewer wants: by start, of equal starts the longer first.
std::vector<std::size_t> drawing_order(const std::vector<TraceSlice>& slices) {
  std::vector<std::size_t> order(slices.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    if (slices[a].start_ns != slices[b].start_ns) return slices[a].start_ns < slices[b].start_ns;
    return slices[a].end_ns > slices[b].end_ns;
  });
  return order;
}

// One row of a track: the ends of the slices that are open where it was drawn last, outermost first.
struct Lane {
  std::vector<std::int64_t> open_ends;

  bool takes(const TraceSlice& slice, bool nests) {
    while (!open_ends.empty() && open_ends.back() <= slice.start_ns) open_ends.pop_back();
    if (!open_ends.empty() && (!nests || slice.end_ns > open_ends.back())) return false;
    open_ends.push_back(slice.end_ns);
    return true;
  }
};

class Writer {
 public:
  explicit Writer(std::int64_t origin_ns) : origin_ns_(origin_ns) {}

  void track(const TraceTrack& track) {
    std::vector<Lane> lanes;
    const int first_thread = threads_;
    for (const std::size_t i : drawing_order(track.slices)) {
      const TraceSlice& slice = track.slices[i];
      const auto lane =
          std::find_if(lanes.begin(), lanes.end(), [&](Lane& it) { return it.takes(slice, track.nests); });
      const auto number = static_cast<int>(std::distance(lanes.begin(), lane));
      if (lane == lanes.end()) {
        lanes.emplace_back();
        (void)lanes.back().takes(slice, track.nests);
        name_lane(track, number);
      }
      write(slice, track, first_thread + number);
    }
    threads_ = first_thread + static_cast<int>(lanes.size());
  }

  std::string finish(const Json& about) {
    return fmt::format("{{\"traceEvents\":[\n{}\n],\"displayTimeUnit\":\"ns\",\"otherData\":{}}}\n",
                       fmt::to_string(events_), json_text(about));
  }

 private:
  std::int64_t origin_ns_;
  fmt::memory_buffer events_;
  std::map<std::string, int> groups_;  // to process ids
  int threads_ = 1;

  void add(const std::string& event) {
    fmt::format_to(std::back_inserter(events_), "{}{}", events_.size() == 0 ? "" : ",\n", event);
  }

  void metadata(const char* name, int process, int thread, const Json& details) {
    add(fmt::format(R"({{"name":"{}","ph":"M","pid":{},"tid":{},"args":{}}})", name, process, thread,
                    json_text(details)));
  }

  int process_of(const std::string& group) {
    const auto [entry, fresh] = groups_.try_emplace(group, static_cast<int>(groups_.size()) + 1);
    if (fresh) {
      metadata("process_name", entry->second, 0, {{"name", group}});
      metadata("process_sort_index", entry->second, 0, {{"sort_index", entry->second}});
    }
    return entry->second;
  }

  void name_lane(const TraceTrack& track, int lane) {
    const int process = process_of(track.group);
    const int thread = threads_ + lane;
    metadata("thread_name", process, thread,
             {{"name", lane == 0 ? track.name : fmt::format("{}, lane {}", track.name, lane + 1)}});
    metadata("thread_sort_index", process, thread, {{"sort_index", thread}});
  }

  void write(const TraceSlice& slice, const TraceTrack& track, int thread) {
    add(fmt::format(R"({{"name":{},"cat":{},"ph":"X","ts":{},"dur":{},"pid":{},"tid":{}{}}})", json_text(slice.name),
                    json_text(slice.category), us_text(slice.start_ns - origin_ns_),
                    us_text(slice.end_ns - slice.start_ns), process_of(track.group), thread,
                    slice.details.is_null() ? "" : fmt::format(R"(,"args":{})", json_text(slice.details))));
  }
};

}  // namespace

std::string chrome_trace(const std::vector<TraceTrack>& tracks, const Json& about) {
  std::int64_t origin_ns = std::numeric_limits<std::int64_t>::max();
  for (const TraceTrack& track : tracks)
    for (const TraceSlice& slice : track.slices) {
      if (slice.end_ns < slice.start_ns) throw internal_error("a slice of a trace ends before it starts");
      origin_ns = std::min(origin_ns, slice.start_ns);
    }
  Writer writer(origin_ns);
  for (const TraceTrack& track : tracks) writer.track(track);
  return writer.finish(about);
}

}  // namespace tare::profiles
