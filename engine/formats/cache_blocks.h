// Scalar definitions of the block formats of caches and recurrent states: numbers that appear while the model runs, so
// that nothing may be refused: what is not finite must stay visible.
//
//   int8   blocks of 64: one BF16 scale, codes in -127..127            value = scale * code   (exact in FP32)
//          scale = absmax / 127 in FP32, rounded to BF16; code = x * (1 / scale) in FP32, rounded to the nearest
//          integer, ties to even, clamped. A block whose absmax is below 2^-100 becomes zeros with scale 0. Encoding
//          what was decoded gives the same bits: the largest code is always 127, since BF16 moves the scale by 2^-8 at
//          most.
//   nvfp4  blocks of 16: one E4M3 scale, E2M1 codes                    value = scale * code   (exact in FP32)
//          scale = absmax / 6 in FP32, rounded to E4M3, at least 2^-9 and at most 448; code = x * (1 / scale) in FP32,
//          rounded to E2M1. The format's scale of the whole tensor is 1: a cache is written row by row, before its
//          largest number is known. So magnitudes beyond 6 * 448 = 2688 are held there, and below 2^-10 become zero.
//
// Both: a block with a number that is not finite gets scale NaN and zero codes, so that the fault reaches the logits
// and is reported there; a block of zeros has scale 0 and codes 0. The last block of a row is short where the row ends.
// Blocks of 64 with a BF16 scale are 33,792 bytes a token of the 27B shape (keys and values of 16 layers), NVFP4
// 18,432.
#pragma once

#include <cstdint>
#include <span>

namespace tare::engine {

constexpr std::int64_t kInt8Block = 64;
constexpr std::int64_t kNVFP4Block = 16;
constexpr float kInt8MostCode = 127;
constexpr float kLeastInt8Absmax = 0x1p-100F;

// Encodes one block (1..64 values, `codes` of the same size) and returns its scale as BF16 bits.
std::uint16_t encode_int8_block(std::span<const float> values, std::span<std::int8_t> codes);
// Encodes one block (1..16 values) to E2M1 codes, one a byte, and returns its scale as E4M3 bits.
std::uint8_t encode_nvfp4_block(std::span<const float> values, std::span<std::uint8_t> codes);

[[nodiscard]] float int8_value(std::uint16_t scale, std::int8_t code);
[[nodiscard]] float nvfp4_value(std::uint8_t scale, std::uint8_t code);

// The values after a round trip through blocks of the format, in place: a row of any length.
void round_to_int8_blocks(std::span<float> row);
void round_to_nvfp4_blocks(std::span<float> row);

}  // namespace tare::engine
