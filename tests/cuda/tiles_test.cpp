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
#include "tests/cuda/weight_codecs.h"

namespace tare::engine {
namespace {

struct TestMatrix {
  std::vector<std::uint16_t> fields;
  std::vector<std::uint16_t> scales;
  std::vector<float> row_scales;
  FieldMatrix matrix;
};

// Scales of a row, along K.
std::int64_t scales_of(WeightFormat format, std::int64_t columns) {
  return format == WeightFormat::kNVFP4 ? (columns + 15) / 16 : group_count(columns);
}

TestMatrix random_matrix(WeightCodec codec, std::int64_t rows, std::int64_t columns) {
  const WeightFormat format = codec.format;
  Philox random(7);
  TestMatrix made;
  for (std::int64_t index = 0; index < rows * columns; ++index) {
    made.fields.push_back(static_cast<std::uint16_t>(random.below(1U << code_bits(format))));
  }
  if (has_scales(format)) {
    for (std::int64_t index = 0; index < rows * scales_of(format, columns); ++index) {
      made.scales.push_back(static_cast<std::uint16_t>(1 + random.below(has_tensor_scale(codec) ? 0xFF : 0x7BFF)));
    }
  }
  for (std::int64_t row = 0; has_tensor_scale(codec) && row < rows; ++row)
    made.row_scales.push_back(static_cast<float>(1 + random.below(1000)));
  made.matrix = {format, rows, columns, made.fields, made.scales, codec.scales, made.row_scales};
  return made;
}

std::vector<std::uint32_t> words_of(std::span<const std::byte> bytes) {
  std::vector<std::uint32_t> words(bytes.size() / 4);
  std::memcpy(words.data(), bytes.data(), words.size() * 4);
  return words;
}
std::uint16_t scale_at(std::span<const std::byte> unit, WeightCodec codec, int place) {
  std::uint16_t scale = 0;
  const int size = has_tensor_scale(codec) ? 1 : 2;
  std::memcpy(&scale, unit.data() + unit_code_bytes(codec.format) + size * place, static_cast<std::size_t>(size));
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
// Halves that are FP16 numbers of E2M1 codes, as their fields.
Operand4 from_e2m1(const std::array<std::uint32_t, 4>& registers) {
  Operand4 operand;
  for (std::size_t r = 0; r < 4; ++r)
    for (const int h : {0, 1}) {
      const std::uint32_t number = registers[r] >> (16 * h) & 0xFFFFU;
      EXPECT_EQ(number & ~0x8E00U, 0U);
      operand.halves[r][static_cast<std::size_t>(h)] = (number >> 9 & 7U) | (number >> 15 << 3);
    }
  return operand;
}
Operand4 unpack(WeightFormat format, const std::vector<std::uint32_t>& words, int tile, int thread, int step) {
  const auto word = [&](int index) { return words[static_cast<std::size_t>(index)]; };
  const auto right = [](std::uint32_t bits, int by) { return by == 0 ? bits : bits >> by | bits << (32 - by); };
  if (format == WeightFormat::kQ5) {
    const std::uint32_t low = word(tile * 640 + thread * 4 + step);
    const std::uint32_t high = right(low, 8);
    const std::uint32_t tops = word(tile * 640 + 512 + thread);
    const std::uint32_t first = right(tops, step);
    const std::uint32_t second = right(tops, step + 8);
    return from_registers(
        {(low & 0x003C'003CU) | (first & 0x0040'0040U), (low & 0x03C0'03C0U) | (first & 0x0400'0400U),
         (high & 0x003C'003CU) | (second & 0x0040'0040U), (high & 0x03C0'03C0U) | (second & 0x0400'0400U)},
        {4, 64, 4, 64});
  }
  if (format == WeightFormat::kNVFP4) {
    const std::uint32_t bits = word((tile * 128 + thread) * 4 + step);
    return from_e2m1({bits & 0x8E00'8E00U, right(bits, 3) & 0x8E00'8E00U,
                      (bits << 6 & 0x0E00'0E00U) | (bits << 15 & 0x8000'8000U),
                      (bits << 3 & 0x0E00'0E00U) | (bits << 14 & 0x8000'8000U)});
  }
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
  for (const WeightCodec codec : test::kAllCodecs) {
    const WeightFormat format = codec.format;
    const TestMatrix test = random_matrix(codec, 512, 128);
    const std::vector<std::byte> packed = pack_tiles(test.matrix);
    for (int unit = 0; unit < 2; ++unit) {  // of the second row block
      const auto words = words_of(std::span(packed).subspan(static_cast<std::size_t>((2 + unit) * unit_bytes(codec))));
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

// Rows g and g + 8 of its warp in each of the four tiles: 16 bytes of FP16, 8 of E4M3.
TEST(Tiles, EveryThreadFindsTheScalesOfItsRowsInOneRun) {
  for (const WeightCodec codec : test::kAllCodecs) {
    if (!has_scales(codec.format) || codec.format == WeightFormat::kNVFP4) continue;
    const TestMatrix test = random_matrix(codec, 256, 64);
    const std::vector<std::byte> unit = pack_tiles(test.matrix);
    for (int warp = 0; warp < 4; ++warp) {
      for (int g = 0; g < 8; ++g) {
        for (int tile = 0; tile < 4; ++tile) {
          const int row = tile * 64 + warp * 16 + g;
          const int place = (warp * 8 + g) * 8 + tile * 2;
          EXPECT_EQ(scale_at(unit, codec, place), test.scales[static_cast<std::size_t>(row)]);
          EXPECT_EQ(scale_at(unit, codec, place + 1), test.scales[static_cast<std::size_t>(row + 8)]);
        }
      }
    }
  }
}

// Of NVFP4 32 bytes, of which a thread of warps 0 to 3 reads the first half and one of warps 4 to 7 the second: two
// bytes a K step and tile.
TEST(Tiles, EveryThreadFindsTheScalesOfItsBlocksInOneRun) {
  const WeightCodec codec{WeightFormat::kNVFP4, ScaleFormat::kE4M3};
  const TestMatrix test = random_matrix(codec, 256, 64);
  const std::vector<std::byte> unit = pack_tiles(test.matrix);
  for (int warp = 0; warp < 4; ++warp)
    for (int g = 0; g < 8; ++g)
      for (int tile = 0; tile < 4; ++tile)
        for (int step = 0; step < 4; ++step) {
          const int row = tile * 64 + warp * 16 + g;
          const int place = (warp * 8 + g) * 32 + tile * 8 + step * 2;
          EXPECT_EQ(scale_at(unit, codec, place), test.scales[static_cast<std::size_t>(row * 4 + step)]);
          EXPECT_EQ(scale_at(unit, codec, place + 1), test.scales[static_cast<std::size_t>((row + 8) * 4 + step)]);
        }
}

TEST(Tiles, EveryBitOfAUnitHasOneWeight) {
  for (const WeightCodec codec : test::kAllCodecs) {
    const WeightFormat format = codec.format;
    std::set<int> bits;
    for (int row = 0; row < kUnitRows; ++row) {
      for (int column = 0; column < kUnitColumns; ++column) {
        const CodePlace place = code_place(format, row, column);
        for (int bit = 0; bit < code_bits(format); ++bit) {
          if (has_top_bit(format) && bit + 1 == code_bits(format)) {
            bits.insert(place.word[1] * 32 + place.top_bit);
            continue;
          }
          bits.insert(place.split ? place.word[bit] * 32 + place.bit : place.word[0] * 32 + (place.bit + bit) % 32);
        }
      }
    }
    EXPECT_EQ(std::ssize(bits), unit_code_bytes(format) * 8);
    EXPECT_EQ(*bits.begin(), 0);
    EXPECT_EQ(*bits.rbegin(), unit_code_bytes(format) * 8 - 1);
    EXPECT_EQ(unit_bytes(codec) % 128, 0);
  }
  for (int row = 0; row < kUnitRows; ++row) {
    EXPECT_EQ(scale_row(scale_place(row)), row);
    for (int block = 0; block < 4; ++block) {
      EXPECT_EQ(scale_row(scale_place(row, block, 4), 4), row);
      EXPECT_EQ(scale_block(scale_place(row, block, 4), 4), block);
    }
  }
}

TEST(Tiles, WeightsAreReadBackFromWhereTheyWerePackedAndPaddingIsZeroWeights) {
  constexpr std::array<std::array<int, 2>, 5> kShapes{{{1, 64}, {3, 40}, {70, 100}, {300, 130}, {256, 192}}};
  for (const WeightCodec codec : test::kAllCodecs) {
    const WeightFormat format = codec.format;
    const int blocks = row_scales_a_unit(format);
    for (const auto& [rows, columns] : kShapes) {
      const TestMatrix test = random_matrix(codec, rows, columns);
      const std::vector<std::byte> packed = pack_tiles(test.matrix);
      const std::int64_t units = units_a_row_block(columns);
      ASSERT_EQ(units % 2, 0);
      ASSERT_EQ(std::ssize(packed), tile_bytes(codec, rows, columns));
      const std::int64_t tail = has_tensor_scale(codec) ? unit_row_blocks(rows) * 256 * 4 : 0;
      ASSERT_EQ(std::ssize(packed), unit_row_blocks(rows) * units * unit_bytes(codec) + tail);
      for (std::int64_t row = 0; row < tail / 4; ++row) {
        float scale = 0;
        std::memcpy(&scale, packed.data() + packed.size() - static_cast<std::size_t>(tail - 4 * row), sizeof scale);
        ASSERT_EQ(scale, row < rows ? test.row_scales[static_cast<std::size_t>(row)] : 1.0F);
      }
      for (std::int64_t index = 0; index < unit_row_blocks(rows) * units; ++index) {
        const auto unit = std::span(packed).subspan(static_cast<std::size_t>(index * unit_bytes(codec)),
                                                    static_cast<std::size_t>(unit_bytes(codec)));
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
          for (int block = 0; block < blocks; ++block) {
            const std::int64_t scale = group * blocks + block;
            const bool real = source_row < rows && scale < scales_of(format, columns);
            ASSERT_EQ(
                scale_at(unit, codec, scale_place(row, block, blocks)),
                real ? test.scales[static_cast<std::size_t>(source_row * scales_of(format, columns) + scale)] : 0);
          }
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
  EXPECT_EQ(tile_bytes(WeightFormat::kQ5, 512, 1024) * 8, kWeights * 5 + kWeights / 64 * 16);
  EXPECT_EQ(tile_bytes(WeightFormat::kBF16, 512, 1024) * 8, kWeights * 16);
  constexpr std::int64_t kRowScales = std::int64_t{512} * 32;
  const auto bytes = [](WeightFormat format) { return tile_bytes({format, ScaleFormat::kE4M3}, 512, 1024); };
  EXPECT_EQ(bytes(WeightFormat::kQ3) * 8, kWeights * 3 + kWeights / 64 * 8 + kRowScales);
  EXPECT_EQ(bytes(WeightFormat::kQ5) * 8, kWeights * 5 + kWeights / 64 * 8 + kRowScales);
  EXPECT_EQ(bytes(WeightFormat::kFP8) * 8, kWeights * 8 + kWeights / 64 * 8 + kRowScales);
  EXPECT_EQ(bytes(WeightFormat::kNVFP4) * 8, kWeights * 4 + kWeights / 16 * 8 + kRowScales);
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
