// The last taps - 1 inputs of a GDN layer's causal convolution: projections before convolution and activation, FP32 or
// BF16. A token's own input enters unrounded, its predecessors as stored, so results do not depend on how many tokens
// share a pass. In a verify the predecessors of a node are its ancestors, and behind the root the past.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/backend/option_words.h"
#include "engine/backend/sequence_checkpoint.h"
#include "engine/cpu/aligned_buffer.h"
#include "engine/cpu/kernels.h"
#include "engine/cpu/row_buffer.h"

namespace tare::engine {

class ConvolutionColumns {
 public:
  ConvolutionColumns(std::int64_t channels, std::int64_t taps, CacheFormat format);

  void reset();  // as before the first token: zeros
  // Prepares taps_of for a pass over `projected`, whose rows must stay until the pass ends. `parents`, which stay as
  // long, has the row before each token's (-1: the past); empty: that of the token before it.
  void begin_pass(const RowBuffer& projected, std::int64_t tokens, std::span<const std::int32_t> parents,
                  const VectorKernels& kernels);
  // Sets rows[0..taps-1] to the inputs that meet the taps at token t of the pass, oldest first.
  void taps_of(std::int64_t token, std::vector<const float*>& rows) const;
  // Makes the first `count` rows of `projected` part of the past.
  void absorb(const RowBuffer& projected, std::int64_t count, const VectorKernels& kernels);
  // Makes the rows of `path` part of the past, oldest first.
  void absorb(const RowBuffer& projected, std::span<const std::int32_t> path, const VectorKernels& kernels);

  // Appends the columns as they are stored, oldest first; and puts them back.
  void export_columns(ByteWriter& bytes) const;
  void import_columns(ByteReader& bytes);

  [[nodiscard]] std::int64_t taps() const { return taps_; }
  // Bytes read in a pass: all columns.
  [[nodiscard]] std::uint64_t resident_bytes() const;
  // Bytes that absorbing `tokens` tokens writes: a column each, at most all.
  [[nodiscard]] std::uint64_t bytes_written(std::int64_t tokens) const;
  [[nodiscard]] CacheFormat format() const { return format_; }
  // Column `age` back (1 is the newest), as stored. For tests.
  [[nodiscard]] std::vector<float> column(std::int64_t age) const;

 private:
  std::int64_t channels_ = 0;
  std::int64_t taps_ = 0;
  std::int64_t past_ = 0;  // taps - 1 rows are kept
  std::int64_t stride_ = 0;
  CacheFormat format_ = CacheFormat::kFP32;
  std::int64_t oldest_ = 0;                      // row of the ring that holds the oldest column
  RowBuffer columns_;                            // kFP32: the ring itself; kBF16: the ring widened for the pass in hand
  AlignedBuffer<std::uint16_t> narrow_columns_;  // kBF16: the ring
  RowBuffer rounded_;                            // kBF16: the pass's inputs as a successor sees them
  const RowBuffer* current_ = nullptr;
  const RowBuffer* predecessors_ = nullptr;
  std::span<const std::int32_t> parents_;

  void absorb_row(const RowBuffer& projected, std::int64_t row, const VectorKernels& kernels);
};

}  // namespace tare::engine
