// The order of packed weights against the register fragments of the PTX ISA, written down here a second time, and
// against the integer arithmetic by which the kernels unpack them.
#include "engine/cuda/product/tiles.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <set>
#include <vector>

#include "base/error.h"
#include "base/philox.h"
#include "engine/cuda/product/product.h"
#include "engine/formats/weight_groups.h"

namespace tare::engine {
namespace {

constexpr WeightFormat kFormats[] = {WeightFormat::kBF16, WeightFormat::kQ8, WeightFormat::kQ4, WeightFormat::kQ3,
                                     WeightFormat::kFP8};

struct TestMatrix {
  std::vector<std::uint16_t> fields;
  std::vector<std::uint16_t> scales;
  FieldMatrix matrix;
};

TestMatrix random_matrix(WeightFormat format, std::int64_t rows, std::int64_t columns) {
  Philox random(7);
  TestMatrix made;
  for (std::int64_t index = 0; index < rows * columns; ++index) {
    made.fields.push_back(static_cast<std::uint16_t>(random.below(1U << code_bits(format))));
  }
  if (has_scales(format)) {
    for (std::int64_t index = 0; index < rows * group_count(columns); ++index) {
      made.scales.push_back(static_cast<std::uint16_t>(1 + random.below(0x7BFF)));
    }
  }
  made.matrix = {format, rows, columns, made.fields, made.scales};
  return made;
}

std::vector<std::uint32_t> words_of(std::span<const std::byte> bytes) {
  std::vector<std::uint32_t> words(bytes.size() / 4);
  std::memcpy(words.data(), bytes.data(), words.size() * 4);
  return words;
}
std::uint16_t scale_at(std::span<const std::byte> unit, WeightFormat format, int place) {
  std::uint16_t scale = 0;
  std::memcpy(&scale, unit.data() + unit_code_bytes(format) + 2 * place, sizeof scale);
  return scale;
}

// Operand A of one K step as a kernel unpacks it: four registers of two halves, as integers times `factor[r]`.
struct Operand4 {
  std::array<std::array<std::uint32_t, 2>, 4> halves{};
  std::array<std::uint32_t, 4> factor{1, 1, 1, 1};
};
Operand4 from_registers(const std::array<std::uint32_t, 4>& registers, const std::array<std::uint32_t, 4>& factor) {
  Operand4 operand{.factor = factor};
  for (std::size_t r = 0; r < 4; ++r) operand.halves[r] = {registers[r] & 0xFFFFU, registers[r] >> 16};
  return operand;
}
Operand4 unpack(WeightFormat format, const std::vector<std::uint32_t>& words, int tile, int thread, int step) {
  const auto word = [&](int index) { return words[static_cast<std::size_t>(index)]; };
  if (format == WeightFormat::kQ4) {
    const std::uint32_t low = word((tile * 128 + thread) * 4 + step);
    const std::uint32_t high = low >> 8 | low << 24;
    return from_registers({low & 0x003C'003CU, low & 0x03C0'03C0U, high & 0x003C'003CU, high & 0x03C0'03C0U},
                          {4, 64, 4, 64});
  }
  if (format == WeightFormat::kBF16) {
    const int first = (tile * 4 + step) * 512 + thread * 4;
    return from_registers({word(first), word(first + 1), word(first + 2), word(first + 3)}, {1, 1, 1, 1});
  }
  if (format == WeightFormat::kQ8 || format == WeightFormat::kFP8) {
    const int first = (tile * 2 + step / 2) * 512 + thread * 4 + step % 2 * 2;
    const auto spread = [](std::uint32_t two) { return (two & 0xFFU) | (two & 0xFF00U) << 8; };
    return from_registers({spread(word(first) & 0xFFFFU), spread(word(first) >> 16), spread(word(first + 1) & 0xFFFFU),
                           spread(word(first + 1) >> 16)},
                          {1, 1, 1, 1});
  }
  const std::array<std::uint32_t, 3> three{word(tile * 384 + thread * 2), word(tile * 384 + thread * 2 + 1),
                                           word(tile * 384 + 256 + thread)};
  if (step < 3) {
    const std::uint32_t low = three[static_cast<std::size_t>(step)];
    const std::uint32_t high = low >> 6;
    return from_registers({low & 0x0070'0070U, low & 0x0380'0380U, high & 0x0070'0070U, high & 0x0380'0380U},
                          {16, 128, 16, 128});
  }
  const std::uint32_t split =
      (three[0] << 1 & 0x0010'0010U) | (three[1] << 2 & 0x0020'0020U) | (three[2] << 3 & 0x0040'0040U);
  return from_registers({three[0] & 0x0007'0007U, three[1] & 0x0007'0007U, split, three[2] & 0x0007'0007U},
                        {1, 1, 16, 1});
}

// Row and column of a 64 x 16 operand A that register r, half h of a warpgroup's thread holds: figure "WGMMA .m64nNk16
// register fragment layout for matrix A" of the PTX ISA.
std::array<int, 2> fragment_place(int thread, int r, int h) {
  const int row = 16 * (thread / 32) + thread % 32 / 4 + (r == 1 || r == 3 ? 8 : 0);
  const int column = thread % 4 * 2 + h + (r >= 2 ? 8 : 0);
  return {row, column};
}

TEST(Tiles, EveryThreadFindsItsFragmentsWhereItUnpacksThem) {
  for (const WeightFormat format : kFormats) {
    const TestMatrix test = random_matrix(format, 512, 128);
    const std::vector<std::byte> packed = pack_tiles(test.matrix);
    for (int unit = 0; unit < 2; ++unit) {  // of the second row block
      const auto words = words_of(std::span(packed).subspan(static_cast<std::size_t>((2 + unit) * unit_bytes(format))));
      for (int tile = 0; tile < 4; ++tile) {
        for (int thread = 0; thread < 128; ++thread) {
          for (int step = 0; step < 4; ++step) {
            const Operand4 operand = unpack(format, words, tile, thread, step);
            for (int r = 0; r < 4; ++r) {
              for (int h = 0; h < 2; ++h) {
                const auto [row, column] = fragment_place(thread, r, h);
                const int source = (256 + tile * 64 + row) * 128 + unit * 64 + step * 16 + column;
                const auto at = static_cast<std::size_t>(r);
                ASSERT_EQ(operand.halves[at][static_cast<std::size_t>(h)],
                          test.fields[static_cast<std::size_t>(source)] * operand.factor[at])
                    << static_cast<int>(format) << " tile " << tile << " thread " << thread << " step " << step;
              }
            }
          }
        }
      }
    }
  }
}

// Rows g and g + 8 of its warp in each of the four tiles.
TEST(Tiles, EveryThreadFindsTheScalesOfItsRowsInOneSixteenByteWord) {
  for (const WeightFormat format : kFormats) {
    if (!has_scales(format)) continue;
    const TestMatrix test = random_matrix(format, 256, 64);
    const std::vector<std::byte> unit = pack_tiles(test.matrix);
    for (int warp = 0; warp < 4; ++warp) {
      for (int g = 0; g < 8; ++g) {
        for (int tile = 0; tile < 4; ++tile) {
          const int row = tile * 64 + warp * 16 + g;
          const int place = (warp * 8 + g) * 8 + tile * 2;
          EXPECT_EQ(scale_at(unit, format, place), test.scales[static_cast<std::size_t>(row)]);
          EXPECT_EQ(scale_at(unit, format, place + 1), test.scales[static_cast<std::size_t>(row + 8)]);
        }
      }
    }
  }
}

TEST(Tiles, EveryBitOfAUnitHasOneWeight) {
  for (const WeightFormat format : kFormats) {
    std::set<int> bits;
    for (int row = 0; row < kUnitRows; ++row) {
      for (int column = 0; column < kUnitColumns; ++column) {
        const CodePlace place = code_place(format, row, column);
        for (int bit = 0; bit < code_bits(format); ++bit) {
          bits.insert(place.split ? place.word[bit] * 32 + place.bit : place.word[0] * 32 + (place.bit + bit) % 32);
        }
      }
    }
    EXPECT_EQ(std::ssize(bits), unit_code_bytes(format) * 8);
    EXPECT_EQ(*bits.begin(), 0);
    EXPECT_EQ(*bits.rbegin(), unit_code_bytes(format) * 8 - 1);
    EXPECT_EQ(unit_bytes(format) % 128, 0);
  }
  for (int row = 0; row < kUnitRows; ++row) EXPECT_EQ(scale_row(scale_place(row)), row);
}

TEST(Tiles, WeightsAreReadBackFromWhereTheyWerePackedAndPaddingIsZeroWeights) {
  constexpr std::array<std::array<int, 2>, 5> kShapes{{{1, 64}, {3, 40}, {70, 100}, {300, 130}, {256, 192}}};
  for (const WeightFormat format : kFormats) {
    for (const auto& [rows, columns] : kShapes) {
      const TestMatrix test = random_matrix(format, rows, columns);
      const std::vector<std::byte> packed = pack_tiles(test.matrix);
      const std::int64_t units = units_a_row_block(columns);
      ASSERT_EQ(units % 2, 0);
      ASSERT_EQ(std::ssize(packed), tile_bytes(format, rows, columns));
      ASSERT_EQ(std::ssize(packed), unit_row_blocks(rows) * units * unit_bytes(format));
      for (std::int64_t index = 0; index < unit_row_blocks(rows) * units; ++index) {
        const auto unit = std::span(packed).subspan(static_cast<std::size_t>(index * unit_bytes(format)),
                                                    static_cast<std::size_t>(unit_bytes(format)));
        const auto words = words_of(unit);
        for (int row = 0; row < kUnitRows; ++row) {
          const auto source_row = index / units * kUnitRows + row;
          const auto group = index % units;
          for (int column = 0; column < kUnitColumns; ++column) {
            const auto source_column = group * kUnitColumns + column;
            const bool real = source_row < rows && source_column < columns;
            const auto expected = real ? test.fields[static_cast<std::size_t>(source_row * columns + source_column)]
                                       : static_cast<std::uint16_t>(code_bias(format));
            ASSERT_EQ(read_code(format, words.data(), row, column), expected);
          }
          if (!has_scales(format)) continue;
          const bool real = source_row < rows && group < group_count(columns);
          ASSERT_EQ(scale_at(unit, format, scale_place(row)),
                    real ? test.scales[static_cast<std::size_t>(source_row * group_count(columns) + group)] : 0);
        }
      }
    }
  }
}

TEST(Tiles, BytesAreTheFormatsBits) {
  constexpr std::int64_t kWeights = std::int64_t{512} * 1024;
  EXPECT_EQ(tile_bytes(WeightFormat::kQ3, 512, 1024) * 8, kWeights * 3 + kWeights / 64 * 16);
  EXPECT_EQ(tile_bytes(WeightFormat::kQ4, 512, 1024) * 8, kWeights * 4 + kWeights / 64 * 16);
  EXPECT_EQ(tile_bytes(WeightFormat::kQ8, 512, 1024) * 8, kWeights * 8 + kWeights / 64 * 16);
  EXPECT_EQ(tile_bytes(WeightFormat::kFP8, 512, 1024) * 8, kWeights * 8 + kWeights / 64 * 16);
  EXPECT_EQ(tile_bytes(WeightFormat::kBF16, 512, 1024) * 8, kWeights * 16);
}

TEST(Tiles, SpansOfAnotherSizeAndFieldsOfTooManyBitsAreRefused) {
  TestMatrix test = random_matrix(WeightFormat::kQ3, 2, 64);
  FieldMatrix other = test.matrix;
  other.rows = 3;
  EXPECT_THROW((void)pack_tiles(other), Error);
  other = test.matrix;
  other.scales = {};
  EXPECT_THROW((void)pack_tiles(other), Error);
  test.fields[5] = 8;
  EXPECT_THROW((void)pack_tiles(test.matrix), Error);
}

}  // namespace
}  // namespace tare::engine
