// The exact head on the CPU (engine/streamed/head_product.h).
#pragma once

#include <cstdint>
#include <span>

#include "engine/checkpoint/checkpoint.h"
#include "engine/streamed/head_product.h"

namespace tare::forced {

class ExactHead final : public engine::HeadProduct {
 public:
  // Reads lm_head.weight, or embed_tokens.weight where the model ties them. Throws Error (input) when it is not BF16:
  // then the checkpoint is not the one whose head is exact.
  explicit ExactHead(const engine::Checkpoint& checkpoint);

  // Products and sums in double precision, rounded once to FP32. Runs on the pool's threads.
  void apply(ThreadPool& pool, std::span<const float> hidden, std::span<float> logits) const override;

  [[nodiscard]] std::int64_t vocab_size() const override { return vocab_size_; }
  [[nodiscard]] std::int64_t hidden_size() const override { return hidden_size_; }

 private:
  engine::Tensor weight_;
  std::int64_t vocab_size_ = 0;
  std::int64_t hidden_size_ = 0;
};

}  // namespace tare::forced
