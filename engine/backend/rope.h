// Rotary embedding, split-half pairing within the first rotary_dim channels (docs/method/model.md). Frequencies and
// angles are FP32 products, as Hugging Face computes them; their sine and cosine are those of the exact FP32 angle.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tare::engine {

class RopeTable {
 public:
  // Positions 0..positions-1; rotary_dim even.
  RopeTable(std::int64_t positions, std::int64_t rotary_dim, double theta);
  // Rotates x [>= rotary_dim] in place.
  void rotate(std::int64_t position, float* x) const;
  // [positions][rotary_dim / 2], what rotate reads: for a backend that rotates elsewhere.
  [[nodiscard]] std::span<const float> cosines() const { return cosines_; }
  [[nodiscard]] std::span<const float> sines() const { return sines_; }

 private:
  std::int64_t half_ = 0;
  std::vector<float> cosines_;
  std::vector<float> sines_;
};

// theta^(-2i / rotary_dim), i = 0 .. rotary_dim/2 - 1, every step rounded to FP32.
[[nodiscard]] std::vector<float> rope_frequencies(std::int64_t rotary_dim, double theta);

}  // namespace tare::engine
