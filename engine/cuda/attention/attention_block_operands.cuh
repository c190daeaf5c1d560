// Operand A of attention's products from tiles with scales (attention_layout.h), in FP16:
//
//   keys of int8      the codes alone, exact; each block's product is multiplied by its position's scale in FP32
//   values of int8    code * scale in FP32, rounded to FP16's 11 bits (a scale is of a position, which is summed over)
//   nvfp4             code * scale, exact: a multiple of 2^-10 of 6 bits, at most 2,688
//
// A scale that is NaN reaches the sums, as a value beyond FP16 (an infinity) does, and is reported at the logits.
#pragma once

#include "engine/cuda/attention/attention_mma.cuh"
#include "engine/cuda/device/ptx.cuh"

namespace tare::engine {

__device__ __forceinline__ __half2 as_halves(std::uint32_t bits) {
  return *reinterpret_cast<const __half2*>(&bits);
}
__device__ __forceinline__ std::uint32_t as_bits(__half2 halves) {
  return *reinterpret_cast<const std::uint32_t*>(&halves);
}

// Two of four bytes in -127..127 as FP16 integers: 0x6400 + (x + 128) is 1152 + x.
template <int kFirst>
__device__ __forceinline__ __half2 int8_halves(std::uint32_t four) {
  constexpr std::uint32_t kPlaces = 0x4140U + 0x0202U * (kFirst / 2);  // bytes kFirst and kFirst + 1 below 0x64
  const std::uint32_t biased = __byte_perm(four ^ 0x8080'8080U, 0x6464'6464U, kPlaces);
  return __hsub2(as_halves(biased), as_halves(0x6480'6480U));
}
__device__ __forceinline__ std::uint32_t scaled_int8(__half2 codes, float2 scales) {
  const float2 two = __half22float2(codes);
  return narrow(two.x * scales.x, two.y * scales.y);
}
__device__ __forceinline__ float2 bf16_pair(std::uint32_t pair) {
  return {__uint_as_float(pair << 16), __uint_as_float(pair & 0xFFFF0000U)};
}

// The four E2M1 codes of the lower half word as the upper bytes of FP16 numbers, of which the lower ones are 0: a table
// of eight bytes, and the signs.
__device__ __forceinline__ std::uint32_t e2m1_bytes(std::uint32_t codes) {
  constexpr std::uint32_t kBelowTwo = 0x3E3C'3800U;  // 0, 0.5, 1, 1.5
  constexpr std::uint32_t kOthers = 0x4644'4240U;    // 2, 3, 4, 6
  const std::uint32_t magnitudes = __byte_perm(kBelowTwo, kOthers, codes & 0x7777U);
  const std::uint32_t signs = __byte_perm(codes << 4, codes, 0x5140);
  return magnitudes | (signs & 0x8080'8080U);
}
// Bytes kFirst and kSecond of them as numbers, times scales.
template <int kFirst, int kSecond>
__device__ __forceinline__ std::uint32_t scaled_e2m1(std::uint32_t bytes, __half2 scales) {
  constexpr std::uint32_t kPlaces = 0x0404U | kFirst << 4 | kSecond << 12;
  return as_bits(__hmul2(as_halves(__byte_perm(bytes, 0, kPlaces)), scales));
}
__device__ __forceinline__ __half2 e4m3_twice(std::uint32_t byte) {
  return as_halves(widen_e4m3(byte | byte << 8));
}

// Adds the scores of a warp's 16 positions to two sums (int8: to the first): `codes` is this lane's first word of them,
// `scales` row lane / 4's, `queries` this lane's of the first column tile. All in shared memory.
template <CacheFormat kFormat, int kCount>
__device__ __forceinline__ void multiply_keys(std::uint32_t codes, std::uint32_t scales, std::uint32_t queries,
                                              float (&chains)[2][kCount][4]) {
  constexpr int kScaleRow = row_scales(kFormat, kTensorHeadDim) * scale_bytes(kFormat);
  const auto load_queries = [&](int pair, uint4(&b)[kCount]) {
#pragma unroll
    for (int n = 0; n < kCount; ++n) {
      b[n] = ptx::load_shared_16(queries +
                                 static_cast<std::uint32_t>(n * kColumnTileElements * 2 + pair * kCachePieceBytes));
    }
  };
  if constexpr (kFormat == CacheFormat::kInt8) {
#pragma unroll(kCount > 3 ? 1 : 2)
    for (int two_blocks = 0; two_blocks < 2; ++two_blocks) {
      const float2 upper = bf16_pair(ptx::load_shared_4(scales + static_cast<std::uint32_t>(4 * two_blocks)));
      const float2 lower =
          bf16_pair(ptx::load_shared_4(scales + static_cast<std::uint32_t>(8 * kScaleRow + 4 * two_blocks)));
#pragma unroll
      for (int block = 0; block < 2; ++block) {
        float sums[kCount][4] = {};
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const int pair = 4 * two_blocks + 2 * block + i;
          const uint4 words = ptx::load_shared_16(codes + static_cast<std::uint32_t>(pair * kCachePieceBytes));
          uint4 b[kCount];
          load_queries(pair, b);
          const std::uint32_t a[2][4] = {{as_bits(int8_halves<0>(words.x)), as_bits(int8_halves<2>(words.x)),
                                          as_bits(int8_halves<0>(words.y)), as_bits(int8_halves<2>(words.y))},
                                         {as_bits(int8_halves<0>(words.z)), as_bits(int8_halves<2>(words.z)),
                                          as_bits(int8_halves<0>(words.w)), as_bits(int8_halves<2>(words.w))}};
#pragma unroll
          for (int n = 0; n < kCount; ++n) {
            multiply_add(sums[n], a[0], b[n].x, b[n].y);
            multiply_add(sums[n], a[1], b[n].z, b[n].w);
          }
        }
        const float of_upper = block == 0 ? upper.x : upper.y;
        const float of_lower = block == 0 ? lower.x : lower.y;
#pragma unroll
        for (int n = 0; n < kCount; ++n) {
          chains[0][n][0] = fmaf(of_upper, sums[n][0], chains[0][n][0]);
          chains[0][n][1] = fmaf(of_upper, sums[n][1], chains[0][n][1]);
          chains[0][n][2] = fmaf(of_lower, sums[n][2], chains[0][n][2]);
          chains[0][n][3] = fmaf(of_lower, sums[n][3], chains[0][n][3]);
        }
      }
    }
  } else {
#pragma unroll(kCount > 3 ? 1 : 4)
    for (int two_pairs = 0; two_pairs < 4; ++two_pairs) {
      // Four blocks of 16 dims: one a step.
      const std::uint32_t upper = ptx::load_shared_4(scales + static_cast<std::uint32_t>(4 * two_pairs));
      const std::uint32_t lower =
          ptx::load_shared_4(scales + static_cast<std::uint32_t>(8 * kScaleRow + 4 * two_pairs));
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int pair = 2 * two_pairs + i;
        const uint2 words = ptx::load_shared_8(codes + static_cast<std::uint32_t>(pair * kHalfPieceBytes));
        uint4 b[kCount];
        load_queries(pair, b);
        std::uint32_t a[2][4];
#pragma unroll
        for (int step = 0; step < 2; ++step) {
          const std::uint32_t word = step == 0 ? words.x : words.y;
          const __half2 of_upper = e4m3_twice(upper >> (16 * i + 8 * step) & 0xFFU);
          const __half2 of_lower = e4m3_twice(lower >> (16 * i + 8 * step) & 0xFFU);
          // A byte is a register: rows below 8 and the others in turn.
          const std::uint32_t lower_dims = e2m1_bytes(word);
          const std::uint32_t upper_dims = e2m1_bytes(word >> 16);
          a[step][0] = scaled_e2m1<0, 1>(lower_dims, of_upper);
          a[step][1] = scaled_e2m1<2, 3>(lower_dims, of_lower);
          a[step][2] = scaled_e2m1<0, 1>(upper_dims, of_upper);
          a[step][3] = scaled_e2m1<2, 3>(upper_dims, of_lower);
        }
#pragma unroll
        for (int n = 0; n < kCount; ++n) {
          multiply_add(chains[0][n], a[0], b[n].x, b[n].y);
          multiply_add(chains[1][n], a[1], b[n].z, b[n].w);
        }
      }
    }
  }
}

// Values of 16 dims from 16 `dims` on at 32 positions, the tile's first or (`second_half`) last: the operands of two
// steps. Those at or past `valid` of the 32 become 0, whatever lies there.
template <CacheFormat kFormat>
__device__ __forceinline__ void load_values(std::uint32_t unit, int dims, int half, int valid,
                                            std::uint32_t (&a)[2][4]) {
  const auto lane = static_cast<int>(threadIdx.x % 32);
  const int p = lane % 4;
  constexpr int kBytes = scale_bytes(kFormat);
  constexpr int kCodeBytes = kTilePositions * row_code_bytes(kFormat, kTensorHeadDim);
  const int block = dims * 16 / scale_block(kFormat);
  const std::uint32_t scales =
      unit + static_cast<std::uint32_t>(kCodeBytes + (block * kTilePositions + 32 * half + 8 * p) * kBytes);
  const int piece = 2 * dims + half;
  if constexpr (kFormat == CacheFormat::kInt8) {
    const uint4 codes = ptx::load_shared_16(unit + static_cast<std::uint32_t>(piece * kCachePieceBytes + 16 * lane));
    const uint4 four = ptx::load_shared_16(scales);
    const std::uint32_t words[4] = {codes.x, codes.y, codes.z, codes.w};
    const float2 pairs[4] = {bf16_pair(four.x), bf16_pair(four.y), bf16_pair(four.z), bf16_pair(four.w)};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      a[i / 2][i % 2 * 2] = scaled_int8(int8_halves<0>(words[i]), pairs[i]);
      a[i / 2][i % 2 * 2 + 1] = scaled_int8(int8_halves<2>(words[i]), pairs[i]);
    }
  } else {
    const uint2 codes = ptx::load_shared_8(unit + static_cast<std::uint32_t>(piece * kHalfPieceBytes + 8 * lane));
    const uint2 four = ptx::load_shared_8(scales);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const std::uint32_t two = (i < 2 ? codes.x : codes.y) >> (i % 2 * 16);
      const __half2 pair = as_halves(widen_e4m3((i < 2 ? four.x : four.y) >> (i % 2 * 16)));
      // A byte is a position: rows below 8, and the others.
      const std::uint32_t bytes = e2m1_bytes(two);
      a[i / 2][i % 2 * 2] = scaled_e2m1<0, 2>(bytes, pair);
      a[i / 2][i % 2 * 2 + 1] = scaled_e2m1<1, 3>(bytes, pair);
    }
  }
  if (valid >= 32) return;
#pragma unroll
  for (int i = 0; i < 4; ++i) {  // octets of positions, of which a lane has the pair at 2 p
    const std::uint32_t first = 8 * i + 2 * p < valid ? 0x0000FFFFU : 0U;
    const std::uint32_t second = 8 * i + 2 * p + 1 < valid ? 0xFFFF0000U : 0U;
    a[i / 2][i % 2 * 2] &= first | second;
    a[i / 2][i % 2 * 2 + 1] &= first | second;
  }
}

}  // namespace tare::engine
