// Where the numbers of the attention kernels lie: cache, rotated queries, parts. constexpr, so that host, kernels and
// tests use the same lines.
//
// Cache. Each key-value head has its own run of `slots` positions (the capacity rounded up to a tile of 64). FP32, and
// head dimensions other than 256: plain rows [head][slot][dim]. BF16 and FP8 with head dimension 256 are tiled, so that
// a bulk copy of consecutive bytes is operand A of mma.m16n8k16 without any further order: lane 4 g + p of a warp finds
// its numbers of one step (BF16) or two (FP8) in the 16 bytes at 16 (4 g + p) of a piece of 512 bytes, rows g and g +
// 8, inner indices 2 p, 2 p + 1, 2 p + 8, 2 p + 9.
//   keys    rows are positions, the inner index a dim: [slot / 16][dim / 16 or 32][lane][step][half][row / 8][pair]
//   values  rows are dims, the inner index a position: [slot / 32 or 64][dim / 16][slot / 16 or 32][lane] and so on
// BF16: [half][row / 8] is the order of the operand's four registers. FP8: a register of the operand is half a word.
//
// INT8 and NVFP4 (formats/cache_blocks.h) have scales behind their codes: plain rows are [codes][scales], a tile of 64
// positions is [codes of all][scales of all]. INT8's codes lie as FP8's numbers do. NVFP4's pieces are half as long, 8
// bytes a lane: of keys a byte is a register, its low half the even dim; of values it is one position (the passes of
// two positions never write to one byte), its low half dim % 16 < 8. Scales of keys: [position][block]; of values:
// [block][position / 32][position % 8 / 2][position / 8 % 4][position % 2], so that a lane finds those of its positions
// in 16 bytes (INT8) or 8.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/backend/option_words.h"
#include "engine/formats/cache_blocks.h"

