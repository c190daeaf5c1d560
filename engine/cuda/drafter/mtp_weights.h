// The weights of a checkpoint's MTP head in device memory, in the tiles of the format of class mtp.
#pragma once

#include "engine/cuda/weights/model_weights.h"
#include "engine/cuda/weights/model_weights_plan.h"

namespace tare::engine {

struct CudaMtpWeights {
  DeviceBuffer embedding_norm, hidden_norm;  // 1 + w, FP32, as the other norms
  CudaProjection fc;                         // 2 hidden columns: embedding, then hidden state
  DeviceBuffer input_norm, post_norm, final_norm;
  CudaAttentionLayerWeights attention;
  CudaProjection gate_up, down;
};

// Which tensors lie stacked in which matrix.
class MtpPlan {
 public:
  MtpPlan(const ModelConfig& config, const EngineOptions& options)
      : config_(config), codec_(options.codec_of(TensorClass::kMtp, 0)) {}
  [[nodiscard]] StackedMatrix fc() const;
  [[nodiscard]] StackedMatrix qkv() const;
  [[nodiscard]] StackedMatrix out() const;
  [[nodiscard]] StackedMatrix gate_up() const;
  [[nodiscard]] StackedMatrix down() const;
  [[nodiscard]] std::vector<StackedMatrix> all() const;
  // Bytes that load_mtp_weights will keep, and those that it needs besides while it loads.
  [[nodiscard]] std::uint64_t weight_bytes() const;
  [[nodiscard]] std::uint64_t staging_bytes() const;

 private:
  const ModelConfig& config_;
  WeightCodec codec_;
};

// Throws Error (input) naming the tensor, Error (environment): no memory.
[[nodiscard]] CudaMtpWeights load_mtp_weights(const Checkpoint& checkpoint, const EngineOptions& options);

}  // namespace tare::engine
