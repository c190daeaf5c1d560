// What a decode round reads, tensor by tensor: the byte account that floors and ceilings are computed from.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "engine/backend/memory_part.h"
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
  // What it keeps in memory: kWeightsPart, kStatePart, kKeyValuePart.
  [[nodiscard]] std::vector<MemoryPart> resident_parts() const;
};

// A tensor of the checkpoint that no backend loads: those of the MTP head.
struct UnreadTensor {
  std::string name;
  std::uint64_t elements = 0;
};
[[nodiscard]] std::vector<UnreadTensor> unread_tensors(const Checkpoint& checkpoint);

// Fills an inventory for rounds of `width` tokens.
class InventoryAccount {
 public:
  explicit InventoryAccount(std::int64_t width) : width_(width) {}

  // Read once a round from front to back.
  void stream(const std::string& name, const std::string& format, std::uint64_t bytes, std::uint64_t elements);
  // An FP32 vector: read once a token, from a cache near the core; counted once.
  void vector(const std::string& name, std::uint64_t elements);
  // BF16 rows [rows, columns] of which a token reads one.
  void gather(const std::string& name, std::int64_t rows, std::int64_t columns);
  void add(InventoryEntry entry) { inventory_.entries.push_back(std::move(entry)); }
  void unread(const std::vector<UnreadTensor>& tensors);
  [[nodiscard]] WeightInventory take() { return std::move(inventory_); }

 private:
  std::int64_t width_;
  WeightInventory inventory_;
};

// A product of two sizes as a count.
[[nodiscard]] constexpr std::uint64_t element_count(std::int64_t a, std::int64_t b) {
  return static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b);
}

}  // namespace tare::engine
