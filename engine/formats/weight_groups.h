// Scalar definition of the quantised weight formats: groups of 64 along K, one FP16 scale a group.
//
//   value = scale * code        q8:  code in -127..127
//                               q5:  code in -16..15, of which the encoder uses -15..15
//                               q4:  code in -8..7, of which the encoder uses -7..7
//                               q3:  code in -4..3, of which the encoder uses -3..3
//                               fp8: code is an E4M3 number (float_formats.h), at most 448 in magnitude
//
// The last group of a row is short when K is not a multiple of 64. Encoder, a pure function of the group's values:
//   1. absmax / most_code (fp8: 448) in FP32, rounded to FP16 (nearest even): the scale. Infinite: Error (input).
//      It is 0 only for a group of zeros; a scale that would round to 0 becomes 2^-24, the least subnormal.
//   2. code = value * (1 / scale), both in FP32, rounded to the nearest integer, ties to even, and clamped last; fp8:
//      rounded to E4M3, which holds it at 448 (the scale may have been rounded down).
//   3. A scale of zero forces codes of zero (fp8: 0x00).
// Codes are packed into 32-bit words of consecutive K, so that one word a row feeds any kernel:
//   q8: 4 codes, biased by 128 to unsigned bytes; byte i is code i.
//   q4: 8 codes, biased by 8 to unsigned nibbles; byte i holds code i in its low and code 4+i in its high nibble.
// q5 codes are biased by 16 to 5 unsigned bits, q3 codes by 4 to 3. They and fp8 have no word of this kind; other
// orders are engine/cuda/product/tiles.h, engine/cpu/packed_matrix.h and docs/protocol/quantised-checkpoint.md. The
// same groups with an 8-bit scale, and NVFP4: weight_codes.h.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace tare::engine {

constexpr std::int64_t kGroupSize = 64;

constexpr int kQ8MostCode = 127;
constexpr int kQ5MostCode = 15;
constexpr int kQ4MostCode = 7;
constexpr int kQ3MostCode = 3;
constexpr int kQ8Bias = 128;
constexpr int kQ5Bias = 16;
constexpr int kQ4Bias = 8;
constexpr int kQ3Bias = 4;
constexpr int kQ8CodesPerWord = 4;
constexpr int kQ4CodesPerWord = 8;

[[nodiscard]] constexpr std::int64_t group_count(std::int64_t columns) {
  return (columns + kGroupSize - 1) / kGroupSize;
}

// Encodes one group (1..64 finite values) and returns the scale as FP16 bits. `codes` has the size of `values`;
// most_code is kQ8MostCode, kQ5MostCode, kQ4MostCode or kQ3MostCode. Throws Error (input) when the scale overflows
// FP16.
std::uint16_t encode_group(std::span<const float> values, int most_code, std::span<std::int8_t> codes);
// The same for fp8.
std::uint16_t encode_fp8_group(std::span<const float> values, std::span<std::uint8_t> codes);

// One row: codes [columns], scales [group_count(columns)].
struct EncodedRow {
  std::vector<std::int8_t> codes;
  std::vector<std::uint16_t> scales;
};
[[nodiscard]] EncodedRow encode_row(std::span<const float> values, int most_code);
struct EncodedFP8Row {
  std::vector<std::uint8_t> codes;
  std::vector<std::uint16_t> scales;
};
[[nodiscard]] EncodedFP8Row encode_fp8_row(std::span<const float> values);
// scale * code in FP32: exact, since 11 + 7 bits fit the mantissa.
[[nodiscard]] std::vector<float> decode_row(const EncodedRow& row);
[[nodiscard]] std::vector<float> decode_row(const EncodedFP8Row& row);

[[nodiscard]] std::uint32_t pack_q8_word(std::span<const std::int8_t, kQ8CodesPerWord> codes);
[[nodiscard]] std::array<std::int8_t, kQ8CodesPerWord> unpack_q8_word(std::uint32_t word);
[[nodiscard]] std::uint32_t pack_q4_word(std::span<const std::int8_t, kQ4CodesPerWord> codes);
[[nodiscard]] std::array<std::int8_t, kQ4CodesPerWord> unpack_q4_word(std::uint32_t word);

}  // namespace tare::engine
