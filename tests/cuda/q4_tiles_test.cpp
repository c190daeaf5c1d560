// The order of packed q4 weights against the register fragments of the PTX ISA, written down here a second time.
#include "engine/cuda/q4_tiles.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "base/philox.h"
#include "engine/cuda/q4_activations.h"
#include "engine/formats/weight_groups.h"

namespace tare::engine {
namespace {

struct TestMatrix {
  std::vector<std::int8_t> codes;
  std::vector<std::uint16_t> scales;
  Q4Matrix matrix;
};

TestMatrix random_matrix(std::int64_t rows, std::int64_t columns) {
  Philox random(7);
  TestMatrix made;
  for (std::int64_t index = 0; index < rows * columns; ++index) {
    made.codes.push_back(static_cast<std::int8_t>(static_cast<int>(random.below(16)) - 8));
  }
  for (std::int64_t index = 0; index < rows * group_count(columns); ++index) {
    made.scales.push_back(static_cast<std::uint16_t>(random.below(0x7C00)));
  }
  made.matrix = {.rows = rows, .columns = columns, .codes = made.codes, .scales = made.scales};
  return made;
}

std::uint32_t word_at(std::span<const std::byte> bytes, std::size_t offset) {
  std::uint32_t word = 0;
  std::memcpy(&word, bytes.data() + offset, sizeof word);
  return word;
}

// Operand A of one K step as the kernel's FP16 form unpacks it: four registers of two integers.
std::array<std::array<int, 2>, 4> unpack(std::uint32_t word) {
  const std::uint32_t upper = word >> 8;
  const std::array<std::uint32_t, 4> registers{word & 0x000F'000FU, (word & 0x00F0'00F0U) >> 4, upper & 0x000F'000FU,
                                               (upper & 0x00F0'00F0U) >> 4};
  std::array<std::array<int, 2>, 4> halves{};
  for (std::size_t index = 0; index < 4; ++index) {
    halves[index] = {static_cast<int>(registers[index] & 0xFFFFU), static_cast<int>(registers[index] >> 16)};
  }
  return halves;
}

// Row and column of a 64 x 16 operand A that register r, half h of a warpgroup's thread holds: figure "WGMMA .m64nNk16
// register fragment layout for matrix A" of the PTX ISA.
std::array<int, 2> fragment_place(int thread, int r, int h) {
  const int row = 16 * (thread / 32) + thread % 32 / 4 + (r == 1 || r == 3 ? 8 : 0);
  const int column = thread % 4 * 2 + h + (r >= 2 ? 8 : 0);
  return {row, column};
}

TEST(Q4Tiles, EveryThreadFindsItsFragmentsInItsSixteenBytes) {
  const TestMatrix test = random_matrix(512, 128);
  std::vector<std::byte> packed(2 * kQ4UnitBytes);
  pack_q4_row_block(test.matrix, 1, packed);
  for (int unit = 0; unit < 2; ++unit) {
    for (int tile = 0; tile < 4; ++tile) {  // in order of rows: warpgroup 0 has tiles 0 and 1
      for (int thread = 0; thread < 128; ++thread) {
        for (int step = 0; step < 4; ++step) {
          const std::size_t offset =
              static_cast<std::size_t>(unit * kQ4UnitBytes + (tile * 128 + thread) * 16 + step * 4);
          const auto halves = unpack(word_at(packed, offset));
          for (int r = 0; r < 4; ++r) {
            for (int h = 0; h < 2; ++h) {
              const auto [row, column] = fragment_place(thread, r, h);
              const int source_row = 256 + tile * 64 + row;
              const int source_column = unit * 64 + step * 16 + column;
              ASSERT_EQ(halves[static_cast<std::size_t>(r)][static_cast<std::size_t>(h)] - 8,
                        test.codes[static_cast<std::size_t>(source_row * 128 + source_column)]);
            }
          }
        }
      }
    }
  }
}

TEST(Q4Tiles, EveryThreadFindsTheScalesOfItsRowsInOneEightByteWord) {
  const TestMatrix test = random_matrix(256, 64);
  std::vector<std::byte> packed(2 * kQ4UnitBytes);
  pack_q4_row_block(test.matrix, 0, packed);
  for (int warp = 0; warp < 8; ++warp) {
    for (int g = 0; g < 8; ++g) {
      for (int tile = 0; tile < 2; ++tile) {
        const std::uint32_t pair =
            word_at(packed, static_cast<std::size_t>(kQ4CodeBytes + (warp * 8 + g) * 8 + tile * 4));
        const int row = warp / 4 * 128 + tile * 64 + warp % 4 * 16 + g;
        EXPECT_EQ(pair & 0xFFFFU, test.scales[static_cast<std::size_t>(row)]);
        EXPECT_EQ(pair >> 16, test.scales[static_cast<std::size_t>(row + 8)]);
      }
    }
  }
}

TEST(Q4Tiles, PaddingIsZeroWeightsUpToAnEvenNumberOfUnits) {
  for (const int columns : {40, 64, 70}) {
    const TestMatrix test = random_matrix(3, columns);
    std::vector<std::byte> packed(2 * kQ4UnitBytes, std::byte{0x5A});
    pack_q4_row_block(test.matrix, 0, packed);
    for (int unit = 0; unit < 2; ++unit) {
      const auto codes = std::span(packed).subspan(static_cast<std::size_t>(unit * kQ4UnitBytes), kQ4CodeBytes);
      for (int row = 0; row < kQ4BlockRows; ++row) {
        for (int column = 0; column < kQ4UnitColumns; ++column) {
          if (row < 3 && unit * 64 + column < columns) continue;
          const int nibble = q4_place(row, column).nibble;
          const int code =
              static_cast<int>(codes[static_cast<std::size_t>(nibble / 2)] >> (nibble % 2 * 4) & std::byte{0xF});
          ASSERT_EQ(code, 8);
        }
      }
      for (int row = 3; row < kQ4BlockRows; ++row) {
        const std::size_t at =
            static_cast<std::size_t>(unit * kQ4UnitBytes + kQ4CodeBytes + q4_place(row, 0).scale * 2);
        ASSERT_EQ(packed[at], std::byte{0});
        ASSERT_EQ(packed[at + 1], std::byte{0});
      }
    }
  }
}

TEST(Q4Tiles, SpansOfAnotherSizeAndCodesOutsideTheRangeAreRefused) {
  TestMatrix test = random_matrix(2, 64);
  std::vector<std::byte> packed(2 * kQ4UnitBytes);
  EXPECT_THROW(pack_q4_row_block(test.matrix, 1, packed), Error);
  EXPECT_THROW(pack_q4_row_block(test.matrix, 0, std::span(packed).first(100)), Error);
  test.codes[5] = 8;
  EXPECT_THROW(pack_q4_row_block(test.matrix, 0, packed), Error);
}

// Core matrices of 8 tokens x 16 bytes; 16 tokens bytes along K, 128 bytes along tokens: the two strides of the
// descriptor.
TEST(Q4Activations, PanelIsCoreMatricesInTheDescriptorsOrder) {
  for (const int tokens : {8, 16}) {
    for (int token = 0; token < tokens; ++token) {
      for (int column = 0; column < 64; ++column) {
        const int core = column / 8 * (16 * tokens) + token / 8 * 128;
        EXPECT_EQ(2 * q4_panel_place(tokens, token, column), core + token % 8 * 16 + column % 8 * 2);
      }
    }
  }
}

TEST(Q4Activations, EachLaneFindsTheOffsetsOfItsTokensSideBySide) {
  for (const int tokens : {8, 16}) {
    for (int p = 0; p < 4; ++p) {
      for (int j = 0; j < tokens / 8; ++j) {
        for (int v = 0; v < 2; ++v) {
          EXPECT_EQ(q4_offset_place(tokens, 8 * j + 2 * p + v), p * (tokens / 4) + 2 * j + v);
        }
      }
    }
  }
}

}  // namespace
}  // namespace tare::engine
