#include "profiles/nsys/range_sweep.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <numeric>
#include <tuple>

namespace tare::profiles {
namespace {

using Index = std::int32_t;

// What is open on one thread while time goes on.
class Open {
 public:
  explicit Open(std::span<const HostRange> ranges) : ranges_(ranges) {}

  Index innermost(std::int64_t now) {
    // A closed one below an open one (process-wide ranges need not nest) stays until it is on top: it hides nothing.
    while (!stack_.empty() && at(stack_.back()).end_ns <= now) stack_.pop_back();
    return stack_.empty() ? kNoRange : stack_.back();
  }
  Index round(std::int64_t now) {
    if (round_ != kNoRange && at(round_).end_ns <= now) round_ = kNoRange;
    return round_;
  }
  void push(Index range) {
    if (at(range).is_round && round(at(range).start_ns) == kNoRange) round_ = range;
    stack_.push_back(range);
  }

 private:
  std::span<const HostRange> ranges_;
  std::vector<Index> stack_;
  Index round_ = kNoRange;

  [[nodiscard]] const HostRange& at(Index range) const { return ranges_[static_cast<std::size_t>(range)]; }
};

std::vector<Index> iota(std::size_t count) {
  std::vector<Index> order(count);
  std::iota(order.begin(), order.end(), Index{0});
  return order;
}

}  // namespace

RangeSweep sweep_ranges(std::span<const HostRange> ranges, std::span<const HostCall> calls) {
  RangeSweep result;
  result.parent.assign(ranges.size(), kNoRange);
  result.innermost.assign(calls.size(), kNoRange);
  result.round.assign(calls.size(), kNoRange);
  const auto range = [&](Index i) -> const HostRange& { return ranges[static_cast<std::size_t>(i)]; };
  const auto call = [&](Index i) -> const HostCall& { return calls[static_cast<std::size_t>(i)]; };
  const auto before = [&](Index a, Index b) {
    return std::tuple(range(a).start_ns, -range(a).end_ns, a) < std::tuple(range(b).start_ns, -range(b).end_ns, b);
  };

  struct Thread {
    std::uint64_t process = 0;
    std::vector<Index> ranges;
    std::vector<Index> calls;
  };
  std::map<std::uint64_t, Thread> threads;
  std::map<std::uint64_t, std::vector<Index>> process_wide;
  for (const Index i : iota(ranges.size())) {
    if (range(i).process_wide) {
      process_wide[range(i).process].push_back(i);
    } else {
      Thread& thread = threads[range(i).thread];
      thread.process = range(i).process;
      thread.ranges.push_back(i);
    }
  }
  for (const Index i : iota(calls.size())) {
    Thread& thread = threads[call(i).thread];
    thread.process = call(i).process;
    thread.calls.push_back(i);
  }

  for (auto& [process, wide] : process_wide) {
    std::sort(wide.begin(), wide.end(), before);
    Open open(ranges);
    for (const Index i : wide) {
      result.parent[static_cast<std::size_t>(i)] = open.innermost(range(i).start_ns);
      open.push(i);
    }
  }
  for (auto& [id, thread] : threads) {
    std::sort(thread.ranges.begin(), thread.ranges.end(), before);
    std::sort(thread.calls.begin(), thread.calls.end(),
              [&](Index a, Index b) { return call(a).start_ns < call(b).start_ns; });
    std::vector<Index> seen;
    const std::vector<Index>& wide = process_wide[thread.process];
    std::merge(thread.ranges.begin(), thread.ranges.end(), wide.begin(), wide.end(), std::back_inserter(seen), before);
    Open open(ranges);
    auto next = seen.begin();
    const auto open_until = [&](std::int64_t now) {
      for (; next != seen.end() && range(*next).start_ns <= now; ++next) {
        if (!range(*next).process_wide)
          result.parent[static_cast<std::size_t>(*next)] = open.innermost(range(*next).start_ns);
        open.push(*next);
      }
    };
    for (const Index i : thread.calls) {
      const std::int64_t now = call(i).start_ns;
      open_until(now);
      result.innermost[static_cast<std::size_t>(i)] = open.innermost(now);
      result.round[static_cast<std::size_t>(i)] = open.round(now);
    }
    open_until(std::numeric_limits<std::int64_t>::max());
  }
  return result;
}

}  // namespace tare::profiles
