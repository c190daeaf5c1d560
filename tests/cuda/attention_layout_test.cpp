// The order of cache and queries against the fragments of mma.m16n8k16 (PTX ISA), written down here a second time; the
// cut of a context into parts.
#include "engine/cuda/attention/attention_layout.h"

#include <gtest/gtest.h>

#include <array>
#include <set>

namespace tare::engine {
namespace {

constexpr CacheFormat kTiledFormats[] = {CacheFormat::kBF16, CacheFormat::kFP8};

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
    for (int position = 0; position < 300000; position = position * 9 / 8 + 1) {
      const int size = part_positions(kv_heads, position);
      const int count = part_count(kv_heads, position);
      EXPECT_EQ(size % kTilePositions, 0);
      EXPECT_LE(count, most_parts(kv_heads));
      EXPECT_GT(count * std::int64_t{size}, position);
      EXPECT_LE((count - 1) * std::int64_t{size}, position);
      if (size > kTilePositions) {
        EXPECT_GT(position / (size - kTilePositions) + 1, most_parts(kv_heads)) << "shorter parts would do";
      }
    }
  }
}

TEST(AttentionLayout, ColumnsHoldAllRowsOfAGroup) {
  for (const int heads : {1, 2, 4, 6, 16, 96}) {
    for (const int blocks : {4, 64, 264}) {
      for (int tokens = 1; tokens <= 32; ++tokens) {
        const ColumnPlan plan = plan_columns(heads, tokens, blocks);
        EXPECT_LE(plan.tokens_a_group * heads, 8 * plan.column_tiles);
        EXPECT_GE(plan.tokens_a_group * plan.groups, tokens);
        EXPECT_LT(plan.tokens_a_group * (plan.groups - 1), tokens);
      }
    }
  }
}

}  // namespace
}  // namespace tare::engine
