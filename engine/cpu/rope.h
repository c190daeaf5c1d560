// Rotary embedding, split-half pairing within the first rotary_dim channels (docs/method/model.md). Frequencies and
// angles are FP32 products, as Hugging Face computes them; their sine and cosine are those of the exact FP32 angle.
#pragma once

#include <cstdint>
#include <vector>

namespace tare::engine {

class RopeTable {
 public:
  // Positions 0..positions-1; rotary_dim even.
  RopeTable(std::int64_t positions, std::int64_t rotary_dim, double theta);
  // Rotates x [>= rotary_dim] in place.
  void rotate(std::int64_t position, float* x) const;

 private:
  std::int64_t half_ = 0;
  std::vector<float> cosines_;  // [positions][rotary_dim / 2]
  std::vector<float> sines_;
};

// theta^(-2i / rotary_dim), i = 0 .. rotary_dim/2 - 1, every step rounded to FP32.
[[nodiscard]] std::vector<float> rope_frequencies(std::int64_t rotary_dim, double theta);

}  // namespace tare::engine
