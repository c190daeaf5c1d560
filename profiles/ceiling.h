// The floor under a decode round and how near the engine comes to it.
//
// floor = bytes the round reads (WeightInventory) / read rate; share = floor / measured round time. The rate is that of
// a plain read over a working set as large as the round's bytes (at most 1 GiB), so a model that sits in the cache is
// held against the cache and a large one against memory. Rate and rounds are measured alternately, since both move on a
// shared machine.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/backend/backend.h"

namespace tare::profiles {

struct CeilingSettings {
  std::int64_t context = 64;  // tokens in the caches before the measured rounds
  double seconds = 1.0;       // of each of the two, a repetition
  int repetitions = 5;        // at least 1
};

struct CeilingRepetition {
  double read_bytes_per_s = 0;
  double round_s = 0;  // mean of the repetition's rounds
};

struct Ceiling {
  engine::WeightInventory inventory;  // of a round of one token in the middle of the measured ones
  std::uint64_t bytes_per_round = 0;
  int threads = 0;
  double memory_bytes_per_s = 0;  // best plain read over a working set far beyond any cache
  std::vector<CeilingRepetition> repetitions;
  // Medians over the repetitions:
  double read_bytes_per_s = 0;  // over a working set of bytes_per_round
  double round_s = 0;
  double floor_s = 0;
  double share = 0;  // median of the repetitions' own shares
};

// The backend is reset and fed tokens of a fixed pseudo-random sequence. Throws Error (input) when the context does not
// fit, Error (invalid) when the share is above 1: then bytes are counted that are not read, or the rate is wrong.
[[nodiscard]] Ceiling measure_ceiling(engine::Backend& backend, int threads, const CeilingSettings& settings);

}  // namespace tare::profiles
