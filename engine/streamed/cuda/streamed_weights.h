// The weights of one layer, or the head, in FP32 on the device.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/synthetic.h"
#include "engine/cuda/device/device_buffer.h"

namespace tare::engine {

// Where a layer's tensors lie; the names follow the tensors' (docs/method/model.md).
struct CudaGdnWeights {
  float *qkv = nullptr, *z = nullptr, *b = nullptr, *a = nullptr, *out = nullptr;
  float *convolution = nullptr, *a_log = nullptr, *dt_bias = nullptr, *norm = nullptr;
};
struct CudaAttentionWeights {
  float *query = nullptr, *key = nullptr, *value = nullptr, *out = nullptr;
  float *query_gain = nullptr, *key_gain = nullptr;  // 1 + w
};
struct CudaLayerWeights {
  LayerKind kind = LayerKind::kFullAttention;
  float *input_gain = nullptr, *mlp_gain = nullptr;  // 1 + w
  CudaGdnWeights gdn;
  CudaAttentionWeights attention;
  float *gate = nullptr, *up = nullptr, *down = nullptr;
};
struct CudaHeadWeights {
  float* final_gain = nullptr;  // 1 + w
  float* head = nullptr;        // [vocabulary, hidden]
};

// One arena, filled anew for every layer.
class StreamedWeights {
 public:
  // Throws Error (environment) when the device has no room.
  explicit StreamedWeights(const Checkpoint& checkpoint);

  // Throw Error (input) naming the tensor: missing, misshapen, a number that is not finite.
  [[nodiscard]] CudaLayerWeights load_layer(std::int64_t layer, cudaStream_t stream);
  [[nodiscard]] CudaHeadWeights load_head(cudaStream_t stream);
  // The embedding, [vocabulary, hidden].
  [[nodiscard]] const float* load_embedding(cudaStream_t stream);

  // Bytes of the arena and of the place where tensors are staged in BF16.
  [[nodiscard]] static std::uint64_t arena_bytes(const ModelConfig& config);
  [[nodiscard]] static std::uint64_t staging_bytes(const ModelConfig& config);

 private:
  const Checkpoint& checkpoint_;
  const SyntheticRecipes* synthetic_;  // null: not synthetic
  const ModelConfig& config_;
  DeviceBuffer arena_;
  DeviceBuffer staging_;
  DeviceBuffer fault_;
  std::uint64_t used_ = 0;

  [[nodiscard]] float* reserve(std::int64_t numbers);
  [[nodiscard]] float* matrix(const std::string& name, std::int64_t rows, std::int64_t columns, cudaStream_t stream);
  [[nodiscard]] float* vector(const std::string& name, const std::vector<std::int64_t>& shape, bool centred,
                              cudaStream_t stream);
  void widen_rows(const Tensor& tensor, std::int64_t columns, float* target, cudaStream_t stream);
  void make_rows(const std::string& name, std::int64_t rows, std::int64_t columns, float* target, cudaStream_t stream);
  void check_fault(const std::string& name, std::int64_t first_element, cudaStream_t stream);
};

}  // namespace tare::engine