namespace tare::engine {

constexpr int kTensorHeadDim = 256;     // the head dimension that the tensor-core kernels know
constexpr int kMostHeadDim = 256;       // of any kernel
constexpr int kTilePositions = 64;      // positions that are worked on at once
constexpr int kCacheUnitBytes = 16384;  // of one copy: 64 positions of FP8 or 32 of BF16, of one head
constexpr int kCachePieceBytes = 512;

// Of nvfp4 the byte that two codes share.
[[nodiscard]] constexpr int element_bytes(CacheFormat format) {
  return format == CacheFormat::kFP32 ? 4 : format == CacheFormat::kBF16 ? 2 : 1;
}
[[nodiscard]] constexpr bool has_scales(CacheFormat format) {
  return format == CacheFormat::kInt8 || format == CacheFormat::kNVFP4;
}
// Of a format with scales: the channels of a block, the bytes of its scale, blocks of a row.
[[nodiscard]] constexpr int scale_block(CacheFormat format) {
  return static_cast<int>(format == CacheFormat::kInt8 ? kInt8Block : kNVFP4Block);
}
[[nodiscard]] constexpr int scale_bytes(CacheFormat format) {
  return format == CacheFormat::kInt8 ? 2 : 1;
}
[[nodiscard]] constexpr int row_scales(CacheFormat format, int head_dim) {
  return has_scales(format) ? (head_dim + scale_block(format) - 1) / scale_block(format) : 0;
}
// Bytes of one head's key or value.
[[nodiscard]] constexpr int row_code_bytes(CacheFormat format, int head_dim) {
  return format == CacheFormat::kNVFP4 ? head_dim / 2 : head_dim * element_bytes(format);
}
[[nodiscard]] constexpr int cache_row_bytes(CacheFormat format, int head_dim) {
  return row_code_bytes(format, head_dim) + row_scales(format, head_dim) * scale_bytes(format);
}
[[nodiscard]] constexpr bool cache_is_tiled(CacheFormat format, int head_dim) {
  return head_dim == kTensorHeadDim && format != CacheFormat::kFP32;
}
[[nodiscard]] constexpr std::int64_t cache_slots(std::int64_t capacity) {
  return (capacity + kTilePositions - 1) / kTilePositions * kTilePositions;
}

// Byte offset within a piece of number (row 0..15, inner 0..15 or 31) of a piece.
[[nodiscard]] constexpr int piece_place(int size, int row, int inner) {
  const int lane = row % 8 * 4 + inner % 8 / 2;
  const int register_ = inner / 8 * 2 + row / 8;  // of two steps: 0..7
  return lane * 16 + (register_ * 2 + inner % 2) * size;
}
// Byte offsets within one head's run.
[[nodiscard]] constexpr std::int64_t key_place(CacheFormat format, int head_dim, std::int64_t slot, int dim) {
  const int size = element_bytes(format);
  if (!cache_is_tiled(format, head_dim)) return (slot * head_dim + dim) * size;
  const int inner = 32 / size;
  return slot / 16 * (16 * kTensorHeadDim * size) + dim / inner * kCachePieceBytes +
         piece_place(size, static_cast<int>(slot % 16), dim % inner);
}
[[nodiscard]] constexpr std::int64_t value_place(CacheFormat format, int head_dim, std::int64_t slot, int dim) {
  const int size = element_bytes(format);
  if (!cache_is_tiled(format, head_dim)) return (slot * head_dim + dim) * size;
  const int inner = 32 / size;
  const auto within = static_cast<int>(slot % (2 * inner));  // a unit is two pieces long
  return slot / (2 * inner) * kCacheUnitBytes + (dim / 16 * 2 + within / inner) * kCachePieceBytes +
         piece_place(size, dim % 16, within % inner);
}

// The same of a format with scales: the byte of a code, by how many bits it lies above the lowest there, and the place
// of a block's scale.
constexpr int kHalfPieceBytes = kCachePieceBytes / 2;  // of NVFP4: 16 rows of 32 inner indices
[[nodiscard]] constexpr std::int64_t tile_place(CacheFormat format, std::int64_t slot) {
  return slot / kTilePositions * (kTilePositions * cache_row_bytes(format, kTensorHeadDim));
}
[[nodiscard]] constexpr std::int64_t key_code_place(CacheFormat format, int head_dim, std::int64_t slot, int dim) {
  if (!cache_is_tiled(format, head_dim))
    return slot * cache_row_bytes(format, head_dim) + (format == CacheFormat::kNVFP4 ? dim / 2 : dim);
  const auto within = static_cast<int>(slot % kTilePositions);
  const std::int64_t group =
      tile_place(format, slot) + within / 16 * std::int64_t{16 * row_code_bytes(format, kTensorHeadDim)};
  const int row = within % 16;
  const int inner = dim % 32;
  if (format == CacheFormat::kInt8) return group + dim / 32 * kCachePieceBytes + piece_place(1, row, inner);
  return group + dim / 32 * kHalfPieceBytes + (row % 8 * 4 + inner % 8 / 2) * 8 + inner / 8 * 2 + row / 8;
}
[[nodiscard]] constexpr int key_code_shift(CacheFormat format, int dim) {
  return format == CacheFormat::kNVFP4 ? dim % 2 * 4 : 0;
}
[[nodiscard]] constexpr std::int64_t key_scale_place(CacheFormat format, int head_dim, std::int64_t slot, int block) {
  const int bytes = scale_bytes(format);
  const int codes = row_code_bytes(format, head_dim);
  if (!cache_is_tiled(format, head_dim)) return slot * cache_row_bytes(format, head_dim) + codes + block * bytes;
  return tile_place(format, slot) + kTilePositions * codes +
         (slot % kTilePositions * row_scales(format, head_dim) + block) * bytes;
}
[[nodiscard]] constexpr std::int64_t value_code_place(CacheFormat format, int head_dim, std::int64_t slot, int dim) {
  if (!cache_is_tiled(format, head_dim)) return key_code_place(format, head_dim, slot, dim);
  const auto within = static_cast<int>(slot % kTilePositions);
  const int piece = dim / 16 * 2 + within / 32;
  const int inner = within % 32;
  if (format == CacheFormat::kInt8)
    return tile_place(format, slot) + piece * kCachePieceBytes + piece_place(1, dim % 16, inner);
  return tile_place(format, slot) + piece * kHalfPieceBytes + (dim % 8 * 4 + inner % 8 / 2) * 8 + inner / 8 * 2 +
         inner % 2;
}
[[nodiscard]] constexpr int value_code_shift(CacheFormat format, int head_dim, int dim) {
  if (!cache_is_tiled(format, head_dim)) return key_code_shift(format, dim);
  return format == CacheFormat::kNVFP4 ? dim / 8 % 2 * 4 : 0;
}
[[nodiscard]] constexpr std::int64_t value_scale_place(CacheFormat format, int head_dim, std::int64_t slot, int block) {
  if (!cache_is_tiled(format, head_dim)) return key_scale_place(format, head_dim, slot, block);
  const auto within = static_cast<int>(slot % kTilePositions);
  const int place = within / 32 * 32 + within % 8 / 2 * 8 + within / 8 % 4 * 2 + within % 2;
  return tile_place(format, slot) + kTilePositions * row_code_bytes(format, head_dim) +
         (block * kTilePositions + place) * scale_bytes(format);
}

// Unlike formats of which one has scales.
[[nodiscard]] constexpr bool mixes_scales(CacheFormat key, CacheFormat value) {
  return key != value && (has_scales(key) || has_scales(value));
}
// Which pairs of formats the tensor-core kernels are instantiated for; the others run in FP32. Of unlike ones with
// scales those whose keys are the finer: every pair would be as many kernels again.
[[nodiscard]] constexpr bool has_tiles_kernel(CacheFormat key, CacheFormat value) {
  if (key == CacheFormat::kFP32 || value == CacheFormat::kFP32) return false;
  if (!mixes_scales(key, value)) return true;
  const bool of_bf16 = key == CacheFormat::kBF16;
  return value == CacheFormat::kInt8 ? of_bf16 : value == CacheFormat::kNVFP4 && (of_bf16 || key == CacheFormat::kInt8);
}

// Rotated queries for the tensor-core kernels, FP16, as operand B: for each key-value head and each group of tokens one
// block of columns (column = token of the group * heads a kv head + head), 8 columns a column tile. Offset in elements
// within the block: [column / 8][dim / 32][lane = column % 8, pair][step][half][number].
constexpr int kColumnTileElements = 8 * kTensorHeadDim;
[[nodiscard]] constexpr int query_place(int column, int dim) {
  return column / 8 * kColumnTileElements + dim / 32 * 256 + (column % 8 * 4 + dim % 8 / 2) * 8 + dim % 32 / 8 * 2 +
         dim % 2;
}

// Parts. A token at `position` sums its context in parts of this many positions, cut at multiples of it, and adds the
// parts in an order of their own (attention_merge.cu). A function of the position alone: neither the number of tokens
// in a pass nor the context bound changes a bit. Just long enough that the parts of all key-value heads are no more
// than one block an SM of 132; while parts are of a tile or two, no more than half of that, so that a verify's tokens
// are two groups of blocks, each with half of the columns, and the merge has half as much to read.
constexpr int kPartBlocks = 132;
constexpr int kShortPartTiles = 2;
[[nodiscard]] constexpr int most_parts(int kv_heads) {
  return kv_heads < kPartBlocks ? kPartBlocks / kv_heads : 1;
}
[[nodiscard]] constexpr int part_positions(int kv_heads, int position) {
  const auto tiles_a_part = [&](int parts) { return position / (kTilePositions * parts) + 1; };
  const int most = most_parts(kv_heads);
  const int of_half = tiles_a_part(most > 1 ? most / 2 : 1);
  const int of_all = tiles_a_part(most);
  const int as_short = of_half < kShortPartTiles ? of_half : kShortPartTiles;
  return kTilePositions * (of_all > as_short ? of_all : as_short);
}
// Parts of a token at `position`, and the most of any token below a bound.
[[nodiscard]] constexpr int part_count(int kv_heads, int position) {
  return position / part_positions(kv_heads, position) + 1;
}
[[nodiscard]] constexpr int parts_below(int kv_heads, std::int64_t bound) {
  int most = 1;
  for (std::int64_t tile = 0; tile < bound; tile += kTilePositions) {
    const int count = part_count(kv_heads, static_cast<int>(tile));
    most = count > most ? count : most;
  }
  return most;
}
// Parts are merged as kMergeLanes sums, of every kMergeLanes-th part each, added in order.
constexpr int kMergeLanes = 8;
// How the query rows of one key-value head (tokens x heads a kv head) become columns of the tensor-core kernels: groups
// of tokens, each of column_tiles * 8 columns of which the first tokens_a_group * heads_a_kv_head are used.
struct ColumnPlan {
  int column_tiles = 0;
  int tokens_a_group = 0;
  int groups = 0;
};
constexpr int kMostColumnTiles = 12;
constexpr int kColumnTileCounts[] = {1, 2, 4, 6, kMostColumnTiles};  // what is instantiated
constexpr int kMixedColumnTileCounts[] = {4, kMostColumnTiles};      // of pairs that mixes_scales
constexpr int kFewBlocks = 132;                                      // fewer leave SMs idle
// For a launch of `blocks` thread blocks a group: as many groups as idle SMs can take, else as few as possible. No bit
// of a result depends on it.
[[nodiscard]] constexpr ColumnPlan plan_columns(int heads_a_kv_head, int tokens, int blocks,
                                                std::span<const int> counts = kColumnTileCounts) {
  const int most = 8 * kMostColumnTiles / heads_a_kv_head;  // tokens a group
  int groups = (tokens + most - 1) / most;
  while (groups < tokens && (groups + 1) * blocks <= kFewBlocks) ++groups;
  const int a_group = (tokens + groups - 1) / groups;
  groups = (tokens + a_group - 1) / a_group;
  for (const int tiles : counts) {
    if (heads_a_kv_head * a_group <= 8 * tiles) return {tiles, a_group, groups};
  }
  return {};  // check_attention_shape refuses so many heads a key-value head
}

}  // namespace tare::engine
