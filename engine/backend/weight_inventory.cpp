#include "engine/backend/weight_inventory.h"

#include <numeric>

namespace tare::engine {

std::uint64_t WeightInventory::bytes_per_round() const {
  return std::accumulate(entries.begin(), entries.end(), std::uint64_t{0},
                         [](std::uint64_t sum, const InventoryEntry& entry) { return sum + entry.bytes_per_round; });
}

std::uint64_t WeightInventory::resident_bytes() const {
  return std::accumulate(entries.begin(), entries.end(), std::uint64_t{0},
                         [](std::uint64_t sum, const InventoryEntry& entry) { return sum + entry.resident_bytes; });
}

std::uint64_t WeightInventory::bytes_per_round(AccessPattern pattern) const {
  std::uint64_t sum = 0;
  for (const InventoryEntry& entry : entries)
    if (entry.pattern == pattern) sum += entry.bytes_per_round;
  return sum;
}

std::vector<MemoryPart> WeightInventory::resident_parts() const {
  std::vector<MemoryPart> parts = {{kWeightsPart, 0}, {kStatePart, 0}, {kKeyValuePart, 0}};
  for (const InventoryEntry& entry : entries) {
    const bool state = entry.pattern == AccessPattern::kState;
    parts[state ? 1 : entry.pattern == AccessPattern::kCache ? 2 : 0].bytes += entry.resident_bytes;
  }
  return parts;
}

std::vector<UnreadTensor> unread_tensors(const Checkpoint& checkpoint) {
  std::vector<UnreadTensor> unread;
  for (const std::string& name : checkpoint.names()) {
    if (!name.starts_with("mtp.")) continue;
    std::uint64_t elements = 1;
    for (const std::int64_t extent : checkpoint.shape(name)) elements *= static_cast<std::uint64_t>(extent);
    unread.push_back({name, elements});
  }
  return unread;
}

void InventoryAccount::stream(const std::string& name, const std::string& format, std::uint64_t bytes,
                              std::uint64_t elements) {
  inventory_.entries.push_back({name, format, AccessPattern::kStream, bytes, bytes, elements});
}

void InventoryAccount::vector(const std::string& name, std::uint64_t elements) {
  stream(name, "fp32", elements * sizeof(float), elements);
}

void InventoryAccount::gather(const std::string& name, std::int64_t rows, std::int64_t columns) {
  inventory_.entries.push_back({name, "bf16", AccessPattern::kGather, element_count(rows, columns) * 2,
                                element_count(width_, columns) * 2, element_count(rows, columns)});
}

void InventoryAccount::unread(const std::vector<UnreadTensor>& tensors) {
  for (const UnreadTensor& tensor : tensors)
    add({tensor.name, "not loaded", AccessPattern::kStream, 0, 0, tensor.elements});
}

}  // namespace tare::engine
