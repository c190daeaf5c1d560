// The order in which weights lie in device memory: as the tensor-core kernels of this folder consume them, one order a
// format.
//
//   matrix = row blocks of 256 rows (rows padded with zero weights), each an even number of units in order of K; then,
//            where scales are E4M3, the scale of its tensor of every row [row blocks * 256] FP32, 1 for padded rows
//   unit   = 256 rows x 64 columns (one group a row; columns padded with zero weights), unit_bytes(codec) contiguous
//            bytes: codes, then, for all formats but bf16, scales [warp 4][g 8][tile 4][u 2] FP16 or E4M3; of nvfp4
//            [warp 4][g 8][tile 4][block 4][u 2] E4M3
//   tile   = 64 rows x 64 columns. Its thread (128 of them: warp w, lane 4 g + p) holds the weights of the matrix
//            instruction's operand A: register r (0..3), half h of K step s (16 columns) is
//            row 16 w + g + 8 (r % 2), column 16 s + 2 p + h + 8 (r / 2)
//            (register fragments of wgmma m64nNk16 and mma.sync m16n8k16 for 16-bit types: PTX ISA).
// A unit is a multiple of 128 bytes and one copy; any run of units is contiguous, and kernels take them in pairs.
//
// Codes are stored as unsigned fields: the code plus code_bias(format), E4M3 or E2M1 bits, or the bits of a BF16
// number. A padded weight is a zero weight: field code_bias(format), scale 0. By format, in 32-bit words:
//   q4    [tile 4][thread 128][s 4]: field r + 4 h of 4 bits, from bit 2 on; the last one's upper half is in bits 0, 1
//   q5    [tile 4]{ [thread 128][s 4], then [thread 128] }: the lower four bits of a field as in q4; in the word after
//            them its fifth bit, at bit 6 (r even) or 10, + 16 h + s + 8 (r / 2), which a rotation by s + 8 (r / 2)
//            brings above the other four
//   nvfp4 [tile 4][thread 128][s 4]: half h has the magnitudes of r 0, 1, 2, 3 from bits 9, 12, 3, 6, and signs of r 0,
//            2, 3 in bits 15, 0, 1; that of r 1 is in bit 2 of the other half. Magnitude and sign of r 0 lie where an
//            FP16 number has them, those of r 1 after one rotation by 3, those of r 2 and r 3 after two shifts each
//   q8    [tile 4][s / 2][thread 128][s % 2][r / 2]: byte 2 (r % 2) + h
//   fp8   the same
//   bf16  [tile 4][s 4][thread 128][r 4]: half h
//   q3    [tile 4]{ [thread 128][i 2], then [thread 128] (i = 2) }: half h of word i has, from its lowest bit,
//            3 bits of s 3 (r 0, 1, 3 in words 0, 1, 2), bit i of the code (s 3, r 2), and 3 bits each of
//            (s i, r 0), (s i, r 1), (s i, r 2), (s i, r 3).
//            The upper six of a half's ten mantissa bits hold two fields without a shift, and two more after one shift
//            by 6: operand A of steps 0, 1, 2 takes five operations a step, as in q4, and step 3 twelve.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/formats/weight_codes.h"

