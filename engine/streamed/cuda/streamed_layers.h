// One layer on the GPU over a batch of windows, FP32 (docs/method/model.md; exactness: docs/method/reference.md).
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <vector>

#include "engine/backend/memory_part.h"
#include "engine/checkpoint/model_config.h"
#include "engine/cuda/device/device_buffer.h"
#include "engine/cuda/product/cublas.h"
#include "engine/streamed/cuda/streamed_weights.h"

namespace tare::engine {

class StreamedLayers {
 public:
  // Work space for at most `windows` windows of `window_tokens` tokens. Throws Error (environment): no room, no cuBLAS;
  // Error (input): a head size that the recurrence cannot hold.
  StreamedLayers(const ModelConfig& config, std::int64_t windows, std::int64_t window_tokens);

  // x [windows * window_tokens, hidden] <- the layer's output, in place.
  void run(const CudaLayerWeights& weights, std::int64_t windows, float* x, cudaStream_t stream);
  // The logits of rows [0, rows) of x; rows <= logit_rows(). Valid until the next call.
  [[nodiscard]] const float* logits(const CudaHeadWeights& weights, const float* x, std::int64_t rows,
                                    cudaStream_t stream);
  [[nodiscard]] std::int64_t logit_rows() const { return logit_rows_; }

  [[nodiscard]] static std::vector<MemoryPart> parts(const ModelConfig& config, std::int64_t windows,
                                                     std::int64_t window_tokens);

 private:
  const ModelConfig& config_;
  std::int64_t window_tokens_;
  std::int64_t logit_rows_;
  DeviceBuffer hidden_;  // [positions, hidden], normed
  DeviceBuffer first_, second_, third_;
  DeviceBuffer gates_;   // [2][positions, value heads]; or the exponentials' sums, double [windows, heads, tokens]
  DeviceBuffer scores_;  // of the query heads of a key-value head in one window; or logits
  DeviceBuffer cosines_, sines_;
  DeviceBuffer workspace_;
  Cublas cublas_;

  // c [positions, rows] (+)= b [positions, columns] times weights [rows, columns] transposed
  void multiply(const float* weights, std::int64_t rows, std::int64_t columns, const float* b, std::int64_t positions,
                float* c, bool add, cudaStream_t stream) const;
  void run_gdn(const CudaGdnWeights& weights, std::int64_t positions, float* x, cudaStream_t stream) const;
  void run_attention(const CudaAttentionWeights& weights, std::int64_t positions, float* x, cudaStream_t stream) const;
  void attend(std::int64_t window, std::int64_t windows, std::int64_t key_head, cudaStream_t stream) const;
  void run_mlp(const CudaLayerWeights& weights, std::int64_t positions, float* x, cudaStream_t stream) const;
};

}  // namespace tare::engine
