// The head as the checkpoint holds it, applied to hidden states that a configuration made: what its layers, caches and
// states cost, apart from what its own head costs.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/thread_pool.h"
#include "engine/checkpoint/checkpoint.h"

namespace tare::forced {

class ExactHead {
 public:
  // Reads lm_head.weight, or embed_tokens.weight where the model ties them. Throws Error (input) when it is not BF16:
  // then the checkpoint is not the one whose head is exact.
  explicit ExactHead(const engine::Checkpoint& checkpoint);

  // logits [rows, vocab_size] of hidden states [rows, hidden_size] after the final norm: products and sums in double
  // precision, rounded once to FP32. Runs on the pool's threads.
  void apply(ThreadPool& pool, std::span<const float> hidden, std::span<float> logits) const;

  [[nodiscard]] std::int64_t vocab_size() const { return vocab_size_; }
  [[nodiscard]] std::int64_t hidden_size() const { return hidden_size_; }

 private:
  engine::Tensor weight_;
  std::int64_t vocab_size_ = 0;
  std::int64_t hidden_size_ = 0;
};

}  // namespace tare::forced
