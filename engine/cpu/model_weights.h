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

// The checkpoint's MTP head.
struct MtpWeights {
  AlignedBuffer<float> embedding_norm;  // 1 + w, padded
  AlignedBuffer<float> hidden_norm;
  Projection fc;      // [hidden, 2 * hidden]: the embedding's columns first
  ModelWeights body;  // its one layer and mtp.norm; embedding and head are the model's
};

// Loads, checks shapes, quantises and packs, tensor by tensor on all threads. Throws Error (input) naming the tensor.
[[nodiscard]] ModelWeights load_model_weights(const Checkpoint& checkpoint, const EngineOptions& options,
                                              ThreadPool& pool);
// Of a checkpoint whose config has one MTP layer.
[[nodiscard]] MtpWeights load_mtp_weights(const Checkpoint& checkpoint, const EngineOptions& options, ThreadPool& pool);

// One tensor each, for drafters. A gain becomes `centre` + w, padded with zeros.
[[nodiscard]] Projection load_projection(const TensorSource& source, const std::string& name, std::int64_t rows,
                                         std::int64_t columns, WeightCodec codec, ThreadPool& pool);
[[nodiscard]] AlignedBuffer<float> load_gain(const TensorSource& source, const std::string& name, std::int64_t size,
                                             float centre);

}  // namespace tare::engine
