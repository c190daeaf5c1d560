// All weights of the text model in device memory, in the tiles of their formats.
//
// Checkpoint tensors go to the device as they are (or, synthetic, are made there: same bits as engine/checkpoint's),
// are encoded there (same bits as engine/formats) and packed; at no time is more than one matrix there twice.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/backend/memory_part.h"
#include "engine/backend/options.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/cuda/attention/attention.h"
#include "engine/cuda/gdn/gdn.h"
#include "engine/cuda/product/product.h"

namespace tare::engine {

struct CudaProjection {
  WeightMatrix matrix;
  DeviceBuffer memory;
  std::vector<std::string> names;  // the tensors stacked in it, in order
  [[nodiscard]] std::uint64_t bytes() const { return memory.bytes(); }
};

struct CudaGdnLayerWeights {
  CudaProjection qkvz;  // rows: in_proj_qkv over in_proj_z
  DeviceBuffer gates;   // BF16 [2 * value_heads][hidden]: in_proj_b over in_proj_a
  CudaProjection out;
  DeviceBuffer convolution, decay_rate, dt_bias, norm;
  [[nodiscard]] CudaGdnWeights view() const {
    return {convolution.as<float>(), decay_rate.as<float>(), dt_bias.as<float>(), norm.as<float>()};
  }
};

struct CudaAttentionLayerWeights {
  CudaProjection qkv;  // rows: q_proj (head by head: query, gate) over k_proj over v_proj
  CudaProjection out;
  DeviceBuffer q_norm, k_norm;  // 1 + w
  [[nodiscard]] CudaAttentionWeights view() const { return {q_norm.as<float>(), k_norm.as<float>()}; }
};

struct CudaLayerWeights {
  DeviceBuffer input_norm, post_norm;  // 1 + w, FP32
  std::optional<CudaGdnLayerWeights> gdn;
  std::optional<CudaAttentionLayerWeights> attention;
  CudaProjection gate_up;  // rows: gate_proj and up_proj in turn
  CudaProjection down;
};

struct CudaModelWeights {
  DeviceBuffer embedding;  // BF16 [vocab][hidden]
  std::vector<CudaLayerWeights> layers;
  DeviceBuffer final_norm;  // 1 + w
  CudaProjection head;
  std::optional<CudaProjection> screen;  // with head.screen: the head once more, of the checkpoint's numbers
};

// Bytes that load_cuda_weights will allocate, by part ("embedding", "attention", "gdn", "mlp", "head", "staging"),
// without loading anything.
[[nodiscard]] std::vector<MemoryPart> plan_cuda_weights(const ModelConfig& config, const EngineOptions& options);

// Throws Error (input) naming the tensor: missing, misshapen, not finite, a scale that overflows; Error (environment):
// no memory.
[[nodiscard]] CudaModelWeights load_cuda_weights(const Checkpoint& checkpoint, const EngineOptions& options);

}  // namespace tare::engine
