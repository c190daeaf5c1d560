// What a backend keeps in memory, by part.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace tare::engine {

struct MemoryPart {
  std::string name;
  std::uint64_t bytes = 0;
};

// The parts that an inventory knows tensor by tensor; other names are a backend's own.
inline constexpr const char* kWeightsPart = "weights";
inline constexpr const char* kKeyValuePart = "key-value cache";
inline constexpr const char* kStatePart = "recurrent state";

// The one of them that a plan's part is counted in; empty: its tensors are in no inventory (work space, graphs).
[[nodiscard]] inline std::string_view inventory_part(std::string_view name) {
  constexpr std::pair<std::string_view, std::string_view> kParts[] = {{kWeightsPart, kWeightsPart},
                                                                      {"embedding", kWeightsPart},
                                                                      {"attention", kWeightsPart},
                                                                      {"gdn", kWeightsPart},
                                                                      {"mlp", kWeightsPart},
                                                                      {"head", kWeightsPart},
                                                                      {"drafter", kWeightsPart},
                                                                      {kStatePart, kStatePart},
                                                                      {"snapshots of a verify", kStatePart},
                                                                      {kKeyValuePart, kKeyValuePart},
                                                                      {"drafter's key-value cache", kKeyValuePart}};
  for (const auto& [part, inventory] : kParts)
    if (name == part) return inventory;
  return {};
}

// Of the memory that a backend's tensors lie in.
struct DeviceMemory {
  std::uint64_t total_bytes = 0;  // 0: they lie in the host's
  std::uint64_t free_before = 0;  // when the backend was about to be made
  std::uint64_t free_now = 0;
};

}  // namespace tare::engine
