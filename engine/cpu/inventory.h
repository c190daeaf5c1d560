// The byte account of the CPU backend: what a round of `width` tokens reads and writes, tensor by tensor.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/backend/weight_inventory.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/cpu/model_weights.h"
#include "engine/cpu/sequence_state.h"

namespace tare::engine {

// Packed matrices count with their padding, since that is what the kernels read. Unread tensors have zero bytes.
// reads_head: false when a round does not read the head (but for the rows that a screened head accounts for itself).
[[nodiscard]] WeightInventory make_inventory(const ModelConfig& config, const ModelWeights& weights,
                                             const std::vector<LayerState>& layers,
                                             const std::vector<UnreadTensor>& unread, std::int64_t context,
                                             std::int64_t width, bool reads_head);

// What an inventory calls the matrix's format.
[[nodiscard]] std::string stored_format(const PackedMatrix& matrix);

}  // namespace tare::engine
