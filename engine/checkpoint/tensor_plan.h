// Which tensors a model of a given shape has, by canonical name, with their shapes: the inventory that a checkpoint is
// checked against and that a synthetic checkpoint is made from.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/checkpoint/model_config.h"

namespace tare::engine {

// What a tensor does; it decides how a synthetic one is drawn.
enum class TensorRole {
  kEmbedding,
  kHead,
  kProjection,          // reads the residual stream or an intermediate of it
  kResidualProjection,  // writes into the residual stream: o_proj, out_proj, down_proj
  kCentredNorm,         // gain is 1 + w
  kPlainNorm,           // gain is w
  kConvolution,
  kDecayLog,   // A_log
  kDecayBias,  // dt_bias
};

struct PlannedTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  TensorRole role;
};

// In the order of the forward pass: embedding, layers, norm, head (absent with tied embeddings), MTP.
// Shapes as in sections 2.2 and 2.3 of the model specification.
[[nodiscard]] std::vector<PlannedTensor> plan_tensors(const ModelConfig& config);

}  // namespace tare::engine
