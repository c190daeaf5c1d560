// Rows of a CUDA cache on the host, by the scalar definitions and the places of attention_layout.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/cuda/attention/attention_layout.h"

namespace tare::engine::test {

// One head's run of keys or of values.
struct CacheRun {
  CacheFormat format = CacheFormat::kFP32;
  bool of_values = false;
  int head_dim = 0;

  [[nodiscard]] std::int64_t row_bytes() const { return cache_row_bytes(format, head_dim); }
  // Where a slot's row has its bytes, each once.
  [[nodiscard]] std::vector<std::int64_t> places(std::int64_t slot) const;
  // `run` is the head's first byte.
  void encode(std::byte* run, std::int64_t slot, std::span<const float> row) const;
  [[nodiscard]] float decode(const std::byte* run, std::int64_t slot, int dim) const;
  [[nodiscard]] float scale(const std::byte* run, std::int64_t slot, int block) const;  // of a format with scales
  void set_scale(std::byte* run, std::int64_t slot, int block, float value) const;

 private:
  [[nodiscard]] std::int64_t code_place(std::int64_t slot, int dim) const;
  [[nodiscard]] std::int64_t scale_place(std::int64_t slot, int block) const;
  [[nodiscard]] int code_shift(int dim) const;
};

}  // namespace tare::engine::test
