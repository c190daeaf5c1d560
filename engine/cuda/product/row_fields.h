// Where the weights of single rows lie in a unit's codes, thread by thread (tiles.h): for kernels that read few rows.
//
// The four threads p = 0..3 of rows g and g + 8 of 16 hold all weights of both: columns 8 part + 2 p + h, part 0..7.
// Each holds code_bits(format) words of 32 bits, in runs of 16 bytes (q3: 8 and 4).
#pragma once

#include <bit>
#include <cstdint>

#include "engine/cuda/product/tiles.h"

namespace tare::engine {

// Whether single rows of the codec can be read so.
[[nodiscard]] constexpr bool has_row_fields(WeightCodec codec) {
  return codec.format != WeightFormat::kQ5 && !has_tensor_scale(codec);
}
[[nodiscard]] constexpr int thread_words(WeightFormat format) {
  return code_bits(format);
}
// The thread of a tile that has columns 2 p, 2 p + 1 of every eight of a unit's row, and the tile.
[[nodiscard]] constexpr int row_tile(int row) {
  return row / kTileRows;
}
[[nodiscard]] constexpr int row_thread(int row, int p) {
  return row / 16 % 4 * 32 + row % 8 * 4 + p;
}
// Which of the thread's two rows it is: 0 for g, 1 for g + 8.
[[nodiscard]] constexpr int row_half(int row) {
  return row / 8 % 2;
}
// Where word i of a thread's lies among the words of the unit's codes. Words 4 n .. 4 n + 3 are neighbours (q3: 0 and
// 1).
[[nodiscard]] constexpr int thread_word(WeightFormat format, int tile, int thread, int i) {
  switch (format) {
    case WeightFormat::kQ4:
      return (tile * kTileThreads + thread) * 4 + i;
    case WeightFormat::kQ8:
    case WeightFormat::kFP8:
      return ((tile * 2 + i / 4) * kTileThreads + thread) * 4 + i % 4;
    case WeightFormat::kBF16:
      return ((tile * 4 + i / 4) * kTileThreads + thread) * 4 + i % 4;
    case WeightFormat::kQ3:
    case WeightFormat::kQ5:  // have no rows here
    case WeightFormat::kNVFP4:
      break;
  }
  return q3_word(tile, thread, i);
}
// Of a thread's words, those of row `half` alone, as kept_words(format) words (q3: both rows').
[[nodiscard]] constexpr int kept_words(WeightFormat format) {
  return format == WeightFormat::kBF16 ? 8 : thread_words(format);
}
[[nodiscard]] constexpr std::uint32_t kept_word(WeightFormat format, const std::uint32_t* words, int half, int i) {
  switch (format) {
    case WeightFormat::kQ4:
      return std::rotr(words[i], 4 * half);
    case WeightFormat::kQ8:
    case WeightFormat::kFP8:
      return words[i] >> (16 * half);
    case WeightFormat::kBF16:
      return half == 0 ? words[2 * i] : words[2 * i + 1];
    case WeightFormat::kQ3:
    case WeightFormat::kQ5:  // have no rows here
    case WeightFormat::kNVFP4:
      break;
  }
  return words[i];
}
// The stored field of column 8 part + 2 p + h from what was kept of row `half`.
[[nodiscard]] constexpr std::uint32_t kept_field(WeightFormat format, const std::uint32_t* kept, int half, int part,
                                                 int h) {
  const int step = part / 2;
  const int r = part % 2 * 2;  // of row g
  switch (format) {
    case WeightFormat::kQ4:
      return std::rotr(kept[step], kQ4FirstBit + 4 * (r + 4 * h)) & 0xFU;
    case WeightFormat::kQ8:
    case WeightFormat::kFP8:
      return kept[part] >> (8 * h) & 0xFFU;
    case WeightFormat::kBF16:
      return kept[part] >> (16 * h) & 0xFFFFU;
    case WeightFormat::kQ3:
    case WeightFormat::kQ5:  // have no rows here
    case WeightFormat::kNVFP4:
      break;
  }
  if (step < 3) return kept[step] >> (q3_bit(r + half) + 16 * h) & 7U;
  if (r == 2 && half == 0) {
    const int bit = kQ3SplitBit + 16 * h;
    return (kept[0] >> bit & 1U) | (kept[1] >> bit & 1U) << 1 | (kept[2] >> bit & 1U) << 2;
  }
  const std::uint32_t word = r == 2 ? kept[2] : half == 0 ? kept[0] : kept[1];
  return word >> (kQ3MixedBit + 16 * h) & 7U;
}

}  // namespace tare::engine
