// One layer on the CPU over a batch of windows, FP32 (docs/method/model.md; exactness: docs/method/reference.md).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/thread_pool.h"
#include "engine/checkpoint/model_config.h"
#include "engine/streamed/cpu_weights.h"

namespace tare::engine {

// Work space for a batch of `positions` tokens, and of each thread; sizes in numbers.
class CpuLayers {
 public:
  // At most `windows` windows of `window_tokens` tokens at once.
  CpuLayers(const ModelConfig& config, std::int64_t windows, std::int64_t window_tokens, ThreadPool& pool);

  // x [windows * window_tokens, hidden] <- the layer's output, in place.
  void run(const StreamedLayerWeights& weights, std::int64_t windows, float* x);
  // out <- norm(x) * gain, rows of `size`.
  void norm(const float* x, std::span<const float> gain, std::int64_t rows, std::int64_t size, float* out);

  // Bytes of the work space.
  [[nodiscard]] static std::uint64_t work_bytes(const ModelConfig& config, std::int64_t windows,
                                                std::int64_t window_tokens, int threads);

 private:
  const ModelConfig& config_;
  std::int64_t window_tokens_;
  ThreadPool& pool_;
  std::vector<float> hidden_;                     // [positions, hidden], normed
  std::vector<float> first_;                      // [positions, widest projection]
  std::vector<float> second_;                     // [positions, second widest]
  std::vector<float> third_;                      // keys and values, or the convolution's output
  std::vector<float> gates_;                      // [positions, 2 value heads]
  std::vector<float> cosines_, sines_;            // [tokens, rotary / 2]
  std::vector<PackedMatrix> keys_, values_;       // of a window's key-value head
  std::vector<std::vector<float>> thread_space_;  // scores of a block of queries, or a state

  void run_gdn(const StreamedGdnWeights& weights, std::int64_t windows, float* x);
  void convolve(const StreamedGdnWeights& weights, std::int64_t row);
  void normalize_keys(std::int64_t row);
  void make_gates(const StreamedGdnWeights& weights, float* alphas, float* betas) const;
  void recur(std::int64_t windows, const float* alphas, const float* betas);
  void gate_values(const StreamedGdnWeights& weights, std::int64_t row);
  void run_attention(const StreamedAttentionWeights& weights, std::int64_t windows, float* x);
  void run_mlp(const StreamedLayerWeights& weights, std::int64_t positions, float* x);
  void rotate(float* row, std::int64_t position) const;
  void pack_keys_and_values(std::int64_t windows);
  void attend(std::int64_t window, std::int64_t head, std::int64_t first_query, std::int64_t count,
              std::vector<float>& scores);
  template <class Body>
  void for_rows(std::int64_t count, const Body& body);
};

}  // namespace tare::engine
