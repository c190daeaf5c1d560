#include "profiles/timeline/timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/error.h"

namespace tare::profiles {

Timeline make_timeline(std::span<const KernelRecord> records) {
  if (records.empty()) throw internal_error("a timeline of no kernels");
  std::vector<std::size_t> order(records.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return records[a].end_ns < records[b].end_ns; });
  // earliest[i]: the earliest start among the kernels that end i-th or later.
  std::vector<std::int64_t> earliest(records.size());
  std::int64_t start = records[order.back()].start_ns;
  for (std::size_t i = order.size(); i-- > 0;) {
    start = std::min(start, records[order[i]].start_ns);
    earliest[i] = start;
  }
  Timeline timeline;
  timeline.share_ns.resize(records.size());
  timeline.span_ns = records[order.back()].end_ns - earliest.front();
  std::int64_t reached = earliest.front();
  for (std::size_t i = 0; i < order.size(); ++i) {
    const std::int64_t end = records[order[i]].end_ns;
    const std::int64_t share = end - std::max(reached, earliest[i]);
    timeline.share_ns[order[i]] = share;
    timeline.busy_ns += share;
    reached = end;
  }
  return timeline;
}

std::vector<std::vector<KernelRecord>> split_rounds(const KernelRecords& records, std::int64_t rounds) {
  if (records.dropped > 0 || records.invalid > 0)
    throw Error(ErrorKind::kInvalid,
                fmt::format("{} kernel records were dropped and {} have no valid times, of {}", records.dropped,
                            records.invalid, records.records.size() + records.dropped + records.invalid),
                "timeline", "profile fewer rounds; times that lack kernels would not add up");
  const std::size_t count = records.records.size();
  const auto parts = static_cast<std::size_t>(rounds);
  if (count == 0)
    throw Error(ErrorKind::kInvalid, "no kernel was recorded", "timeline",
                "another profiler may hold this process, or the collector cannot see the driver");
  if (count % parts != 0)
    throw Error(ErrorKind::kInvalid, fmt::format("{} kernels do not divide into {} rounds", count, rounds), "timeline",
                "rounds that launch different kernels cannot be averaged");
  std::vector<KernelRecord> sorted = records.records;
  std::stable_sort(sorted.begin(), sorted.end(), [](const KernelRecord& a, const KernelRecord& b) {
    return std::pair(a.start_ns, a.end_ns) < std::pair(b.start_ns, b.end_ns);
  });
  std::vector<std::vector<KernelRecord>> result;
  const auto size = static_cast<std::ptrdiff_t>(count / parts);
  for (auto at = sorted.begin(); at != sorted.end(); at += size) result.emplace_back(at, at + size);
  return result;
}

}  // namespace tare::profiles
