// The byte account of the CUDA backend: what a round of `width` tokens reads and writes, tensor by tensor.
#pragma once

#include "engine/backend/weight_inventory.h"
#include "engine/cuda/cuda_forward.h"

namespace tare::engine {

// Tiles count with their padding, since that is what the kernels read. Unread tensors have zero bytes. Activations and
// partial sums are not counted: they stay in L2.
[[nodiscard]] WeightInventory make_cuda_inventory(const ModelConfig& config, const CudaModelWeights& weights,
                                                  const std::vector<CudaForward::Layer>& layers,
                                                  const std::vector<UnreadTensor>& unread, std::int64_t context,
                                                  std::int64_t width);

}  // namespace tare::engine
