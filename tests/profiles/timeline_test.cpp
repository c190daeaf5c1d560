#include "profiles/timeline/timeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "base/philox.h"

namespace tare::profiles {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

KernelRecord record(std::int64_t start_ns, std::int64_t end_ns, std::int32_t name = 0) {
  return {name, 7, 1, start_ns, end_ns};
}

// Nanoseconds in which some kernel runs, counted one by one.
std::int64_t union_ns(const std::vector<KernelRecord>& records) {
  std::int64_t last = 0;
  for (const KernelRecord& kernel : records) last = std::max(last, kernel.end_ns);
  std::int64_t count = 0;
  for (std::int64_t t = 0; t < last; ++t)
    count += std::any_of(records.begin(), records.end(),
                         [t](const KernelRecord& kernel) { return kernel.start_ns <= t && t < kernel.end_ns; });
  return count;
}

TEST(Timeline, GapsAreIdle) {
  const Timeline timeline = make_timeline(std::vector{record(10, 20), record(25, 40), record(40, 41)});
  EXPECT_EQ(timeline.span_ns, 31);
  EXPECT_EQ(timeline.busy_ns, 26);
  EXPECT_EQ(timeline.idle_ns(), 5);
  EXPECT_THAT(timeline.share_ns, ElementsAre(10, 15, 1));
}

// Under programmatic launch: each starts while the one before runs. Durations sum to 46, the span is 30.
TEST(Timeline, AKernelGetsItsCompletionInterval) {
  const Timeline timeline = make_timeline(std::vector{record(0, 10), record(2, 18), record(9, 30)});
  EXPECT_EQ(timeline.span_ns, 30);
  EXPECT_EQ(timeline.idle_ns(), 0);
  EXPECT_THAT(timeline.share_ns, ElementsAre(10, 8, 12));
}

TEST(Timeline, OrderOfRecordsDoesNotMatter) {
  const Timeline timeline = make_timeline(std::vector{record(9, 30), record(0, 10), record(2, 18)});
  EXPECT_THAT(timeline.share_ns, ElementsAre(12, 10, 8));
}

// Several streams: a long kernel under two short ones, with a gap in front of all.
TEST(Timeline, SharesAddUpToTheBusyTimeWhateverOverlaps) {
  const std::vector<KernelRecord> records = {record(0, 1), record(5, 6), record(2, 7)};
  const Timeline timeline = make_timeline(records);
  EXPECT_EQ(timeline.busy_ns, union_ns(records));
  EXPECT_THAT(timeline.share_ns, ElementsAre(1, 4, 1));
  const Philox numbers(17);
  for (std::uint64_t trial = 0; trial < 300; ++trial) {
    std::vector<KernelRecord> made;
    for (std::uint64_t i = 0; i < 1 + trial % 9; ++i) {
      const auto start = static_cast<std::int64_t>(numbers.uniform_at(trial * 100 + 2 * i) * 60);
      const auto length = static_cast<std::int64_t>(numbers.uniform_at(trial * 100 + 2 * i + 1) * 20);
      made.push_back(record(start, start + length));
    }
    const Timeline timed = make_timeline(made);
    ASSERT_EQ(timed.busy_ns, union_ns(made)) << trial;
    ASSERT_EQ(std::accumulate(timed.share_ns.begin(), timed.share_ns.end(), std::int64_t{0}), timed.busy_ns);
    ASSERT_TRUE(std::all_of(timed.share_ns.begin(), timed.share_ns.end(), [](std::int64_t ns) { return ns >= 0; }));
  }
}

KernelRecords six() {
  KernelRecords records;
  records.names = {"a", "b"};
  records.records = {record(30, 35, 1), record(0, 4, 0),   record(20, 24, 0),
                     record(41, 44, 0), record(10, 14, 1), record(43, 49, 1)};
  return records;
}

TEST(SplitRounds, CutsByStartTime) {
  const auto rounds = split_rounds(six(), 3);
  ASSERT_EQ(rounds.size(), 3U);
  for (const std::vector<KernelRecord>& round : rounds) {
    ASSERT_EQ(round.size(), 2U);
    EXPECT_EQ(round[0].name, 0);
    EXPECT_EQ(round[1].name, 1);
  }
  EXPECT_EQ(rounds[1][0].start_ns, 20);
}

std::string fault(const KernelRecords& records, std::int64_t rounds) {
  try {
    (void)split_rounds(records, rounds);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalid);
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return {};
}

TEST(SplitRounds, RefusesWhatWouldNotAddUp) {
  EXPECT_THAT(fault(six(), 4), HasSubstr("6 kernels do not divide into 4 rounds"));
  EXPECT_THAT(fault({}, 4), HasSubstr("no kernel was recorded"));
  KernelRecords records = six();
  records.dropped = 2;
  EXPECT_THAT(fault(records, 3), HasSubstr("2 kernel records were dropped and 0 have no valid times, of 8"));
  records.dropped = 0;
  records.invalid = 1;
  EXPECT_THAT(fault(records, 3), HasSubstr("1 have no valid times"));
}

}  // namespace
}  // namespace tare::profiles
