#include "profiles/nsys/range_sweep.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tuple>

#include "base/philox.h"

namespace tare::profiles {
namespace {

using testing::ElementsAre;

bool holds(const HostRange& range, std::uint64_t process, std::uint64_t thread, std::int64_t now) {
  const bool seen = range.process_wide ? range.process == process : range.thread == thread;
  return seen && range.start_ns <= now && now < range.end_ns;
}

// The rule of the header, by looking at every range for every call.
std::int32_t innermost_by_search(const std::vector<HostRange>& ranges, const HostCall& call) {
  std::int32_t best = kNoRange;
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    if (!holds(ranges[i], call.process, call.thread, call.start_ns)) continue;
    const auto later = [&](std::size_t a, std::size_t b) {
      return std::tuple(ranges[a].start_ns, -ranges[a].end_ns, a) >
             std::tuple(ranges[b].start_ns, -ranges[b].end_ns, b);
    };
    if (best == kNoRange || later(i, static_cast<std::size_t>(best))) best = static_cast<std::int32_t>(i);
  }
  return best;
}

TEST(RangeSweep, FindsTheInnermostRangeAndTheRound) {
  // round [0, 100) > verify [10, 60) > layer [20, 30); round [100, 150).
  const std::vector<HostRange> ranges = {{1, 1, 20, 30, 0, false, false},
                                         {1, 1, 0, 100, 1, false, true},
                                         {1, 1, 10, 60, 2, false, false},
                                         {1, 1, 100, 150, 1, false, true}};
  const std::vector<HostCall> calls = {{1, 1, 100}, {1, 1, 25}, {1, 1, 30}, {1, 1, 5}, {1, 2, 25}, {1, 1, 200}};
  const RangeSweep sweep = sweep_ranges(ranges, calls);
  EXPECT_THAT(sweep.innermost, ElementsAre(3, 0, 2, 1, kNoRange, kNoRange));
  EXPECT_THAT(sweep.round, ElementsAre(3, 1, 1, 1, kNoRange, kNoRange));
  EXPECT_THAT(sweep.parent, ElementsAre(2, kNoRange, 1, kNoRange));
}

TEST(RangeSweep, TakesTheOuterOfTwoRounds) {
  const std::vector<HostRange> ranges = {{1, 1, 0, 100, 0, false, true}, {1, 1, 10, 60, 0, false, true}};
  const RangeSweep sweep = sweep_ranges(ranges, std::vector<HostCall>{{1, 1, 20}, {1, 1, 70}});
  EXPECT_THAT(sweep.innermost, ElementsAre(1, 0));
  EXPECT_THAT(sweep.round, ElementsAre(0, 0));
}

TEST(RangeSweep, OfNothingIsNothing) {
  EXPECT_TRUE(sweep_ranges({}, {}).innermost.empty());
  EXPECT_THAT(sweep_ranges({}, std::vector<HostCall>{{1, 1, 5}}).innermost, ElementsAre(kNoRange));
}

// Threads of two processes, ranges of both kinds, many equal times, overlaps that do not nest.
TEST(RangeSweep, AgreesWithLookingAtEveryRange) {
  std::size_t found = 0;
  for (std::uint64_t trial = 0; trial < 200; ++trial) {
    Philox numbers(trial + 1);
    const auto below = [&](std::uint64_t limit) { return static_cast<std::int64_t>(numbers.below(limit)); };
    std::vector<HostRange> ranges;
    for (int i = 0; i < 30; ++i) {
      const auto thread = static_cast<std::uint64_t>(below(4));
      const std::int64_t start = below(40);
      ranges.push_back({thread / 2, thread, start, start + below(20), 0, below(3) == 0, false});
    }
    std::vector<HostCall> calls;
    for (int i = 0; i < 40; ++i) {
      const auto thread = static_cast<std::uint64_t>(below(4));
      calls.push_back({thread / 2, thread, below(60)});
    }
    const RangeSweep sweep = sweep_ranges(ranges, calls);
    for (std::size_t i = 0; i < calls.size(); ++i) {
      ASSERT_EQ(sweep.innermost[i], innermost_by_search(ranges, calls[i])) << "trial " << trial << " call " << i;
      found += sweep.innermost[i] != kNoRange ? 1 : 0;
    }
  }
  EXPECT_GT(found, 1000U);
}

}  // namespace
}  // namespace tare::profiles
