#include "profiles/floor_phases.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "profiles/format_savings.h"

namespace tare::profiles {
namespace {

using engine::AccessPattern;
using engine::InventoryEntry;

constexpr double kOperationsAWeight = 2;
constexpr std::array<const char*, 8> kPhases = {"embedding", "gdn",  "attention", "mlp",
                                                "norms",     "head", "mtp",       "drafter"};

std::string_view phase_of(const InventoryEntry& entry) {
  const auto contains = [&](std::string_view part) { return entry.tensor.find(part) != std::string::npos; };
  if (contains("drafter.") || contains("(draft)")) return "drafter";
  if (contains("mtp.")) return "mtp";
  if (entry.pattern == AccessPattern::kGather) return "embedding";
  if (entry.pattern == AccessPattern::kState || contains("linear_attn.")) return "gdn";
  if (entry.pattern == AccessPattern::kCache || contains("self_attn.")) return "attention";
  if (contains("mlp.")) return "mlp";
  if (contains("norm.weight")) return "norms";
  return "head";
}

}  // namespace

std::vector<FloorPhase> floor_phases(const engine::WeightInventory& inventory, double read_bytes_per_s) {
  std::vector<FloorPhase> phases;
  for (const char* name : kPhases) {
    FloorPhase phase{name, 0, 0};
    for (const InventoryEntry& entry : inventory.entries)
      if (phase_of(entry) == name) phase.bytes += entry.bytes_per_round;
    phase.seconds = static_cast<double>(phase.bytes) / read_bytes_per_s;
    if (phase.bytes > 0) phases.push_back(std::move(phase));
  }
  return phases;
}

double PrefillFloor::seconds() const {
  return std::max(read_s, compute_s.value_or(0));
}

PrefillFloor prefill_floor(const engine::Backend& backend, std::int64_t tokens, double read_bytes_per_s,
                           std::optional<double> compute_per_s) {
  PrefillFloor floor;
  floor.tokens = tokens;
  floor.chunk = std::max<std::int64_t>(1, backend.options().prefill.chunk);
  floor.chunks = (tokens + floor.chunk - 1) / floor.chunk;
  const engine::WeightInventory empty = backend.inventory(0, 1);
  const std::uint64_t a_position =
      backend.inventory(1, 1).bytes_per_round(AccessPattern::kCache) - empty.bytes_per_round(AccessPattern::kCache);
  std::uint64_t head = 0;
  std::uint64_t layers = 0;
  for (const InventoryEntry& entry : empty.entries) {
    if (phase_of(entry) == "mtp" || phase_of(entry) == "drafter" || entry.pattern == AccessPattern::kCache) continue;
    if (entry.pattern == AccessPattern::kGather) {
      head += entry.bytes_per_round * static_cast<std::uint64_t>(tokens);  // a row a token, once
    } else if (phase_of(entry) == "head") {
      head += entry.bytes_per_round;
    } else {
      layers += entry.bytes_per_round;
      if (class_of(entry))
        floor.operations += kOperationsAWeight * static_cast<double>(entry.elements) * static_cast<double>(tokens);
    }
  }
  std::uint64_t positions = static_cast<std::uint64_t>(tokens);  // written
  for (std::int64_t chunk = 1; chunk < floor.chunks; ++chunk)
    positions += static_cast<std::uint64_t>(chunk * floor.chunk);
  floor.bytes = head + static_cast<std::uint64_t>(floor.chunks) * layers + positions * a_position;
  floor.read_s = static_cast<double>(floor.bytes) / read_bytes_per_s;
  if (compute_per_s) floor.compute_s = floor.operations / *compute_per_s;
  return floor;
}

}  // namespace tare::profiles
