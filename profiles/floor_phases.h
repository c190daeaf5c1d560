// The floor by phase: what each part of a round's pass reads, and what a prefill would at least take.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/backend/backend.h"

namespace tare::profiles {

struct FloorPhase {
  std::string name;  // "embedding", "gdn", "attention", "mlp", "norms", "head", "mtp", "drafter"
  std::uint64_t bytes = 0;
  double seconds = 0;  // over the read rate
};

// In the order of a pass. Every entry of the inventory is in one of them: their bytes add up to bytes_per_round().
[[nodiscard]] std::vector<FloorPhase> floor_phases(const engine::WeightInventory& inventory, double read_bytes_per_s);

// A prefill in chunks: every chunk streams the layers' weights once, reads and writes the recurrent state, and reads
// the keys and values before it; the head is read once.
struct PrefillFloor {
  std::int64_t tokens = 0;
  std::int64_t chunk = 0;
  std::int64_t chunks = 0;
  std::uint64_t bytes = 0;
  double operations = 0;                 // 2 a weight of the layers and token
  double read_s = 0;                     // bytes over the read rate
  std::optional<double> compute_s;       // operations over the compute rate
  [[nodiscard]] double seconds() const;  // the longer one
};
[[nodiscard]] PrefillFloor prefill_floor(const engine::Backend& backend, std::int64_t tokens, double read_bytes_per_s,
                                         std::optional<double> compute_per_s);

}  // namespace tare::profiles
