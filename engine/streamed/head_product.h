// The head as the checkpoint holds it, in BF16, applied to hidden states that a configuration made: what its layers,
// caches and states cost, apart from what its own head costs.
#pragma once

#include <cstdint>
#include <span>

#include "base/thread_pool.h"

namespace tare::engine {

class HeadProduct {
 public:
  virtual ~HeadProduct() = default;
  // logits [rows, vocab_size] of hidden states [rows, hidden_size] after the final norm. May be called from several
  // threads, each with a pool of its own. Throws Error (internal) for other shapes.
  virtual void apply(ThreadPool& pool, std::span<const float> hidden, std::span<float> logits) const = 0;
  [[nodiscard]] virtual std::int64_t vocab_size() const = 0;
  [[nodiscard]] virtual std::int64_t hidden_size() const = 0;
};

}  // namespace tare::engine
