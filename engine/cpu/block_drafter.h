// A block drafter (DFlash) on the CPU: a small bidirectional transformer fills [anchor, MASK, MASK, ...] in one pass.
// It sees the past through context keys and values made of the target's hidden states at a few layers, and speaks
// through the target's embedding and head (docs/method/speculation.md).
//
// Context keys and values are made once, when their tokens are absorbed, and kept in FP32. The block's own lie behind
// them at the block's positions until the next tokens are absorbed there.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/backend/rope.h"
#include "engine/cpu/draft_rows.h"
#include "engine/cpu/drafter.h"
#include "engine/cpu/model_weights.h"
#include "engine/cpu/pass_loops.h"
#include "engine/cpu/proposal_head.h"
#include "engine/speculate/block_drafter_checkpoint.h"

namespace tare::engine {

class BlockDrafter final : public Drafter {
 public:
  BlockDrafter(const BlockDrafterCheckpoint& checkpoint, const EngineOptions& options, const ModelWeights& target,
               ProposalHead head, const Kernels& kernels, ThreadPool& pool, std::int64_t capacity);

  std::int64_t default_tokens() const override { return config_.block_size - 1; }
  LayerTaps* taps() override { return &taps_; }
  void reset() override {}  // nothing at or past the frontier is ever read
  void absorb(const ForwardPass& target, std::span<const std::int32_t> tokens, std::span<const std::int32_t> rows,
              std::int64_t position) override;
  DraftOutput draft(const DraftRequest& request, std::int64_t frontier) override;
  void export_rows(std::int64_t first, std::int64_t last, ByteWriter& bytes) override;
  void import_rows(std::int64_t first, std::int64_t last, ByteReader& bytes) override;
  void set_collector(Collector* collector) override { collector_ = collector; }
  void account(InventoryAccount& account, std::int64_t context, std::int64_t width, std::int64_t tokens) const override;
  std::uint64_t cache_bytes(const EngineOptions::KeyValue& formats, std::int64_t capacity) const override;
  Json description() const override;

  // The two halves of a draft, by themselves: what the golden files know of.
  // Makes context keys and values of the first `count` rows of taps().rows, at `position` onwards.
  void absorb_features(std::int64_t count, std::int64_t position);
  // Runs rows [count, hidden_size] that stand at `frontier` onwards; final_rows() are then what the head reads.
  void run_block(const RowBuffer& rows, std::int64_t count, std::int64_t frontier);
  [[nodiscard]] const InputRows& final_rows() const { return final_; }

 private:
  struct Layer {
    AlignedBuffer<float> input_norm, post_norm, q_norm, k_norm;  // plain gains, padded
    Projection q, k, v, out, gate, up, down;
  };
  struct LayerOps {
    LaunchRecord input_norm, in, attention, out, post_norm, gate_up, down;
  };
  struct Ops {
    LaunchRecord fc, context_norm, context_products, context_store;
    LaunchRecord embed;
    std::vector<LayerOps> layers;
    LaunchRecord final_norm, head, candidates;
  };
  struct ThreadSpace {
    AlignedBuffer<float> key;  // one head's, zero in the padding
    std::array<AlignedBuffer<float>, kMostQueries> queries, outputs, scores;
  };

  BlockDrafterConfig config_;
  std::string name_;
  const ModelWeights& target_;
  ProposalHead head_;
  const Kernels& kernels_;
  ThreadPool& pool_;
  PassLoops loops_;
  RopeTable rope_;
  Projection fc_;
  AlignedBuffer<float> hidden_norm_, norm_;
  std::vector<Layer> layers_;
  std::vector<KvCache> caches_;  // of the layers
  Ops ops_;
  Collector* collector_ = nullptr;
  std::vector<ThreadSpace> spaces_;

  LayerTaps taps_;
  RowBuffer context_;
  InputRows context_normed_;
  std::vector<RowBuffer> context_keys_, context_values_;  // of the layers

  RowBuffer block_, x_;
  InputRows normed_, mixed_, activated_, final_;
  RowBuffer query_, key_, value_, gate_, up_, increment_, padded_logits_;
  AlignedBuffer<float> logits_;
  DraftRows rows_;

  void load(const BlockDrafterCheckpoint& checkpoint, const EngineOptions& options);
  void make_ops();
  void store_row(const Layer& layer, KvCache& cache, const float* keys, const float* values, std::int64_t position,
                 ThreadSpace& space) const;
  void attend(std::size_t layer, std::int64_t count, std::int64_t frontier);
  void attend_heads(std::size_t layer, std::int64_t first_head, std::int64_t head_count, std::int64_t row,
                    std::int64_t count, std::int64_t frontier, ThreadSpace& space);
  // Bytes that the attention of a block moves besides its gains.
  [[nodiscard]] std::uint64_t attention_bytes(std::size_t layer, std::int64_t count, std::int64_t frontier) const;
};

// Positions [first, second) that row `row` of a block of `count` rows at `frontier` sees.
[[nodiscard]] std::pair<std::int64_t, std::int64_t> visible_positions(const DraftLayerMask& mask, std::int64_t row,
                                                                      std::int64_t count, std::int64_t frontier);

}  // namespace tare::engine
