// The head of a verify in two levels (docs/method/heads.md): a screen, a copy of the head in 3 or 4 bits, gives every
// token a rough logit; of a row, the few with the largest are scored with the head itself, and the largest of those
// exact logits is the choice. Wrong only when the head's own winner is not among the few: a miss.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/backend/collector.h"
#include "engine/backend/weight_inventory.h"
#include "engine/cpu/largest_logits.h"
#include "engine/cpu/model_weights.h"
#include "engine/cpu/pass_loops.h"

namespace tare::engine {

class ScreenedHead {
 public:
  // options.head.screen is not none. `head` is the model's, packed; it, kernels and pool outlive this.
  ScreenedHead(const Checkpoint& checkpoint, const EngineOptions& options, const Projection& head,
               const Kernels& kernels, ThreadPool& pool);

  // The choice of every row of `input` (as the head reads them) into best. A candidate's exact logit has the bits that
  // the head gives it among all. Ties to the lowest token, among candidates and for a place among them. Returns the
  // first row with a logit that is not finite, or -1.
  std::int64_t choose(const ActivationRows& input, std::span<std::int32_t> best);

  // Of the last choose: [rows, vocab_size], and the candidates of every row.
  [[nodiscard]] std::span<const float> screen_logits() const { return screen_logits_; }
  [[nodiscard]] std::span<const std::int32_t> candidates() const { return candidates_; }
  // As many as asked for, or the vocabulary.
  [[nodiscard]] std::int64_t candidates_a_row() const { return candidates_a_row_; }

  [[nodiscard]] const PackedMatrix& screen() const { return screen_.matrix; }
  void set_collector(Collector* collector) { collector_ = collector; }
  // The screen and the candidates' rows, of a verify of `width` tokens.
  void account(InventoryAccount& account, std::int64_t width) const;

 private:
  struct ThreadSpace {
    std::vector<Candidate> most;
    PackedMatrix rows;  // the candidates' rows of the head
    std::vector<float> logits;
  };

  const Projection& head_;
  const Kernels& kernels_;
  ThreadPool& pool_;
  PassLoops loops_;
  Projection screen_;
  // The head's rows once more, each by itself: in the panels of the packed head 16 rows share every cache line, so that
  // reading a few rows would move half the panel of each.
  std::int64_t row_bytes_;
  AlignedBuffer<std::byte> rows_;
  std::int64_t candidates_a_row_;
  LaunchRecord screen_op_, select_op_, rescore_op_;
  Collector* collector_ = nullptr;
  RowBuffer padded_;
  AlignedBuffer<float> screen_logits_buffer_;
  std::span<const float> screen_logits_;
  std::vector<std::int32_t> candidates_;
  std::vector<ThreadSpace> spaces_;

  [[nodiscard]] std::span<const std::byte> row(std::int32_t token) const {
    return {rows_.data() + token * row_bytes_, static_cast<std::size_t>(row_bytes_)};
  }
  // Of one row. Returns the choice, or -1 when a logit is not finite.
  std::int32_t rescore(const ActivationRows& input, std::span<const std::int32_t> candidates, ThreadSpace& space) const;
};

}  // namespace tare::engine
