// The weights of one layer on the CPU, widened to FP32 and packed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/streamed/matrix_product.h"

namespace tare::engine {

// The names follow the tensors' (docs/method/model.md).
struct StreamedGdnWeights {
  PackedMatrix qkv, z, b, a, out;
  std::vector<float> convolution;  // [channels][kernel]
  std::vector<float> a_log, dt_bias, norm;
};
struct StreamedAttentionWeights {
  PackedMatrix query, key, value, out;
  std::vector<float> query_gain, key_gain;  // 1 + w
};
struct StreamedLayerWeights {
  LayerKind kind = LayerKind::kFullAttention;
  std::vector<float> input_gain, mlp_gain;  // 1 + w
  StreamedGdnWeights gdn;                   // of a linear layer
  StreamedAttentionWeights attention;       // of a full layer
  PackedMatrix gate, up, down;
};

// Throws Error (input) naming the tensor: missing, misshapen, a number that is not finite.
[[nodiscard]] StreamedLayerWeights load_layer_weights(const Checkpoint& checkpoint, std::int64_t layer,
                                                      ThreadPool& pool);
[[nodiscard]] PackedMatrix load_matrix(const Checkpoint& checkpoint, const std::string& name,
                                       const std::vector<std::int64_t>& shape, ThreadPool& pool);
// 1 + w: these norms are stored around zero.
[[nodiscard]] std::vector<float> load_centred_gain(const Checkpoint& checkpoint, const std::string& name,
                                                   std::int64_t size);
// The tensor that the logits are made with: the embedding where they are tied.
[[nodiscard]] std::string head_tensor(const ModelConfig& config);

}  // namespace tare::engine
