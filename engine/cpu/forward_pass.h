// One pass of T tokens through the model: the order of operations, the loops over threads and the work space.
// docs/method/model.md gives the formulas; each step of a layer is one loop over threads, because a loop's hand-over
// costs as much as the arithmetic of a small model.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "base/thread_pool.h"
#include "engine/backend/backend.h"
#include "engine/backend/collector.h"
#include "engine/backend/rope.h"
#include "engine/cpu/kernels.h"
#include "engine/cpu/model_weights.h"
#include "engine/cpu/pass_loops.h"
#include "engine/cpu/pass_ops.h"
#include "engine/cpu/row_buffer.h"
#include "engine/cpu/sequence_state.h"
#include "engine/cpu/tree_walk.h"

namespace tare::engine {

// Where a pass keeps the residual stream after some layers, for a drafter that reads them.
struct LayerTaps {
  std::vector<std::int64_t> layers;
  InputRows rows;  // [T, layers * hidden_size]: a token's streams side by side, in the order of `layers`
};

struct Pass {
  std::span<const std::int32_t> tokens;  // within the vocabulary
  std::int64_t position = 0;             // of the first token; the last one's fits the caches
  PassMode mode = PassMode::kAbsorb;
  const TokenTree* tree = nullptr;  // of a verify: its tokens are those above
  // Rows of hidden states to fill, layer_count + 1 of [T, hidden_size], or empty (see PrefillCapture).
  std::vector<std::span<float>> hidden;
  LayerTaps* taps = nullptr;          // to fill, or null
  const RowBuffer* stream = nullptr;  // rows that enter the first layer; null: the tokens' embeddings
};

class ForwardPass {
 public:
  ForwardPass(const ModelConfig& config, const EngineOptions& options, const ModelWeights& weights, const PassOps& ops,
              const Kernels& kernels, ThreadPool& pool, std::int64_t capacity);

  // Told the ops of every pass; null: nobody.
  void set_collector(Collector* collector) { collector_ = collector; }
  // Runs the layers and the final norm. After it, final_hidden and logits can be asked for.
  void run(const Pass& pass, std::vector<LayerState>& layers);
  // H of the last run's tokens [begin, end), rows of hidden_size, into `out`.
  void copy_hidden(std::int64_t begin, std::int64_t end, float* out) const;
  // The same rows as the head reads them.
  [[nodiscard]] ActivationRows final_rows(std::int64_t begin, std::int64_t end) const {
    return final_.view(begin, end);
  }
  // Logits of the last run's tokens [begin, end) into out [end - begin, vocab_size].
  // Returns the first token whose logits are not finite, or -1.
  std::int64_t logits(std::int64_t begin, std::int64_t end, float* out);

 private:
  struct ThreadSpace {
    explicit ThreadSpace(const ModelConfig& config, std::int64_t capacity);
    GdnScratch gdn;
    // One head's vectors, zero in the padding: apart for the two kinds of layer, since their head sizes differ.
    AlignedBuffer<float> gdn_query, gdn_key, gdn_value, gdn_output;
    AlignedBuffer<float> key;
    std::array<AlignedBuffer<float>, kMostQueries> queries, outputs, scores, node_scores;
    std::vector<const float*> taps;
    std::vector<std::int32_t> path;
  };
  const ModelConfig& config_;
  const ModelWeights& weights_;
  const PassOps& ops_;
  const Kernels& kernels_;
  ThreadPool& pool_;
  PassLoops loops_;
  RopeTable rope_;
  bool rotates_keys_ = false;  // keys and queries alike: option kv.rotation
  std::vector<ThreadSpace> spaces_;
  Collector* collector_ = nullptr;
  std::int64_t tokens_ = 0;
  std::optional<TreeWalk> walk_;          // of a verify
  std::span<const std::int32_t> depths_;  // of a verify whose tree is no chain: its nodes lie apart from positions
  RowBuffer x_;                           // residual stream
  InputRows normed_;
  InputRows mixed_gdn_, mixed_attention_, activated_;
  RowBuffer projected_;  // GDN q, k, v before the convolution
  RowBuffer z_, beta_and_decay_, query_and_gate_, key_, value_;
  RowBuffer gate_, up_, increment_, padded_logits_;
  InputRows final_;

  void reserve(std::int64_t tokens);
  void begin_verify(const TokenTree& tree);
  [[nodiscard]] bool nodes_lie_apart() const { return !depths_.empty(); }
  // How far behind the pass's first position a token stands.
  [[nodiscard]] std::int64_t depth(std::int64_t token) const {
    return nodes_lie_apart() ? depths_[static_cast<std::size_t>(token)] : token;
  }
  void embed(std::span<const std::int32_t> tokens);
  void for_tokens(std::int64_t tokens, const std::function<void(std::int64_t)>& body);
  void norm_into(InputRows& out, const AlignedBuffer<float>& gain, const LaunchRecord& op);
  void multiply(std::span<const Product> products, const InputRows& input, const LaunchRecord& op);
  void multiply_into_residual(const PackedMatrix& matrix, const InputRows& input, const LaunchRecord& op);
  void run_gdn(const GdnWeights& weights, const LayerOps& ops, GdnLayerState& state, const Pass& pass);
  void mix_gdn(const GdnWeights& weights, GdnLayerState& state, const RowBuffer& projected, const Pass& pass);
  void run_gdn_head(const GdnWeights& weights, GdnLayerState& state, std::int64_t head, ThreadSpace& space);
  void run_attention(const AttentionWeights& weights, const LayerOps& ops, KvCache& cache, std::int64_t position);
  void mix_attention(const AttentionWeights& weights, KvCache& cache, std::int64_t position);
  void store_keys_and_values(const AttentionWeights& weights, KvCache& cache, std::int64_t position, std::int64_t token,
                             ThreadSpace& space);
  void run_attention_heads(const AttentionWeights& weights, const KvCache& cache, std::int64_t position,
                           std::int64_t first_head, std::int64_t head_count, std::int64_t token, ThreadSpace& space);
  void run_mlp(const LayerWeights& weights, const LayerOps& ops);
  void capture(const Pass& pass, std::size_t index) const;
  void keep_taps(LayerTaps& taps, std::size_t layer) const;
};

}  // namespace tare::engine
