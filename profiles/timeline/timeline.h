// From kernel records to times that add up.
//
// Under programmatic launch a kernel starts while its predecessor runs and waits there, so durations overlap and their
// sum means nothing. A kernel's share is its completion interval instead: sorted by end,
//   share(i) = end(i) - max(end(i-1), earliest start among i and all that end later),
// which on one stream (starts in the order of the ends) is end(i) - max(end(i-1), start(i)). The shares add up to the
// busy time (the union of all durations) exactly, and busy + idle is the span.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "profiles/timeline/kernel_records.h"

namespace tare::profiles {

struct Timeline {
  std::int64_t span_ns = 0;            // first start to last end
  std::int64_t busy_ns = 0;            // some kernel runs
  std::vector<std::int64_t> share_ns;  // of each record, in the order given

  [[nodiscard]] std::int64_t idle_ns() const { return span_ns - busy_ns; }
};

// Records of one stretch of time, at least one, in any order.
[[nodiscard]] Timeline make_timeline(std::span<const KernelRecord> records);

// Cuts records into `rounds` equal parts by start time; each part is one round's kernels in order. Throws Error
// (invalid): records dropped or invalid, none at all, or a number that is no multiple of `rounds`.
[[nodiscard]] std::vector<std::vector<KernelRecord>> split_rounds(const KernelRecords& records, std::int64_t rounds);

}  // namespace tare::profiles
