// T rows of FP32 activations, padded with zeros to a multiple of 64 elements, and optionally the same rows as q8
// blocks.
#pragma once

#include <cstdint>

#include "engine/cpu/aligned_buffer.h"
#include "engine/cpu/kernels.h"

namespace tare::engine {

class RowBuffer {
 public:
  RowBuffer() = default;
  explicit RowBuffer(std::int64_t size) : stride_(round_up(size, kRowPadding)) {}

  // Makes room for `tokens` rows; contents are lost (zeroed) when it grows.
  void reserve(std::int64_t tokens) {
    if (tokens <= capacity_) return;
    values_ = AlignedBuffer<float>(static_cast<std::size_t>(tokens * stride_ + kSlack));
    capacity_ = tokens;
  }
  [[nodiscard]] std::int64_t stride() const { return stride_; }
  [[nodiscard]] float* row(std::int64_t token) { return values_.data() + token * stride_; }
  [[nodiscard]] const float* row(std::int64_t token) const { return values_.data() + token * stride_; }
  [[nodiscard]] float* data() { return values_.data(); }
  [[nodiscard]] const float* data() const { return values_.data(); }

 private:
  // Kernels on a head's slice of a row read whole vectors, up to 15 elements past the last row's end.
  static constexpr std::int64_t kSlack = 16;
  std::int64_t stride_ = 0;
  std::int64_t capacity_ = 0;
  AlignedBuffer<float> values_;
};

// The input of matrix products.
class InputRows {
 public:
  InputRows() = default;
  // quantized: keep q8 blocks beside the FP32 rows.
  InputRows(std::int64_t size, bool quantized) : rows_(size), quantized_(quantized) {}

  void reserve(std::int64_t tokens) {
    rows_.reserve(tokens);
    if (!quantized_ || tokens <= capacity_) return;
    const auto elements = static_cast<std::size_t>(tokens * rows_.stride());
    codes_ = AlignedBuffer<std::int8_t>(elements);
    scales_ = AlignedBuffer<float>(elements / kRowPadding);
    sums_ = AlignedBuffer<std::int32_t>(elements / kRowPadding);
    capacity_ = tokens;
  }
  [[nodiscard]] float* row(std::int64_t token) { return rows_.row(token); }
  [[nodiscard]] std::int64_t stride() const { return rows_.stride(); }
  // Encodes elements [begin, end) (multiples of 64) of a row; does nothing without q8 blocks.
  void quantize(std::int64_t token, std::int64_t begin, std::int64_t end, const VectorKernels& kernels) {
    if (!quantized_) return;
    const std::int64_t at = token * stride() + begin;
    kernels.quantize_row(rows_.data() + at, end - begin, codes_.data() + at, scales_.data() + at / kRowPadding,
                         sums_.data() + at / kRowPadding);
  }
  void quantize(std::int64_t token, const VectorKernels& kernels) { quantize(token, 0, stride(), kernels); }
  // Rows [begin, end) for the matrix kernels.
  [[nodiscard]] ActivationRows view(std::int64_t begin, std::int64_t end) const {
    ActivationRows rows{end - begin, stride(), rows_.row(begin)};
    if (quantized_) {
      rows.codes = codes_.data() + begin * stride();
      rows.scales = scales_.data() + begin * stride() / kRowPadding;
      rows.sums = sums_.data() + begin * stride() / kRowPadding;
    }
    return rows;
  }
  [[nodiscard]] ActivationRows view(std::int64_t tokens) const { return view(0, tokens); }

 private:
  RowBuffer rows_;
  bool quantized_ = false;
  std::int64_t capacity_ = 0;
  AlignedBuffer<std::int8_t> codes_;
  AlignedBuffer<float> scales_;
  AlignedBuffer<std::int32_t> sums_;
};

}  // namespace tare::engine
