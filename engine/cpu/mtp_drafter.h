// The checkpoint's own MTP head as a drafter: one full-attention layer that predicts one token further, from the
// target's hidden state and the next token, chained to the depth asked for (docs/method/speculation.md).
//
// Row i of the head pairs token x_{i+1} with H_i, the target's state after its final norm, and stands at position i of
// a KV cache of its own. Rows of absorbed tokens always come from the target's states: what drafting appended is
// written over. The last absorbed position's row needs the anchor, so it runs in draft(), together with those that
// came with the last commit.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/cpu/draft_rows.h"
#include "engine/cpu/drafter.h"
#include "engine/cpu/forward_pass.h"
#include "engine/cpu/model_weights.h"
#include "engine/cpu/pass_loops.h"
#include "engine/cpu/proposal_head.h"

namespace tare::engine {

class MtpDrafter final : public Drafter {
 public:
  MtpDrafter(const Checkpoint& checkpoint, const EngineOptions& options, const ModelWeights& target, ProposalHead head,
             const Kernels& kernels, ThreadPool& pool, std::int64_t capacity);

  std::int64_t default_tokens() const override;
  void reset() override;
  void absorb(const ForwardPass& target, std::span<const std::int32_t> tokens, std::span<const std::int32_t> rows,
              std::int64_t position) override;
  DraftOutput draft(const DraftRequest& request, std::int64_t frontier) override;
  // Row i needs the token after position i: those of positions first..last - 1 are rows first - 1 .. last - 2, and the
  // last one waits, as a hidden state.
  void export_rows(std::int64_t first, std::int64_t last, ByteWriter& bytes) override;
  void import_rows(std::int64_t first, std::int64_t last, ByteReader& bytes) override;
  void export_end(ByteWriter& bytes) override;
  void import_end(std::int64_t frontier, ByteReader& bytes) override;
  void set_collector(Collector* collector) override;
  void account(InventoryAccount& account, std::int64_t context, std::int64_t width, std::int64_t tokens) const override;
  std::uint64_t cache_bytes(const EngineOptions::KeyValue& formats, std::int64_t capacity) const override;
  Json description() const override;

 private:
  struct Ops {
    LaunchRecord embed, input_norms, fc, head, candidates;
  };

  ModelConfig config_;  // of a model whose only layer is the head's
  const ModelWeights& target_;
  ProposalHead head_;
  const Kernels& kernels_;
  PassLoops loops_;
  MtpWeights weights_;
  PassOps layer_ops_;
  Ops ops_;
  std::vector<LayerState> layers_;
  ForwardPass pass_;
  Collector* collector_ = nullptr;

  // Rows that are not in the cache for good: row i's token and hidden state, i from the first of them on. The last
  // one's token is the anchor, which only draft knows.
  std::int64_t kept_rows_ = 0;
  std::int64_t pending_ = 0;
  std::vector<std::int32_t> next_tokens_;
  // What the last pending row was last run with; when that token is absorbed, the row need not run again.
  std::optional<std::int32_t> drafted_anchor_;
  RowBuffer pending_hidden_;

  RowBuffer embedded_;
  InputRows joined_;   // [embedding; hidden], each normed
  RowBuffer stream_;   // what enters the layer
  RowBuffer chained_;  // the head's own output, which stands for the hidden state when chained
  RowBuffer padded_logits_;
  AlignedBuffer<float> logits_;
  DraftRows rows_;

  // Runs rows with these tokens and hidden states at `position` onwards.
  void run(std::span<const std::int32_t> tokens, const RowBuffer& hidden, std::int64_t position);
  // Takes the first `count` pending rows, which have run, as part of the past.
  void keep(std::int64_t count);
  void flush();
  void run_all_but_last();
  void fill_row(std::int64_t row, std::int64_t pass_row, const DraftRequest& request, std::int64_t frontier);
};

}  // namespace tare::engine
