// The ops of a pass as a collector sees them: made once, so that their addresses and names last.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/backend/launch_record.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/cpu/model_weights.h"
#include "engine/cpu/sequence_state.h"

namespace tare::engine {

// Parts are the words of the CUDA launches: a product's is the first tensor it multiplies by. Bytes are those of the
// weights that the op reads; caches and states come on top.
struct LayerOps {
  LaunchRecord input_norm;
  LaunchRecord in;      // the products of the mixing half's input
  LaunchRecord mixing;  // GDN with its convolution and norm, or attention with its cache
  LaunchRecord out;
  LaunchRecord commit;  // records and columns of a GDN layer, or rows of a tree's path in a KV cache
  LaunchRecord post_norm;
  LaunchRecord gate_up;
  LaunchRecord down;
};

struct PassOps {
  LaunchRecord embed;
  std::vector<LayerOps> layers;
  LaunchRecord final_norm;
  LaunchRecord head;
  LaunchRecord greedy;
};

// Of one layer whose tensors' names begin with `prefix`.
[[nodiscard]] LayerOps make_layer_ops(const ModelConfig& config, const LayerWeights& weights,
                                      const std::string& prefix);
[[nodiscard]] PassOps make_pass_ops(const ModelConfig& config, const ModelWeights& weights);

// What a pass over `tokens` tokens moves besides the weights when `position` tokens are in the caches.
[[nodiscard]] std::uint64_t embedding_bytes(const ModelConfig& config, std::int64_t tokens);
[[nodiscard]] std::uint64_t mixing_bytes(const GdnLayerState& state, PassMode mode, std::int64_t position,
                                         std::int64_t tokens);
[[nodiscard]] std::uint64_t mixing_bytes(const KvCache& cache, std::int64_t position, std::int64_t tokens);

}  // namespace tare::engine
