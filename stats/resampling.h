// Draws with replacement, for every bootstrap of this library. A draw is a pure function of (seed, kind, resample,
// place): results have the same bits for any number of threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "base/philox.h"

namespace tare::stats {

struct BootstrapOptions {
  int resamples = 10'000;
  std::uint64_t seed = 1;
  int threads = 1;
  double level = 0.95;
};

// Throws Error (input) for resamples < 100, level outside (0, 1), threads < 1.
void check_bootstrap_options(const BootstrapOptions& options);

// Third counter word: keeps the draws of one kind of bootstrap apart from others of the same seed.
enum class ResampleKind : std::uint32_t {
  kPrompts = 0xB0075742,
  kClusters = 0xB0075743,
  kBlocks = 0xB0075744,
  kRuns = 0xB0075745,
};

// n^n when that is no more than `limit`, else 0: few units are enumerated, not drawn.
[[nodiscard]] std::size_t exhaustive_count(std::size_t units, std::size_t limit);

// Calls body(begin, end) for pieces of [0, resamples), on `threads` threads.
void for_each_resample(std::size_t resamples, int threads, const std::function<void(std::size_t, std::size_t)>& body);

inline constexpr std::size_t kManyUnits = 4096;  // above it fewer draws are taken from one 64-bit word

// The 64-bit words of one resample: a Philox block of (kind, resample) under the seed is where the stream begins,
// SplitMix64 (Steele, Lea and Flood 2014) goes on from there. Philox alone took most of the time of a bootstrap.
class ResampleWords {
 public:
  ResampleWords(std::uint64_t seed, ResampleKind kind, std::uint32_t resample) {
    const auto words = philox4x32({0, resample, static_cast<std::uint32_t>(kind), 0},
                                  {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
    state_ = (std::uint64_t{words[1]} << 32) | words[0];
  }
  [[nodiscard]] std::uint64_t next() {
    state_ += 0x9E3779B97F4A7C15;
    std::uint64_t word = (state_ ^ (state_ >> 30)) * 0xBF58476D1CE4E5B9;
    word = (word ^ (word >> 27)) * 0x94D049BB133111EB;
    return word ^ (word >> 31);
  }

 private:
  std::uint64_t state_ = 0;
};

// Calls visit(index) `draws` times with indices in [0, units). Several indices come from one 64-bit word: multiply by
// the number of units, the high half is an index, the low half the next word (Brackett-Rozinsky and Lemire). The bias
// of an index is below units^4 / 2^64 for up to kManyUnits units.
template <typename Visit>
void draw_with_replacement(std::uint64_t seed, ResampleKind kind, std::uint32_t resample, std::size_t units,
                           std::size_t draws, Visit&& visit) {
  __extension__ using Uint128 = unsigned __int128;
  constexpr std::size_t kDrawsPerWord = 4;
  ResampleWords words(seed, kind, resample);
  std::size_t drawn = 0;
  if (units <= kManyUnits) {
    for (; drawn + kDrawsPerWord <= draws; drawn += kDrawsPerWord) {
      std::uint64_t word = words.next();
      for (std::size_t draw = 0; draw < kDrawsPerWord; ++draw) {
        const Uint128 product = Uint128{word} * units;
        visit(static_cast<std::size_t>(product >> 64));
        word = static_cast<std::uint64_t>(product);
      }
    }
  }
  for (; drawn < draws; ++drawn) visit(static_cast<std::size_t>((Uint128{words.next()} * units) >> 64));
}

// The resample of that number when all units^units of them are enumerated.
template <typename Visit>
void enumerated_resample(std::size_t number, std::size_t units, Visit&& visit) {
  for (std::size_t place = 0; place < units; ++place, number /= units) visit(number % units);
}

}  // namespace tare::stats
