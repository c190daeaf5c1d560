// The rows of a draft: of each, the most likely candidates and their log-probabilities.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/thread_pool.h"
#include "engine/backend/backend.h"
#include "engine/cpu/kernels.h"
#include "engine/cpu/largest_logits.h"

namespace tare::engine {

class DraftRows {
 public:
  DraftRows(const Kernels& kernels, ThreadPool& pool);

  // Makes room for rows of so many candidates each; candidates at most the width of what they are chosen from.
  void begin(std::int64_t rows, std::int64_t candidates);
  // Rows first .. first + logits.size() / width - 1 from finite logits [., width]: the candidates with the largest
  // logits, ties to the lowest id, and log softmax(logits / temperature) over all of the row. Logit i is token ids[i]'s
  // (ids rise; empty: token i's).
  void fill(std::int64_t first, std::span<const float> logits, std::int64_t width, double temperature,
            std::span<const std::int32_t> ids = {});
  // The most likely token of a row that was filled.
  [[nodiscard]] std::int32_t best(std::int64_t row) const {
    return tokens_[static_cast<std::size_t>(row * candidates_)];
  }
  [[nodiscard]] DraftOutput output() const { return {rows_, candidates_, tokens_, log_probabilities_}; }

 private:
  struct ThreadSpace {
    std::vector<float> weights;  // [width]
    std::vector<Candidate> most;
  };

  const Kernels& kernels_;
  ThreadPool& pool_;
  std::vector<ThreadSpace> spaces_;
  std::int64_t rows_ = 0;
  std::int64_t candidates_ = 0;
  std::vector<std::int32_t> tokens_;
  std::vector<float> log_probabilities_;

  void fill_row(std::int64_t row, std::span<const float> logits, float inverse_temperature,
                std::span<const std::int32_t> ids, ThreadSpace& space);
};

}  // namespace tare::engine
