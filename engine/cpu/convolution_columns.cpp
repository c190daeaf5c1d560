#include "engine/cpu/convolution_columns.h"

#include <algorithm>

#include "engine/formats/float_formats.h"

namespace tare::engine {

ConvolutionColumns::ConvolutionColumns(std::int64_t channels, std::int64_t taps, CacheFormat format)
    : channels_(channels),
      taps_(taps),
      past_(taps - 1),
      stride_(round_up(channels, kRowPadding)),
      format_(format),
      columns_(channels),
      rounded_(channels) {
  columns_.reserve(past_);
  if (format == CacheFormat::kBF16)
    narrow_columns_ = AlignedBuffer<std::uint16_t>(static_cast<std::size_t>(past_ * stride_));
}

void ConvolutionColumns::reset() {
  oldest_ = 0;
  std::fill_n(columns_.data(), past_ * stride_, 0.0F);
  std::fill_n(narrow_columns_.data(), narrow_columns_.size(), std::uint16_t{0});
}

void ConvolutionColumns::begin_pass(const RowBuffer& projected, std::int64_t tokens,
                                    std::span<const std::int32_t> parents, const VectorKernels& kernels) {
  current_ = &projected;
  parents_ = parents;
  predecessors_ = &projected;
  if (format_ == CacheFormat::kFP32) return;
  kernels.widen_bf16(narrow_columns_.data(), past_ * stride_, columns_.data());
  if (tokens == 1) return;
  rounded_.reserve(tokens);
  for (std::int64_t token = 0; token + 1 < tokens; ++token)
    kernels.round_to_bf16(projected.row(token), stride_, rounded_.row(token));
  predecessors_ = &rounded_;
}

void ConvolutionColumns::taps_of(std::int64_t token, std::vector<const float*>& rows) const {
  rows.resize(static_cast<std::size_t>(taps_));
  std::int64_t row = token;  // of the pass; below 0 columns of the past, -1 the newest
  for (std::int64_t tap = past_; tap-- > 0;) {
    row = row < 0 || parents_.empty() ? row - 1 : parents_[static_cast<std::size_t>(row)];
    rows[static_cast<std::size_t>(tap)] =
        row < 0 ? columns_.row((oldest_ + past_ + row) % past_) : predecessors_->row(row);
  }
  rows[static_cast<std::size_t>(past_)] = current_->row(token);
}

void ConvolutionColumns::absorb(const RowBuffer& projected, std::int64_t count, const VectorKernels& kernels) {
  for (std::int64_t row = std::max<std::int64_t>(0, count - past_); row < count; ++row)
    absorb_row(projected, row, kernels);
}

void ConvolutionColumns::absorb(const RowBuffer& projected, std::span<const std::int32_t> path,
                                const VectorKernels& kernels) {
  for (const std::int32_t row : path.last(std::min(path.size(), static_cast<std::size_t>(past_))))
    absorb_row(projected, row, kernels);
}

// The newest column takes the place of the oldest.
void ConvolutionColumns::absorb_row(const RowBuffer& projected, std::int64_t row, const VectorKernels& kernels) {
  if (format_ == CacheFormat::kFP32) {
    std::copy_n(projected.row(row), stride_, columns_.row(oldest_));
  } else {
    kernels.narrow_to_bf16(projected.row(row), stride_, narrow_columns_.data() + oldest_ * stride_);
  }
  oldest_ = (oldest_ + 1) % past_;
}

void ConvolutionColumns::export_columns(ByteWriter& bytes) const {
  for (std::int64_t age = past_; age > 0; --age) {
    const std::int64_t row = (oldest_ + past_ - age) % past_;
    if (format_ == CacheFormat::kFP32) {
      bytes.put(columns_.row(row), static_cast<std::size_t>(stride_) * sizeof(float));
    } else {
      bytes.put(narrow_columns_.data() + row * stride_, static_cast<std::size_t>(stride_) * sizeof(std::uint16_t));
    }
  }
}

void ConvolutionColumns::import_columns(ByteReader& bytes) {
  oldest_ = 0;
  for (std::int64_t row = 0; row < past_; ++row) {
    if (format_ == CacheFormat::kFP32) {
      bytes.get(columns_.row(row), static_cast<std::size_t>(stride_) * sizeof(float));
    } else {
      bytes.get(narrow_columns_.data() + row * stride_, static_cast<std::size_t>(stride_) * sizeof(std::uint16_t));
    }
  }
}

std::uint64_t ConvolutionColumns::resident_bytes() const {
  const std::int64_t element_bytes = format_ == CacheFormat::kFP32 ? 4 : 2;
  return static_cast<std::uint64_t>(past_ * stride_ * element_bytes);
}

std::uint64_t ConvolutionColumns::bytes_written(std::int64_t tokens) const {
  if (past_ == 0) return 0;  // a convolution of one tap
  return resident_bytes() / static_cast<std::uint64_t>(past_) * static_cast<std::uint64_t>(std::min(tokens, past_));
}

std::vector<float> ConvolutionColumns::column(std::int64_t age) const {
  const std::int64_t row = (oldest_ + past_ - age) % past_;
  std::vector<float> result(static_cast<std::size_t>(channels_));
  for (std::int64_t channel = 0; channel < channels_; ++channel)
    result[static_cast<std::size_t>(channel)] =
        format_ == CacheFormat::kFP32 ? columns_.row(row)[channel]
                                      : bfloat16_to_float(narrow_columns_.data()[row * stride_ + channel]);
  return result;
}

}  // namespace tare::engine
