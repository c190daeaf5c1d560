// Where the numbers of the attention kernels lie: cache, rotated queries, parts. constexpr, so that host, kernels and
// tests use the same lines.
//
// Cache. Each key-value head has its own run of `slots` positions (the capacity rounded up to a tile of 64). FP32, and
// head dimensions other than 256: plain rows [head][slot][dim]. BF16 and FP8 with head dimension 256 are tiled, so that
// a bulk copy of consecutive bytes is operand A of mma.m16n8k16 without any further order: lane l of a warp finds its
// numbers of four (FP8) or two (BF16) steps in the 16 bytes at 16 l of a piece of 512 bytes.
//   keys    pieces of 8 positions x 64 bytes of dims: [slot / 8][byte / 64][slot % 8][byte % 64]; lane 4 g + p has
//           position g, bytes 16 p .. 16 p + 15. The dims of a step are thus not neighbours; queries have the same
//           order (query_place), and a sum over dims does not mind.
//   values  transposed, pieces of 8 dims x 64 (FP8) or 32 (BF16) positions; lane 4 g + p has dim g and of every 16
//           positions 2 p, 2 p + 1, 2 p + 8, 2 p + 9: as the weights of an m16n8 result lie.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/backend/options.h"

namespace tare::engine {

constexpr int kTensorHeadDim = 256;     // the head dimension that the tensor-core kernels know
constexpr int kMostHeadDim = 256;       // of any kernel
constexpr int kTilePositions = 64;      // positions that are worked on at once
constexpr int kCacheUnitBytes = 16384;  // of one copy: 64 positions of FP8 or 32 of BF16, of one head
constexpr int kCachePieceBytes = 512;

[[nodiscard]] constexpr int element_bytes(CacheFormat format) {
  return format == CacheFormat::kFP32 ? 4 : format == CacheFormat::kBF16 ? 2 : 1;
}
[[nodiscard]] constexpr bool cache_is_tiled(CacheFormat format, int head_dim) {
  return head_dim == kTensorHeadDim && format != CacheFormat::kFP32;
}
[[nodiscard]] constexpr std::int64_t cache_slots(std::int64_t capacity) {
  return (capacity + kTilePositions - 1) / kTilePositions * kTilePositions;
}

// Byte offsets within one head's run.
[[nodiscard]] constexpr std::int64_t key_place(CacheFormat format, int head_dim, std::int64_t slot, int dim) {
  const int size = element_bytes(format);
  if (!cache_is_tiled(format, head_dim)) return (slot * head_dim + dim) * size;
  const int byte = dim * size;
  return slot / 8 * (8 * kTensorHeadDim * size) + byte / 64 * kCachePieceBytes + slot % 8 * 64 + byte % 64;
}
[[nodiscard]] constexpr std::int64_t value_place(CacheFormat format, int head_dim, std::int64_t slot, int dim) {
  const int size = element_bytes(format);
  if (!cache_is_tiled(format, head_dim)) return (slot * head_dim + dim) * size;
  const int piece_positions = 64 / size;
  const auto within = static_cast<int>(slot % piece_positions);
  const int lane = dim % 8 * 4 + within % 8 / 2;
  const int element = within / 16 * 4 + within / 8 % 2 * 2 + within % 2;
  return slot / piece_positions * kCacheUnitBytes + dim / 8 * kCachePieceBytes + lane * 16 + element * size;
}

// Rotated queries for the tensor-core kernels, 16 bits each: for each key-value head and each group of tokens one block
// of columns (column = token of the group * heads a kv head + head), 8 columns a column tile. Offset in elements within
// the block; the block of the low parts, where there is one, follows. `key` is the format of the keys they will meet.
constexpr int kColumnTileElements = 8 * kTensorHeadDim;
[[nodiscard]] constexpr int query_place(CacheFormat key, int column, int dim) {
  const int piece = key == CacheFormat::kFP8 ? dim / 64 * 2 + dim / 8 % 2 : dim / 32;
  const int quarter = key == CacheFormat::kFP8 ? dim / 16 % 4 : dim / 8 % 4;
  return column / 8 * kColumnTileElements + piece * 256 + (column % 8 * 4 + quarter) * 8 + dim % 8;
}

// Parts. A token at `position` sums its context in parts of this many positions, cut at multiples of it, and adds the
// parts in order. A function of the position alone: neither the number of tokens in a pass nor the context bound
// changes a bit. Just long enough that the parts of all key-value heads are no more than two blocks an SM of 132.
constexpr int kPartBlocks = 264;
[[nodiscard]] constexpr int most_parts(int kv_heads) {
  return kv_heads < kPartBlocks ? kPartBlocks / kv_heads : 1;
}
[[nodiscard]] constexpr int part_positions(int kv_heads, int position) {
  const int most = kTilePositions * most_parts(kv_heads);
  return kTilePositions * ((position + most) / most);
}
// Parts of a token at `position`.
[[nodiscard]] constexpr int part_count(int kv_heads, int position) {
  return position / part_positions(kv_heads, position) + 1;
}

// How the query rows of one key-value head (tokens x heads a kv head) become columns of the tensor-core kernels: groups
// of tokens, each of column_tiles * 8 columns of which the first tokens_a_group * heads_a_kv_head are used.
struct ColumnPlan {
  int column_tiles = 0;
  int tokens_a_group = 0;
  int groups = 0;
};
constexpr int kMostColumnTiles = 12;
constexpr int kColumnTileCounts[] = {1, 3, 6, kMostColumnTiles};  // what is instantiated
[[nodiscard]] constexpr ColumnPlan plan_columns(int heads_a_kv_head, int tokens) {
  for (const int tiles : kColumnTileCounts) {
    if (heads_a_kv_head * tokens <= 8 * tiles) return {tiles, tokens, 1};
  }
  const int a_group = 8 * kMostColumnTiles / heads_a_kv_head;
  return {kMostColumnTiles, a_group, (tokens + a_group - 1) / a_group};
}

}  // namespace tare::engine
