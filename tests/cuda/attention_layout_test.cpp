// The order of cache and queries against the fragments of mma.m16n8k16 (PTX ISA), written down here a second time; the
// cut of a context into parts.
#include "engine/cuda/attention_layout.h"

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

// A lane reads 16 bytes of a piece of rows 0..7 and 16 of a piece of rows 8..15; number i of step `step` comes from the
// 4-number half of that step: its numbers 0, 1 are the operand's first register of that row, 2, 3 the second.
int element_of(int step, int i) {
  return step * 4 + i % 2 + i / 4 * 2;
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

// Scores: row is a position, the inner index a dim. Whatever dim a lane's number is of, the query it meets is of that
// dim too, and every dim is met once.
TEST(AttentionLayout, KeysAndQueriesMeetDimByDim) {
  for (const CacheFormat format : kTiledFormats) {
    const int size = element_bytes(format);
    const int steps = 4 / size;
    for (int position_tile = 0; position_tile < 3; ++position_tile) {
      std::set<int> met;
      for (int piece = 0; piece < kTensorHeadDim * size / 64; ++piece) {
        for (int step = 0; step < steps; ++step) {
          std::array<int, 16> dim_of_inner{};
          dim_of_inner.fill(-1);
          for (int lane = 0; lane < 32; ++lane) {
            for (int i = 0; i < 8; ++i) {
              const std::int64_t slot = 16 * position_tile + row_of(lane, i);
              const std::int64_t at = slot / 8 * (8 * kTensorHeadDim * size) + piece * kCachePieceBytes + lane * 16 +
                                      element_of(step, i) * size;
              int dim = 0;
              while (dim < kTensorHeadDim && key_place(format, kTensorHeadDim, slot, dim) != at) ++dim;
              ASSERT_LT(dim, kTensorHeadDim) << "lane " << lane << " reads another position";
              int& expected = dim_of_inner[static_cast<std::size_t>(inner_of_a(lane, i))];
              if (expected < 0) expected = dim;
              EXPECT_EQ(dim, expected) << "rows disagree on the dim of inner index " << inner_of_a(lane, i);
            }
          }
          for (int lane = 0; lane < 32; ++lane) {
            for (int i = 0; i < 4; ++i) {
              const int dim = dim_of_inner[static_cast<std::size_t>(inner_of_b(lane, i))];
              met.insert(dim);
              // Pairs of steps share 16 bytes of queries.
              const int at = (piece * steps / 2 + step / 2) * 256 + lane * 8 + step % 2 * 4 + i;
              EXPECT_EQ(query_place(format, 8 * 2 + lane / 4, dim), 2 * kColumnTileElements + at);
            }
          }
        }
      }
      EXPECT_EQ(met.size(), static_cast<std::size_t>(kTensorHeadDim));
    }
  }
}

// Sums of values: row is a dim, the inner index a position, in its natural order: step s has positions 16 s + index.
TEST(AttentionLayout, ValuesMeetTheirPositions) {
  for (const CacheFormat format : kTiledFormats) {
    const int size = element_bytes(format);
    const int piece_positions = 64 / size;
    for (int unit = 0; unit < 3; ++unit) {
      for (int dims = 0; dims < kTensorHeadDim; dims += 16) {
        for (int step = 0; step < 4 / size; ++step) {
          for (int lane = 0; lane < 32; ++lane) {
            for (int i = 0; i < 8; ++i) {
              const int dim = dims + row_of(lane, i);
              const std::int64_t slot = unit * piece_positions + 16 * step + inner_of_a(lane, i);
              EXPECT_EQ(value_place(format, kTensorHeadDim, slot, dim),
                        unit * kCacheUnitBytes + dim / 8 * kCachePieceBytes + lane * 16 + element_of(step, i) * size);
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
        EXPECT_GT((position + 1) / (size - kTilePositions), most_parts(kv_heads) - 1) << "shorter parts would do";
      }
    }
  }
}

TEST(AttentionLayout, ColumnsHoldAllRowsOfAGroup) {
  for (const int heads : {1, 2, 4, 6, 16, 96}) {
    for (int tokens = 1; tokens <= 32; ++tokens) {
      const ColumnPlan plan = plan_columns(heads, tokens);
      EXPECT_LE(plan.tokens_a_group * heads, 8 * plan.column_tiles);
      EXPECT_GE(plan.tokens_a_group * plan.groups, tokens);
      EXPECT_LT(plan.tokens_a_group * (plan.groups - 1), tokens);
    }
  }
}

}  // namespace
}  // namespace tare::engine
