#include "profiles/read_rate.h"

#include <fmt/format.h>

#include <chrono>

namespace tare::profiles {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kWordsPerLine = 8;                     // 64 bytes
constexpr std::size_t kBeyondCaches = std::size_t{1} << 30;  // 1 GiB: no last-level cache today holds a third of it

#if defined(__x86_64__) && defined(__GNUC__)
#define TARE_WIDEST_VECTORS __attribute__((target_clones("arch=x86-64-v4", "avx2", "default")))
#else
#define TARE_WIDEST_VECTORS
#endif

// Independent sums over eight lines at a time: enough loads in flight for any memory. The hardware's own prefetcher
// stops at pages, so lines are asked for kPrefetchWords ahead as well; without it the rate from a cache is too low to
// be a ceiling (a round of the embedded model in BF16 on one thread came out above it).
TARE_WIDEST_VECTORS std::uint64_t sum_of(const std::uint64_t* words, std::size_t count) {
  constexpr std::size_t kLanes = 64;
  constexpr std::size_t kPrefetchWords = 1024;
  std::uint64_t lanes[kLanes] = {};
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (std::size_t line = 0; line < kLanes; line += kWordsPerLine)
      __builtin_prefetch(words + i + kPrefetchWords + line);
    for (std::size_t lane = 0; lane < kLanes; ++lane) lanes[lane] += words[i + lane];
  }
  std::uint64_t sum = 0;
  for (; i < count; ++i) sum += words[i];
  for (const std::uint64_t lane : lanes) sum += lane;
  return sum;
}

}  // namespace

CpuReadRateProbe::CpuReadRateProbe(ThreadPool& pool, std::size_t bytes)
    : pool_(&pool), sums_(static_cast<std::size_t>(pool.size()) * kWordsPerLine) {
  const std::size_t lines = bytes / (kWordsPerLine * sizeof(std::uint64_t)) + 1;
  words_.resize(lines * kWordsPerLine);
  pool.parallel_for(words_.size(), kWordsPerLine, [&](int, std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) words_[i] = i * 0x9E3779B97F4A7C15U;  // a Weyl sequence
  });
}

double CpuReadRateProbe::measure(int passes) {
  const Clock::time_point start = Clock::now();
  for (int pass = 0; pass < passes; ++pass) {
    pool_->parallel_for(words_.size(), kWordsPerLine, [&](int thread, std::size_t begin, std::size_t end) {
      sums_[static_cast<std::size_t>(thread) * kWordsPerLine] += sum_of(words_.data() + begin, end - begin);
    });
  }
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  return static_cast<double>(bytes()) * passes / seconds;
}

ReadRateSource cpu_read_rate(int threads) {
  const auto pool = std::make_shared<ThreadPool>(threads);
  return {fmt::format("{} threads", threads), kBeyondCaches,
          [pool](std::size_t bytes) { return std::make_unique<CpuReadRateProbe>(*pool, bytes); }};
}

}  // namespace tare::profiles
