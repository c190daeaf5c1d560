// A weight matrix in the layout the kernels stream: panels of 32 output rows, whose words lie side by side, so that one
// activation serves 32 rows and every panel is one contiguous, cache-line aligned stretch of memory.
//
//   panel = its groups of 64 columns, in order (columns are padded to a multiple of 64 with zero weights)
//   group = scales (not BF16): [32 FP16], [32 E4M3] or NVFP4's [4 blocks][32 E4M3]; then words [word][32 rows], 32 bits
//           each, of consecutive columns: BF16 2 a word (low half first), q8 and fp8 4, q4 and NVFP4 8
//           (formats/weight_groups.h): 4096, 64 + 2048, 64 + 1024, NVFP4 128 + 1024 bytes
//   q5    = 8 words of q4's kind with the low four bits of a field, then 2 with the fifth bits: bit 8 i + 2 w + d of
//   the
//           first is that of code 4 d + i of word w = 0..3, of the second w = 4..7; 64 + 1024 + 256 bytes
// Rows are padded to whole panels with zero weights. q3 lies in q4's words: its codes are q4 codes, and the CPU has no
// kernel that would gain from three bits. Where scales are E4M3 every row has its tensor's FP32 scale beside the
// panels: tensors that are stacked keep their own.
#pragma once

#include <cstdint>
#include <span>

#include "base/thread_pool.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/stored_codes.h"
#include "engine/cpu/aligned_buffer.h"
#include "engine/formats/weight_codes.h"

namespace tare::engine {

constexpr std::int64_t kPanelRows = 32;

[[nodiscard]] std::int64_t bytes_per_panel_group(WeightCodec codec);
[[nodiscard]] std::int64_t scale_bytes_per_panel_group(WeightCodec codec);

class PackedMatrix {
 public:
  PackedMatrix() = default;
  // Of the shape, its rows to be filled with pack_rows (all of them: unfilled rows are not zero weights).
  PackedMatrix(WeightCodec codec, std::int64_t rows, std::int64_t columns);

  [[nodiscard]] WeightFormat format() const { return codec_.format; }
  [[nodiscard]] WeightCodec codec() const { return codec_; }
  [[nodiscard]] std::int64_t rows() const { return rows_; }
  [[nodiscard]] std::int64_t columns() const { return columns_; }
  [[nodiscard]] std::int64_t groups() const { return groups_; }
  [[nodiscard]] std::int64_t panels() const { return panels_; }
  [[nodiscard]] std::int64_t bytes_per_panel() const { return groups_ * bytes_per_panel_group(codec_); }
  // Of the panels, and of the rows' scales.
  [[nodiscard]] std::uint64_t bytes() const {
    return static_cast<std::uint64_t>(panels_ * bytes_per_panel()) + row_scales_.bytes();
  }
  [[nodiscard]] const std::byte* panel(std::int64_t index) const { return data_.data() + index * bytes_per_panel(); }

  // The tensor's scales of a panel's rows [32]; null where there are none.
  [[nodiscard]] const float* row_scales(std::int64_t panel) const {
    return row_scales_.size() == 0 ? nullptr : row_scales_.data() + panel * kPanelRows;
  }

  // Of rows first_row .. first_row + count - 1, to be called before they are packed; of a codec that has such scales.
  void set_tensor_scale(std::int64_t first_row, std::int64_t count, float scale);
  // Encodes `values` [count, columns], rows first_row .. first_row + count - 1, which must lie in one panel.
  // Throws Error (input) from the encoder.
  void pack_rows(std::int64_t first_row, std::span<const float> values);
  // A group of a row as it was encoded elsewhere, with this codec (not BF16).
  void put_group(std::int64_t row, std::int64_t group, const EncodedGroup& encoded);

  // A row by itself: the words of all its groups, in order, then their scales (not BF16), then its tensor's scale.
  [[nodiscard]] std::int64_t row_bytes() const;
  // Copies a row out of its panel, and into it. Spans of row_bytes().
  void read_row(std::int64_t row, std::span<std::byte> out) const;
  void write_row(std::int64_t row, std::span<const std::byte> in);

 private:
  WeightCodec codec_;
  std::int64_t rows_ = 0;
  std::int64_t columns_ = 0;
  std::int64_t groups_ = 0;
  std::int64_t panels_ = 0;
  AlignedBuffer<std::byte> data_;
  AlignedBuffer<float> row_scales_;

  template <class Copy>
  void walk_row(std::int64_t row, Copy copy) const;
  void put_words(std::int64_t row, std::int64_t group, std::span<const std::uint32_t> words,
                 std::span<const std::uint16_t> scales);
};

// Rows of several tensors (each [rows_i, columns]) stacked and encoded on all threads. BF16 tensors keep their bits
// under kBF16; wider ones are rounded to nearest even. Throws Error (input) naming the tensor: NaN, infinity, a scale
// that overflows.
[[nodiscard]] PackedMatrix pack_matrix(std::span<const Tensor> tensors, WeightCodec codec, ThreadPool& pool);
// The matrix that a checkpoint stores as codes: the bits that pack_matrix makes of the tensor they were made from.
[[nodiscard]] PackedMatrix unpack_codes(const StoredCodes& stored, ThreadPool& pool);
// The largest magnitude of a tensor, on all threads. Throws Error (input) naming it: NaN, infinity.
[[nodiscard]] float tensor_absmax(const Tensor& tensor, ThreadPool& pool);

}  // namespace tare::engine
