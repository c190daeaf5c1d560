// Layout of one head's cache. Keys: blocks of 16 positions, inside a block [channel][16 positions], channels rounded up
// to 4, so that a score needs no sum across lanes. Values: [position][channels rounded up to 16].
//
// In every format a row (a position's key or value) is cells: what holds a channel, or, of NVFP4, two; and then cells
// of scales, in a buffer of their own. Of keys a cell stands beside those of the 15 other positions of its block:
//   fp32 4 bytes a cell, bf16 2, fp8 1       int8 1, and a BF16 scale for every 64 channels
//   nvfp4 keys: channel 2 i in the low half of byte i, 2 i + 1 in the high one; values, in every 16 channels (8 bytes):
//               channel i in the low half of byte i, 8 + i in the high one; and an E4M3 scale for every 16 channels
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/backend/option_words.h"
#include "engine/cpu/aligned_buffer.h"
#include "engine/formats/cache_blocks.h"

namespace tare::engine {

constexpr std::int64_t kKeyBlock = 16;
constexpr std::int64_t kKeyChannelPadding = 4;
constexpr std::int64_t kValueChannelPadding = 16;

struct RowCells {
  std::int64_t codes = 0;
  std::int64_t code_bytes = 0;  // of a cell
  std::int64_t scales = 0;
  std::int64_t scale_bytes = 0;

  [[nodiscard]] constexpr std::int64_t codes_size() const { return codes * code_bytes; }
  [[nodiscard]] constexpr std::int64_t scales_size() const { return scales * scale_bytes; }
  [[nodiscard]] constexpr std::int64_t bytes() const { return codes_size() + scales_size(); }
};

// `channels` is the padded count, head_dim what scales are of.
[[nodiscard]] constexpr RowCells row_cells(CacheFormat format, std::int64_t head_dim, std::int64_t channels) {
  switch (format) {
    case CacheFormat::kFP32:
      return {channels, 4, 0, 0};
    case CacheFormat::kBF16:
      return {channels, 2, 0, 0};
    case CacheFormat::kFP8:
      return {channels, 1, 0, 0};
    case CacheFormat::kInt8:
      return {channels, 1, (head_dim + kInt8Block - 1) / kInt8Block, 2};
    case CacheFormat::kNVFP4:
      return {channels / 2, 1, (head_dim + kNVFP4Block - 1) / kNVFP4Block, 1};
  }
  return {};
}
[[nodiscard]] constexpr RowCells key_cells(CacheFormat format, std::int64_t head_dim) {
  return row_cells(format, head_dim, round_up(head_dim, kKeyChannelPadding));
}
[[nodiscard]] constexpr RowCells value_cells(CacheFormat format, std::int64_t head_dim) {
  return row_cells(format, head_dim, round_up(head_dim, kValueChannelPadding));
}

// One head's keys or values, from a position on (keys: the first of a block).
struct CacheRows {
  CacheFormat format = CacheFormat::kFP32;
  const std::byte* codes = nullptr;
  const std::byte* scales = nullptr;
};

}  // namespace tare::engine
