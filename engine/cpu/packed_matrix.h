// A weight matrix in the layout the kernels stream: panels of 32 output rows, whose words lie side by side, so that one
// activation serves 32 rows and every panel is one contiguous, cache-line aligned stretch of memory.
//
//   panel = its groups of 64 columns, in order (columns are padded to a multiple of 64 with zero weights)
//   group = [32 FP16 scales] (not BF16), then words [word][32 rows], 32 bits each, of consecutive columns:
//           BF16 2 a word (low half first), q8 4, q4 8 (formats/weight_groups.h): 4096, 64 + 2048, 64 + 1024 bytes
// Rows are padded to whole panels with zero weights. q3 lies in q4's words: its codes are q4 codes, and the CPU has no
// kernel that would gain from three bits. fp8 is CUDA's.
#pragma once

#include <cstdint>
#include <span>

#include "base/thread_pool.h"
#include "engine/backend/options.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/cpu/aligned_buffer.h"

namespace tare::engine {

constexpr std::int64_t kPanelRows = 32;

// Throws Error (internal) for fp8.
[[nodiscard]] std::int64_t bytes_per_panel_group(WeightFormat format);

class PackedMatrix {
 public:
  PackedMatrix() = default;
  // Of the shape, its rows to be filled with pack_rows (all of them: unfilled rows are not zero weights).
  PackedMatrix(WeightFormat format, std::int64_t rows, std::int64_t columns);

  [[nodiscard]] WeightFormat format() const { return format_; }
  [[nodiscard]] std::int64_t rows() const { return rows_; }
  [[nodiscard]] std::int64_t columns() const { return columns_; }
  [[nodiscard]] std::int64_t groups() const { return groups_; }
  [[nodiscard]] std::int64_t panels() const { return panels_; }
  [[nodiscard]] std::int64_t bytes_per_panel() const { return groups_ * bytes_per_panel_group(format_); }
  [[nodiscard]] std::uint64_t bytes() const { return static_cast<std::uint64_t>(panels_ * bytes_per_panel()); }
  [[nodiscard]] const std::byte* panel(std::int64_t index) const { return data_.data() + index * bytes_per_panel(); }

  // Encodes `values` [count, columns], rows first_row .. first_row + count - 1, which must lie in one panel.
  // Throws Error (input) from the encoder.
  void pack_rows(std::int64_t first_row, std::span<const float> values);

  // A row by itself: the words of all its groups, in order, then their scales (not BF16).
  [[nodiscard]] std::int64_t row_bytes() const;
  // Copies a row out of its panel, and into it. Spans of row_bytes().
  void read_row(std::int64_t row, std::span<std::byte> out) const;
  void write_row(std::int64_t row, std::span<const std::byte> in);

 private:
  WeightFormat format_ = WeightFormat::kBF16;
  std::int64_t rows_ = 0;
  std::int64_t columns_ = 0;
  std::int64_t groups_ = 0;
  std::int64_t panels_ = 0;
  AlignedBuffer<std::byte> data_;

  template <class Copy>
  void walk_row(std::int64_t row, Copy copy) const;
};

// Rows of several tensors (each [rows_i, columns]) stacked and encoded on all threads. BF16 tensors keep their bits
// under kBF16; wider ones are rounded to nearest even. Throws Error (input) naming the tensor: NaN, infinity, a scale
// that overflows.
[[nodiscard]] PackedMatrix pack_matrix(std::span<const Tensor> tensors, WeightFormat format, ThreadPool& pool);

}  // namespace tare::engine
