// The floor under a decode round and how near the engine comes to it.
//
// floor = bytes the round reads (WeightInventory) / read rate; share = floor / measured round time, ratio its inverse.
// The rate is that of a plain read over a working set as large as the round's bytes (at most what lies beyond every
// cache), so a model that sits in the cache is held against the cache and a large one against memory. Rate and rounds
// are measured alternately, since both move on a shared machine.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/backend/backend.h"
#include "profiles/format_savings.h"
#include "profiles/read_rate.h"

namespace tare::profiles {

struct CeilingSettings {
  std::int64_t context = 64;  // tokens in the caches before the measured rounds
  double seconds = 1.0;       // of each of the two, a repetition
  int repetitions = 5;        // at least 1
  std::int64_t width = 1;     // tokens that a round verifies and commits
};

struct CeilingRepetition {
  double read_bytes_per_s = 0;
  double round_s = 0;  // mean of the repetition's rounds
  double context = 0;  // mean of tokens in the caches
};

struct Ceiling {
  engine::WeightInventory inventory;  // of a round at the mean context of the measured ones
  std::uint64_t bytes_per_round = 0;
  std::int64_t context = 0;  // that mean
  std::int64_t width = 1;
  std::string reader;             // of the read rate: "2 threads"
  std::size_t memory_bytes = 0;   // working set of the next
  double memory_bytes_per_s = 0;  // best plain read over a working set far beyond any cache
  std::vector<CeilingRepetition> repetitions;
  // Medians over the repetitions:
  double read_bytes_per_s = 0;  // over a working set of bytes_per_round
  double round_s = 0;
  double floor_s = 0;
  double share = 0;  // median of the repetitions' own shares
  std::vector<FormatSaving> savings;
};

// The backend is reset and fed tokens of a fixed pseudo-random sequence. Throws Error (input) when the context does not
// fit, Error (invalid) when the share is above 1: then bytes are counted that are not read, or the rate is wrong.
[[nodiscard]] Ceiling measure_ceiling(engine::Backend& backend, const ReadRateSource& source,
                                      const CeilingSettings& settings);

}  // namespace tare::profiles
