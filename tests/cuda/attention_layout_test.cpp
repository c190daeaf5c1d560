// The order of cache and queries against the fragments of mma.m16n8k16 (PTX ISA), written down here a second time; the
// cut of a context into parts.
#include "engine/cuda/attention/attention_layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <utility>

namespace tare::engine {
namespace {

constexpr CacheFormat kTiledFormats[] = {CacheFormat::kBF16, CacheFormat::kFP8};
constexpr CacheFormat kScaledFormats[] = {CacheFormat::kInt8, CacheFormat::kNVFP4};

// Operand A of lane 4 g + p, number i of 8: row and inner index; operand B, number i of 4: inner index and column.
int row_of(int lane, int i) {
  return lane / 4 + i / 2 % 2 * 8;
}
int inner_of_a(int lane, int i) {
  return lane % 4 * 2 + i % 2 + i / 4 * 8;
}
int inner_of_b(int lane, int i) {
  return lane % 4 * 2 + i % 2 + i / 2 * 8;
}

TEST(AttentionLayout, EveryNumberHasItsOwnPlace) {
  for (const CacheFormat format : {CacheFormat::kFP32, CacheFormat::kBF16, CacheFormat::kFP8}) {
    for (const int head_dim : {24, 64, 256}) {
      std::set<std::int64_t> keys;
      std::set<std::int64_t> values;
      const std::int64_t slots = cache_slots(130);
      for (std::int64_t slot = 0; slot < slots; ++slot) {
        for (int dim = 0; dim < head_dim; ++dim) {
          keys.insert(key_place(format, head_dim, slot, dim));
          values.insert(value_place(format, head_dim, slot, dim));
        }
      }
      const std::int64_t bytes = slots * head_dim * element_bytes(format);
      for (const auto& places : {keys, values}) {
        EXPECT_EQ(static_cast<std::int64_t>(places.size()), slots * head_dim);
        EXPECT_EQ(*places.begin(), 0);
        EXPECT_EQ(*places.rbegin(), bytes - element_bytes(format));
      }
    }
  }
}

// Codes and scales of a head's run lie apart, and together are all of its bytes; positions share none.
TEST(AttentionLayout, EveryCodeAndScaleHasItsOwnPlace) {
  for (const CacheFormat format : kScaledFormats) {
    for (const int head_dim : {8, 24, 64, 72, 256}) {
      for (const bool of_values : {false, true}) {
        std::set<std::pair<std::int64_t, int>> codes;
        std::map<std::int64_t, std::int64_t> owners;  // slot of a byte
        const std::int64_t slots = cache_slots(130);
        const auto own = [&](std::int64_t byte, std::int64_t slot) {
          EXPECT_EQ(owners.emplace(byte, slot).first->second, slot) << "byte " << byte;
        };
        for (std::int64_t slot = 0; slot < slots; ++slot) {
          std::set<std::int64_t> code_bytes;
          for (int dim = 0; dim < head_dim; ++dim) {
            const std::int64_t place =
                of_values ? value_code_place(format, head_dim, slot, dim) : key_code_place(format, head_dim, slot, dim);
            codes.emplace(place, of_values ? value_code_shift(format, head_dim, dim) : key_code_shift(format, dim));
            code_bytes.insert(place);
            own(place, slot);
          }
          for (int block = 0; block < row_scales(format, head_dim); ++block) {
            const std::int64_t place = of_values ? value_scale_place(format, head_dim, slot, block)
                                                 : key_scale_place(format, head_dim, slot, block);
            EXPECT_EQ(place % scale_bytes(format), 0);
            for (int byte = 0; byte < scale_bytes(format); ++byte) {
              EXPECT_EQ(code_bytes.count(place + byte), 0U);
              own(place + byte, slot);
            }
          }
        }
        EXPECT_EQ(static_cast<std::int64_t>(codes.size()), slots * head_dim);
        EXPECT_EQ(static_cast<std::int64_t>(owners.size()), slots * cache_row_bytes(format, head_dim));
        EXPECT_EQ(owners.begin()->first, 0);
        EXPECT_EQ(owners.rbegin()->first, slots * cache_row_bytes(format, head_dim) - 1);
      }
    }
  }
}

TEST(AttentionLayout, RowsWithScalesHaveTheBytesOfTheDocs) {
  EXPECT_EQ(cache_row_bytes(CacheFormat::kInt8, 256), 264);
  EXPECT_EQ(cache_row_bytes(CacheFormat::kNVFP4, 256), 144);
  EXPECT_EQ(cache_row_bytes(CacheFormat::kInt8, 24), 24 + 2);
  EXPECT_EQ(cache_row_bytes(CacheFormat::kNVFP4, 24), 12 + 2);
  EXPECT_EQ(cache_row_bytes(CacheFormat::kBF16, 24), 48);
}

// Of int8 the operands of FP8; of nvfp4 a lane's 4 bytes of a step: keys a register a byte, the even number in its
// lower half; values two registers of one position a byte, rows below 8 in its lower half. The scales of a lane's
// positions of two steps lie together.
TEST(AttentionLayout, CodesAreOperandA) {
  constexpr int kDim = kTensorHeadDim;
  for (const CacheFormat format : kScaledFormats) {
    const bool int8 = format == CacheFormat::kInt8;
    const int tile_bytes = kTilePositions * cache_row_bytes(format, kDim);
    const int piece_bytes = int8 ? kCachePieceBytes : kCachePieceBytes / 2;
    for (int tile = 0; tile < 2; ++tile) {
      for (int step = 0; step < kDim / 16; ++step) {
        for (int lane = 0; lane < 32; ++lane) {
          for (int i = 0; i < 8; ++i) {
            const int at = (int8 ? 16 * lane : 8 * lane) + (step % 2 * 8 + i) / (int8 ? 1 : 2);
            for (int group = 0; group < 4; ++group) {
              const std::int64_t slot = 64 * tile + 16 * group + row_of(lane, i);
              const int dim = 16 * step + inner_of_a(lane, i);
              EXPECT_EQ(key_code_place(format, kDim, slot, dim),
                        tile * tile_bytes + (group * 8 + step / 2) * piece_bytes + at);
              EXPECT_EQ(key_code_shift(format, dim), int8 ? 0 : i % 2 * 4);
            }
            if (step >= 4) continue;  // of 16 positions
            for (int dims = 0; dims < kDim; dims += 16) {
              const std::int64_t slot = 64 * tile + 16 * step + inner_of_a(lane, i);
              const int within = int8 ? at : 8 * lane + step % 2 * 4 + i / 4 * 2 + i % 2;
              EXPECT_EQ(value_code_place(format, kDim, slot, dims + row_of(lane, i)),
                        tile * tile_bytes + (dims / 16 * 2 + step / 2) * piece_bytes + within);
              EXPECT_EQ(value_code_shift(format, kDim, dims + row_of(lane, i)), int8 ? 0 : i / 2 % 2 * 4);
              const int block = dims / scale_block(format);
              const std::int64_t scales = tile * tile_bytes + kTilePositions * row_code_bytes(format, kDim) +
                                          block * kTilePositions * scale_bytes(format);
              EXPECT_EQ(
                  value_scale_place(format, kDim, slot, block),
                  scales + (step / 2 * 32 + lane % 4 * 8 + (2 * (step % 2) + i / 4) * 2 + i % 2) * scale_bytes(format));
            }
          }
        }
      }
    }
  }
}

// Scores: row is a position, the inner index a dim. A lane's 16 bytes hold the operands of 2 (FP8) or 1 step, in order.
TEST(AttentionLayout, KeysAreOperandA) {
  for (const CacheFormat format : kTiledFormats) {
    const int size = element_bytes(format);
    for (int position_tile = 0; position_tile < 5; ++position_tile) {
      for (int step = 0; step < kTensorHeadDim / 16; ++step) {
        for (int lane = 0; lane < 32; ++lane) {
          for (int i = 0; i < 8; ++i) {
            const std::int64_t piece =
                position_tile * (16 * kTensorHeadDim * size) + step * size / 2 * kCachePieceBytes;
            EXPECT_EQ(key_place(format, kTensorHeadDim, 16 * position_tile + row_of(lane, i),
                                16 * step + inner_of_a(lane, i)),
                      piece + lane * 16 + (step % (2 / size) * 8 + i) * size);
          }
        }
      }
    }
  }
}

TEST(AttentionLayout, QueriesAreOperandB) {
  for (int tile = 0; tile < 3; ++tile) {
    for (int step = 0; step < kTensorHeadDim / 16; ++step) {
      for (int lane = 0; lane < 32; ++lane) {
        for (int i = 0; i < 4; ++i) {
          EXPECT_EQ(query_place(8 * tile + lane / 4, 16 * step + inner_of_b(lane, i)),
                    tile * kColumnTileElements + (step / 2 * 32 + lane) * 8 + step % 2 * 4 + i);
        }
      }
    }
  }
}

// Sums of values: row is a dim, the inner index a position.
TEST(AttentionLayout, ValuesAreOperandA) {
  for (const CacheFormat format : kTiledFormats) {
    const int size = element_bytes(format);
    const int unit_positions = 64 / size;
    for (int unit = 0; unit < 3; ++unit) {
      for (int dims = 0; dims < kTensorHeadDim; dims += 16) {
        for (int step = 0; step < unit_positions / 16; ++step) {
          for (int lane = 0; lane < 32; ++lane) {
            for (int i = 0; i < 8; ++i) {
              const int piece = unit * kCacheUnitBytes + (dims / 16 * 2 + step * size / 2) * kCachePieceBytes;
              EXPECT_EQ(value_place(format, kTensorHeadDim, unit * unit_positions + 16 * step + inner_of_a(lane, i),
                                    dims + row_of(lane, i)),
                        piece + lane * 16 + (step % (2 / size) * 8 + i) * size);
            }
          }
        }
      }
    }
  }
}

TEST(AttentionLayout, PartsCoverAContextAndStayFew) {
  for (const int kv_heads : {1, 2, 3, 4, 8, 300}) {
    const int most = most_parts(kv_heads);
    const int half = std::max(1, most / 2);
    int before = kTilePositions;
    for (int position = 0; position < 300000; position = position * 9 / 8 + 1) {
      const int size = part_positions(kv_heads, position);
      const int count = part_count(kv_heads, position);
      EXPECT_EQ(size % kTilePositions, 0);
      EXPECT_GE(size, before);
      before = size;
      EXPECT_LE(count, size <= kShortPartTiles * kTilePositions && position < half * kShortPartTiles * kTilePositions
                           ? half
                           : most);
      EXPECT_GT(count * std::int64_t{size}, position);
      EXPECT_LE((count - 1) * std::int64_t{size}, position);
      if (size > kTilePositions) {
        const bool is_short = size <= kShortPartTiles * kTilePositions;
        EXPECT_GT(position / (size - kTilePositions) + 1, is_short ? half : most) << "shorter parts would do";
      }
    }
  }
}

// A launch has blocks for the parts of every token below its bound, and no more than it needs for one of them.
TEST(AttentionLayout, PartsBelowABoundAreTheMostOfAnyToken) {
  for (const int kv_heads : {1, 2, 4, 8, 300}) {
    for (const int bound : {1, 64, 65, 1000, 1024, 1025, 2048, 2500, 4096, 5000}) {
      int most = 0;
      for (int position = 0; position < bound; ++position) most = std::max(most, part_count(kv_heads, position));
      EXPECT_EQ(parts_below(kv_heads, bound), most) << kv_heads << " heads below " << bound;
    }
  }
}

TEST(AttentionLayout, ColumnsHoldAllRowsOfAGroup) {
  for (const int heads : {1, 2, 4, 6, 16, 96}) {
    for (const int blocks : {4, 64, 264}) {
      for (int tokens = 1; tokens <= 32; ++tokens) {
        for (const std::span<const int> counts :
             {std::span<const int>(kColumnTileCounts), std::span<const int>(kMixedColumnTileCounts)}) {
          const ColumnPlan plan = plan_columns(heads, tokens, blocks, counts);
          EXPECT_NE(std::find(counts.begin(), counts.end(), plan.column_tiles), counts.end());
          EXPECT_LE(plan.tokens_a_group * heads, 8 * plan.column_tiles);
          EXPECT_GE(plan.tokens_a_group * plan.groups, tokens);
          EXPECT_LT(plan.tokens_a_group * (plan.groups - 1), tokens);
        }
      }
    }
  }
}

}  // namespace
}  // namespace tare::engine
