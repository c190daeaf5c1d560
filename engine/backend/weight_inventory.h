// What a decode round reads, tensor by tensor: the byte account that floors and ceilings are computed from.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/checkpoint/checkpoint.h"

namespace tare::engine {

enum class AccessPattern {
  kStream,  // read once a round from front to back (weights)
  kGather,  // a few rows a round (embedding)
  kCache,   // grows with the context (keys and values)
  kState,   // read and written every round (recurrent state, convolution columns)
};

struct InventoryEntry {
  std::string tensor;  // canonical name, or "kv cache", "recurrent state"
  std::string format;  // "q4", "bf16", "fp32"
  AccessPattern pattern = AccessPattern::kStream;
  std::uint64_t resident_bytes = 0;
  std::uint64_t bytes_per_round = 0;  // at the context length that the inventory was asked for; reads plus writes
  std::uint64_t elements = 0;
};

struct WeightInventory {
  std::vector<InventoryEntry> entries;

  [[nodiscard]] std::uint64_t bytes_per_round() const;
  [[nodiscard]] std::uint64_t resident_bytes() const;
  [[nodiscard]] std::uint64_t bytes_per_round(AccessPattern pattern) const;
};

// A tensor of the checkpoint that no backend loads: those of the MTP head.
struct UnreadTensor {
  std::string name;
  std::uint64_t elements = 0;
};
[[nodiscard]] std::vector<UnreadTensor> unread_tensors(const Checkpoint& checkpoint);

}  // namespace tare::engine
