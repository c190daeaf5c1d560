#include "base/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <vector>

#include "base/error.h"

namespace tare {
namespace {

TEST(ThreadPool, VisitsEveryItemExactlyOnce) {
  for (const int threads : {1, 2, 3, 7}) {
    ThreadPool pool(threads);
    for (const std::size_t count : {0, 1, 2, 5, 64, 1001}) {
      for (const std::size_t grain : {1, 4, 64}) {
        std::vector<std::atomic<int>> visits(count);
        pool.parallel_for(count, grain, [&](int, std::size_t begin, std::size_t end) {
          for (std::size_t i = begin; i < end; ++i) ++visits[i];
        });
        for (const auto& visit : visits) EXPECT_EQ(visit.load(), 1);
      }
    }
  }
}

TEST(ThreadPool, SharesBeginAtMultiplesOfTheGrain) {
  ThreadPool pool(3);
  std::atomic<int> odd{0};
  pool.parallel_for(100, 16, [&](int, std::size_t begin, std::size_t) { odd += begin % 16 == 0 ? 0 : 1; });
  EXPECT_EQ(odd.load(), 0);
}

TEST(ThreadPool, OneThreadIsInvolvedInOnePieceAtATime) {
  ThreadPool pool(3);
  std::vector<std::atomic<int>> inside(3);
  std::atomic<int> overlaps{0};
  for (int loop = 0; loop < 200; ++loop)
    pool.parallel_for(50, 1, [&](int thread, std::size_t, std::size_t) {
      std::atomic<int>& mine = inside[static_cast<std::size_t>(thread)];
      overlaps += mine.fetch_add(1) == 0 ? 0 : 1;
      mine.fetch_sub(1);
    });
  EXPECT_EQ(overlaps.load(), 0);
}

TEST(ThreadPool, AThreadThatIsHeldUpDoesNotHoldUpPiecesItHasNotBegun) {
  ThreadPool pool(2);
  std::atomic<bool> release{false};
  std::atomic<std::size_t> done{0};
  // The piece of item 0 waits until all others are done: only another thread can have done those of its share.
  pool.parallel_for(16, 1, [&](int, std::size_t begin, std::size_t end) {
    if (begin == 0) {
      while (done.load() + (end - begin) < 16) std::this_thread::yield();
      release = true;
    }
    done += end - begin;
  });
  EXPECT_TRUE(release.load());
  EXPECT_EQ(done.load(), 16U);
}

TEST(ThreadPool, RunsManyLoopsAndWakesAfterSleep) {
  ThreadPool pool(2);
  std::atomic<std::size_t> sum{0};
  const auto add = [&](int, std::size_t begin, std::size_t end) { sum += end - begin; };
  for (int i = 0; i < 2000; ++i) pool.parallel_for(10, 1, add);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // long enough for the workers to sleep
  for (int i = 0; i < 10; ++i) pool.parallel_for(10, 1, add);
  EXPECT_EQ(sum.load(), 20'100U);
}

TEST(ThreadPool, RethrowsFromAnyThreadAndStaysUsable) {
  ThreadPool pool(2);
  for (std::size_t thrower = 0; thrower < 2; ++thrower) {
    EXPECT_THROW(pool.parallel_for(2, 1,
                                   [&](int, std::size_t begin, std::size_t) {
                                     if (begin == thrower) throw std::runtime_error("item");
                                   }),
                 std::runtime_error);
  }
  std::atomic<int> runs{0};
  pool.parallel_for(2, 1, [&](int, std::size_t, std::size_t) { ++runs; });
  EXPECT_EQ(runs.load(), 2);
}

TEST(ThreadPool, RefusesFewerThanOneThread) {
  EXPECT_THROW(ThreadPool{0}, Error);
}

}  // namespace
}  // namespace tare
