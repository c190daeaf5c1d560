// All weights of the text model, packed for the CPU kernels.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "engine/backend/options.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/cpu/packed_matrix.h"

namespace tare::engine {

// A projection, or several of one input stacked, with the names and rows they came from.
struct Projection {
  PackedMatrix matrix;
  std::vector<std::string> names;
};

struct GdnWeights {
  Projection qkv;                    // [conv_channels, hidden]
  Projection z;                      // [value channels, hidden]
  Projection beta_and_decay;         // in_proj_b over in_proj_a, [2 * value heads, hidden], BF16
  Projection out;                    // [hidden, value channels]
  AlignedBuffer<float> convolution;  // [taps][conv stride]: transposed, so that lanes are channels
  std::int64_t convolution_stride = 0;
  std::vector<float> decay_rate;  // exp(A_log), a value head each
  std::vector<float> dt_bias;
  AlignedBuffer<float> norm;  // plain gain of the gated norm, padded
};

struct AttentionWeights {
  Projection q;  // rows: head 0 query, head 0 gate, head 1 query, ...
  Projection k;
  Projection v;
  Projection out;
  AlignedBuffer<float> q_norm;  // 1 + w, padded
  AlignedBuffer<float> k_norm;
};

struct LayerWeights {
  AlignedBuffer<float> input_norm;  // 1 + w, padded
  AlignedBuffer<float> post_norm;
  std::optional<GdnWeights> gdn;
  std::optional<AttentionWeights> attention;
  Projection gate;
  Projection up;
  Projection down;
};

struct ModelWeights {
  AlignedBuffer<std::uint16_t> embedding;  // [vocab, hidden], BF16
  std::vector<LayerWeights> layers;
  AlignedBuffer<float> final_norm;
  Projection head;
};

// Loads, checks shapes, quantises and packs, tensor by tensor on all threads. Throws Error (input) naming the tensor.
[[nodiscard]] ModelWeights load_model_weights(const Checkpoint& checkpoint, const EngineOptions& options,
                                              ThreadPool& pool);

}  // namespace tare::engine
