// What each class of tensors would buy in other formats: the floor's change when nothing but its bytes change.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/backend/option_words.h"
#include "engine/backend/weight_inventory.h"
#include "engine/formats/weight_format.h"

namespace tare::profiles {

struct FormatSaving {
  engine::TensorClass tensors = engine::TensorClass::kMlp;
  std::uint64_t elements = 0;  // streamed every round
  std::uint64_t bytes = 0;     // a round, now
  engine::WeightFormat format = engine::WeightFormat::kBF16;
  double bytes_then = 0;      // in `format`
  double floor_change_s = 0;  // (bytes_then - bytes) / read rate; negative is faster
};

// Bytes of a weight: its code, and its part of the FP16 scale that a group of 64 shares (BF16 has none).
[[nodiscard]] double bytes_per_weight(engine::WeightFormat format);

// The class whose weights an entry of an inventory streams, or none: embeddings, norms, a/b projections, caches and
// states have no choice of format.
[[nodiscard]] std::optional<engine::TensorClass> class_of(const engine::InventoryEntry& entry);

// Every class that streams anything, in every format that `backend` knows.
[[nodiscard]] std::vector<FormatSaving> format_savings(const engine::WeightInventory& inventory,
                                                       engine::BackendKind backend, double read_bytes_per_s);

}  // namespace tare::profiles
