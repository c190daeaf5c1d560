// The weights of a block drafter in device memory, in the tiles of the formats that the options choose for tensors
// of class drafter: fc is of layer 0.
#pragma once

#include <vector>

#include "engine/backend/options.h"
#include "engine/cuda/weights/model_weights.h"
#include "engine/speculate/block_drafter_checkpoint.h"

namespace tare::engine {

struct CudaDrafterLayerWeights {
  DeviceBuffer input_norm, post_norm;  // plain gains, FP32
  CudaProjection qkv;                  // rows: q_proj over k_proj over v_proj
  CudaProjection out;
  DeviceBuffer q_norm;     // [head_dim]
  CudaProjection gate_up;  // rows: gate_proj and up_proj in turn
  CudaProjection down;
};

struct CudaDrafterWeights {
  CudaProjection fc;
  DeviceBuffer hidden_norm, final_norm;
  // k_proj over v_proj of layer 0, then of layer 1, ...: one product makes the context's keys and values of all layers.
  // The block's come out of each layer's qkv, so these rows lie in memory twice (3 % of the drafter).
  CudaProjection context;
  DeviceBuffer k_norms;  // [layers][head_dim]
  std::vector<CudaDrafterLayerWeights> layers;
};

// Bytes that load_drafter_weights will keep, and those that it needs besides while it loads, without loading anything.
[[nodiscard]] std::uint64_t drafter_weight_bytes(const BlockDrafterConfig& config, const EngineOptions& options);
[[nodiscard]] std::uint64_t drafter_staging_bytes(const BlockDrafterConfig& config, const EngineOptions& options);

// Throws Error (input) naming the tensor, Error (environment): no memory.
[[nodiscard]] CudaDrafterWeights load_drafter_weights(const BlockDrafterCheckpoint& checkpoint,
                                                      const EngineOptions& options);

}  // namespace tare::engine