namespace tare::engine {

constexpr int kUnitRows = 256;
constexpr int kUnitColumns = 64;
constexpr int kTileRows = 64;
constexpr int kTileThreads = 128;

[[nodiscard]] constexpr int code_bits(WeightFormat format) {
  switch (format) {
    case WeightFormat::kQ3:
      return 3;
    case WeightFormat::kQ4:
    case WeightFormat::kNVFP4:
      return 4;
    case WeightFormat::kQ5:
      return 5;
    case WeightFormat::kQ8:
    case WeightFormat::kFP8:
      return 8;
    case WeightFormat::kBF16:
      return 16;
  }
  return 0;  // no format
}
// What is added to an integer code to store it.
[[nodiscard]] constexpr int code_bias(WeightFormat format) {
  switch (format) {
    case WeightFormat::kQ3:
      return 4;
    case WeightFormat::kQ4:
      return 8;
    case WeightFormat::kQ5:
      return 16;
    case WeightFormat::kQ8:
      return 128;
    case WeightFormat::kFP8:
    case WeightFormat::kBF16:
    case WeightFormat::kNVFP4:
      return 0;
  }
  return 0;
}
[[nodiscard]] constexpr bool has_scales(WeightFormat format) {
  return format != WeightFormat::kBF16;
}
[[nodiscard]] constexpr int unit_code_bytes(WeightFormat format) {
  return kUnitRows * kUnitColumns * code_bits(format) / 8;
}
// Scales of a row in a unit: one, or one a block of 16 columns.
[[nodiscard]] constexpr int row_scales_a_unit(WeightFormat format) {
  return format == WeightFormat::kNVFP4 ? kUnitColumns / static_cast<int>(kNVFP4WeightBlock)
                                        : static_cast<int>(has_scales(format));
}
// Bytes of them.
[[nodiscard]] constexpr int row_scale_bytes(WeightCodec codec) {
  return row_scales_a_unit(codec.format) * (has_tensor_scale(codec) ? 1 : 2);
}
[[nodiscard]] constexpr int unit_bytes(WeightCodec codec) {
  return unit_code_bytes(codec.format) + kUnitRows * row_scale_bytes(codec);
}
[[nodiscard]] constexpr std::int64_t unit_row_blocks(std::int64_t rows) {
  return (rows + kUnitRows - 1) / kUnitRows;
}
[[nodiscard]] constexpr std::int64_t unit_pairs_a_row_block(std::int64_t columns) {
  return (columns + 2 * kUnitColumns - 1) / (2 * kUnitColumns);
}
[[nodiscard]] constexpr std::int64_t units_a_row_block(std::int64_t columns) {
  return 2 * unit_pairs_a_row_block(columns);
}

// Where a weight stands in operand A.
struct Fragment {
  int tile = 0;
  int thread = 0;
  int step = 0;
  int r = 0;
  int h = 0;

