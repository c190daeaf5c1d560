// Recurrent states of one layer's heads as they are kept between tokens, in the format of option state.recurrent
// (formats/state_codec.h).
//
// Arithmetic is FP32 always. A state that is not kept in FP32 is rounded after every token's update (chunk form: after
// every block of 64, tree_chunk: after a committed path), whatever pass the token came in: so the bits do not depend on
// how a text is cut into passes. store of what round_state has rounded loses nothing.
#pragma once

#include <cstdint>
#include <span>

#include "engine/cpu/aligned_buffer.h"
#include "engine/formats/state_codec.h"

namespace tare::engine {

class StateStore {
 public:
  StateStore() = default;
  StateStore(StateFormat format, std::int64_t heads, std::int64_t rows, std::int64_t stride);

  [[nodiscard]] StateFormat format() const { return format_; }
  [[nodiscard]] std::uint64_t bytes() const { return data_.bytes(); }
  // The head's state itself, to be read and written in place; null unless the format is fp32.
  [[nodiscard]] float* in_place(std::int64_t head);
  [[nodiscard]] const float* in_place(std::int64_t head) const;
  void load(std::int64_t head, std::span<float> state) const;
  void store(std::int64_t head, std::span<const float> state);
  void clear();  // all zeros

 private:
  StateFormat format_ = StateFormat::kFP32;
  std::int64_t stride_ = 0;
  std::int64_t head_bytes_ = 0;
  AlignedBuffer<std::byte> data_;  // [head]
};

}  // namespace tare::engine
