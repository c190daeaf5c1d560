// The rows of a draft: of each, the most likely candidates and their log-probabilities.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/thread_pool.h"
#include "engine/backend/backend.h"
#include "engine/cpu/kernels.h"

namespace tare::engine {

class DraftRows {
 public:
  DraftRows(const Kernels& kernels, ThreadPool& pool);

  // Makes room for rows of so many candidates each; candidates at most the vocabulary.
  void begin(std::int64_t rows, std::int64_t candidates);
  // Rows first .. first + logits.size() / vocab - 1 from finite logits [., vocab]: the candidates with the largest
  // logits, ties to the lowest id, and log softmax(logits / temperature) over the whole vocabulary.
  void fill(std::int64_t first, std::span<const float> logits, std::int64_t vocab, double temperature);
  // The most likely token of a row that was filled.
  [[nodiscard]] std::int32_t best(std::int64_t row) const {
    return tokens_[static_cast<std::size_t>(row * candidates_)];
  }
  [[nodiscard]] DraftOutput output() const { return {rows_, candidates_, tokens_, log_probabilities_}; }

 private:
  struct Candidate {
    float logit;
    std::int32_t token;
  };
  struct ThreadSpace {
    std::vector<float> weights;  // [vocab]
    std::vector<Candidate> most;
  };

  const Kernels& kernels_;
  ThreadPool& pool_;
  std::vector<ThreadSpace> spaces_;
  std::int64_t rows_ = 0;
  std::int64_t candidates_ = 0;
  std::vector<std::int32_t> tokens_;
  std::vector<float> log_probabilities_;

  void fill_row(std::int64_t row, std::span<const float> logits, float inverse_temperature, ThreadSpace& space);
  static void select(std::span<const float> logits, std::int64_t count, std::vector<Candidate>& most);
};

}  // namespace tare::engine