  [[nodiscard]] constexpr int row() const { return tile * kTileRows + thread / 32 * 16 + thread % 32 / 4 + r % 2 * 8; }
  [[nodiscard]] constexpr int column() const { return step * 16 + thread % 4 * 2 + h + r / 2 * 8; }
};
// Of the weight at (row, column) of a unit.
[[nodiscard]] constexpr Fragment fragment_of(int row, int column) {
  return {.tile = row / kTileRows,
          .thread = row / 16 % 4 * 32 + row % 8 * 4 + column % 8 / 2,
          .step = column / 16,
          .r = row / 8 % 2 + column / 8 % 2 * 2,
          .h = column % 2};
}

// Where the scale of a unit's row (and block, where a row has several) lies after the codes, counted in scales, and
// back.
[[nodiscard]] constexpr int scale_place(int row, int block = 0, int blocks = 1) {
  return (((row / 16 % 4 * 8 + row % 8) * 4 + row / kTileRows) * blocks + block) * 2 + row / 8 % 2;
}
[[nodiscard]] constexpr int scale_row(int place, int blocks = 1) {
  const int lane_tile = place / 2 / blocks;
  return lane_tile % 4 * kTileRows + lane_tile / 32 * 16 + lane_tile / 4 % 8 + place % 2 * 8;
}
[[nodiscard]] constexpr int scale_block(int place, int blocks) {
  return place / 2 % blocks;
}

constexpr int kQ4FirstBit = 2;

constexpr int kQ3TileWords = 3 * kTileThreads;
constexpr int kQ3MixedBit = 0;  // of the field of step 3 in each half
constexpr int kQ3SplitBit = 3;  // of the bit of (step 3, r 2) in each half
[[nodiscard]] constexpr int q3_word(int tile, int thread, int i) {
  return tile * kQ3TileWords + (i < 2 ? thread * 2 + i : 2 * kTileThreads + thread);
}
// The lowest bit of register r of the step that a word is for.
[[nodiscard]] constexpr int q3_bit(int r) {
  return 4 + 3 * r;
}
// The register of step 3 in word i.
[[nodiscard]] constexpr int q3_mixed_register(int i) {
  return i < 2 ? i : 3;
}

constexpr int kQ5TileWords = 5 * kTileThreads;
constexpr int kQ5LowWords = 4 * kTileThreads;  // of a tile, before those of fifth bits
[[nodiscard]] constexpr int q5_fifth_bit(int step, int r, int h) {
  return (kQ4FirstBit + 4 * (r % 2 + 1) + 16 * h + step + 8 * (r / 2)) % 32;
}

// The lowest bit of a magnitude, and the sign, in NVFP4's words.
[[nodiscard]] constexpr int nvfp4_bit(int r, int h) {
  return (r < 2 ? 9 + 3 * r : 3 * (r - 1)) + 16 * h;
}
[[nodiscard]] constexpr int nvfp4_sign_bit(int r, int h) {
  return r == 1 ? 2 + 16 * (1 - h) : (r == 0 ? 15 : r - 2) + 16 * h;
}

// Where the field of a weight lies among the codes of its unit: code_bits bits from `bit` of word[0], bit 0 following
// bit 31; of a split field, `bit` of each of the three words, least significant first. The highest bit of q5 and NVFP4
// lies by itself: top_bit of word[1].
struct CodePlace {
  int word[3] = {};
  int bit = 0;
  bool split = false;
  int top_bit = 0;
};
[[nodiscard]] constexpr bool has_top_bit(WeightFormat format) {
  return format == WeightFormat::kQ5 || format == WeightFormat::kNVFP4;
}
[[nodiscard]] constexpr CodePlace code_place(WeightFormat format, int row, int column) {
  const auto [tile, thread, step, r, h] = fragment_of(row, column);
  switch (format) {
    case WeightFormat::kQ4:
      return {.word = {(tile * kTileThreads + thread) * 4 + step}, .bit = kQ4FirstBit + 4 * (r + 4 * h)};
    case WeightFormat::kQ8:
    case WeightFormat::kFP8:
      return {.word = {((tile * 2 + step / 2) * kTileThreads + thread) * 4 + step % 2 * 2 + r / 2},
              .bit = 8 * (r % 2 * 2 + h)};
    case WeightFormat::kBF16:
      return {.word = {((tile * 4 + step) * kTileThreads + thread) * 4 + r}, .bit = 16 * h};
    case WeightFormat::kQ5:
      return {.word = {tile * kQ5TileWords + thread * 4 + step, tile * kQ5TileWords + kQ5LowWords + thread},
              .bit = kQ4FirstBit + 4 * (r + 4 * h),
              .top_bit = q5_fifth_bit(step, r, h)};
    case WeightFormat::kNVFP4: {
      const int word = (tile * kTileThreads + thread) * 4 + step;
      return {.word = {word, word}, .bit = nvfp4_bit(r, h), .top_bit = nvfp4_sign_bit(r, h)};
    }
    case WeightFormat::kQ3:
      break;
  }
  // By selection, not by branches: kernels evaluate this.
  const bool mixed = step == 3;
  const bool split = mixed && r == 2;
  const int i = split ? 0 : mixed ? (r < 2 ? r : 2) : step;
  const int bit = split ? kQ3SplitBit : mixed ? kQ3MixedBit : q3_bit(r);
  return {.word = {q3_word(tile, thread, i), q3_word(tile, thread, 1), q3_word(tile, thread, 2)},
          .bit = bit + 16 * h,
          .split = split};
}

// The stored field at a place. `words`: the unit's codes.
[[nodiscard]] constexpr std::uint32_t read_code(WeightFormat format, const std::uint32_t* words,
                                                const CodePlace& place) {
  if (place.split) {
    return (words[place.word[0]] >> place.bit & 1U) | (words[place.word[1]] >> place.bit & 1U) << 1 |
           (words[place.word[2]] >> place.bit & 1U) << 2;
  }
  const std::uint32_t field = std::rotr(words[place.word[0]], place.bit);
  if (!has_top_bit(format)) return field & ((1U << code_bits(format)) - 1U);
  const int top = code_bits(format) - 1;
  return (field & ((1U << top) - 1U)) | (words[place.word[1]] >> place.top_bit & 1U) << top;
}
[[nodiscard]] constexpr std::uint32_t read_code(WeightFormat format, const std::uint32_t* words, int row, int column) {
  return read_code(format, words, code_place(format, row, column));
}

// One 32-bit word of a unit's codes (index 0 .. unit_code_bytes / 4 - 1) from its stored fields: code_at(row, column)
// gives that of a weight of the unit. What a packing kernel's thread writes.
template <class CodeAt>
[[nodiscard]] constexpr std::uint32_t unit_word(WeightFormat format, int index, const CodeAt& code_at) {
  const auto field = [&](int tile, int thread, int step, int r, int h) -> std::uint32_t {
    const Fragment fragment{tile, thread, step, r, h};
    return code_at(fragment.row(), fragment.column());
  };
  const int thread = index / 4 % kTileThreads;  // of the formats whose threads hold 16-byte parts
  std::uint32_t word = 0;
  switch (format) {
    case WeightFormat::kQ4:
      for (int r = 0; r < 4; ++r) {
        for (int h = 0; h < 2; ++h) word |= field(index / 512, thread, index % 4, r, h) << (4 * (r + 4 * h));
      }
      return std::rotl(word, kQ4FirstBit);
    case WeightFormat::kQ8:
    case WeightFormat::kFP8:
      for (int u = 0; u < 2; ++u) {
        for (int h = 0; h < 2; ++h) {
          word |= field(index / 1024, thread, index / 512 % 2 * 2 + index / 2 % 2, u + index % 2 * 2, h)
                  << (8 * (u * 2 + h));
        }
      }
      return word;
    case WeightFormat::kBF16:
      for (int h = 0; h < 2; ++h) word |= field(index / 2048, thread, index / 512 % 4, index % 4, h) << (16 * h);
      return word;
    case WeightFormat::kQ5: {
      const int tile = index / kQ5TileWords;
      const int rest = index % kQ5TileWords;
      if (rest < kQ5LowWords) {
        for (int r = 0; r < 4; ++r) {
          for (int h = 0; h < 2; ++h) word |= (field(tile, rest / 4, rest % 4, r, h) & 0xFU) << (4 * (r + 4 * h));
        }
        return std::rotl(word, kQ4FirstBit);
      }
      for (int step = 0; step < 4; ++step) {
        for (int r = 0; r < 4; ++r) {
          for (int h = 0; h < 2; ++h)
            word |= field(tile, rest - kQ5LowWords, step, r, h) >> 4 << q5_fifth_bit(step, r, h);
        }
      }
      return word;
    }
    case WeightFormat::kNVFP4:
      for (int r = 0; r < 4; ++r) {
        for (int h = 0; h < 2; ++h) {
          const std::uint32_t code = field(index / 512, thread, index % 4, r, h);
          word |= (code & 7U) << nvfp4_bit(r, h) | code >> 3 << nvfp4_sign_bit(r, h);
        }
      }
      return word;
    case WeightFormat::kQ3:
      break;
  }
  const int tile = index / kQ3TileWords;
  const int rest = index % kQ3TileWords;
  const int i = rest < 2 * kTileThreads ? rest % 2 : 2;
  const int q3_thread = i < 2 ? rest / 2 : rest - 2 * kTileThreads;
  for (int h = 0; h < 2; ++h) {
    for (int r = 0; r < 4; ++r) word |= field(tile, q3_thread, i, r, h) << (q3_bit(r) + 16 * h);
    word |= field(tile, q3_thread, 3, q3_mixed_register(i), h) << (kQ3MixedBit + 16 * h);
    word |= (field(tile, q3_thread, 3, 2, h) >> i & 1U) << (kQ3SplitBit + 16 * h);
  }
  return word;
}

// Calls action.template operator()<format, scales>() for the codec: every one that has tiles, in one table.
template <class Action>
void for_codec(WeightCodec codec, const Action& action) {
  const bool bytes = has_tensor_scale(codec);
  const auto either = [&]<WeightFormat kFormat>() {
    bytes ? action.template operator()<kFormat, ScaleFormat::kE4M3>()
          : action.template operator()<kFormat, ScaleFormat::kFP16>();
  };
  switch (codec.format) {
    case WeightFormat::kBF16:
      return action.template operator()<WeightFormat::kBF16, ScaleFormat::kFP16>();
    case WeightFormat::kQ8:
      return either.template operator()<WeightFormat::kQ8>();
    case WeightFormat::kQ5:
      return either.template operator()<WeightFormat::kQ5>();
    case WeightFormat::kQ4:
      return either.template operator()<WeightFormat::kQ4>();
    case WeightFormat::kQ3:
      return either.template operator()<WeightFormat::kQ3>();
    case WeightFormat::kFP8:
      return either.template operator()<WeightFormat::kFP8>();
    case WeightFormat::kNVFP4:
      return action.template operator()<WeightFormat::kNVFP4, ScaleFormat::kE4M3>();
  }
}

// A matrix as stored fields [rows][columns] and scales [rows][groups] (FP16 or E4M3 bits; NVFP4 [rows][blocks of 16];
// none for bf16), in host memory; with E4M3 scales each row has the FP32 scale of its tensor.
struct FieldMatrix {
  WeightFormat format = WeightFormat::kBF16;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::span<const std::uint16_t> fields;
  std::span<const std::uint16_t> scales;
  ScaleFormat scale_format = ScaleFormat::kFP16;
  std::span<const float> row_scales;
};
// All its units, and the rows' scales. Throws Error (internal) when a span has another size than the shape says, or a
// field too many bits.
[[nodiscard]] std::vector<std::byte> pack_tiles(const FieldMatrix& matrix);

}  // namespace tare::engine
