// q3 weights as operand A: a field of three bits in the mantissa of an FP16 number is the subnormal q 2^-24, one three
// bits higher eight times that, both exact. Rows g + 8 are taken from the higher fields of a half, so steps 0, 1, 2
// cost what a step of q4 costs. Step 3 is what the three words had room for (tiles.h): three registers come out 64
// times too large and are multiplied by a power of two, exact and off the integer pipe, and one is put together from
// single bits.
#pragma once

#include <cuda_fp16.h>

#include "engine/cuda/ptx.cuh"
#include "engine/cuda/tiles.h"

namespace tare::engine {

struct Q3Format {
  static constexpr WeightFormat kFormat = WeightFormat::kQ3;
  static constexpr bool kBFloat16 = false;
  static constexpr bool kScaled = true;
  static constexpr float kGroupBias = -4 * 0x1p-24F;
  static constexpr float kRowFactor = 8;
  static constexpr float kSumFactor = 0x1p24F;
  static constexpr int kTilesAtOnce = 2;

  struct Codes {
    std::uint32_t words[3];
  };
  static __device__ __forceinline__ Codes load(std::uint32_t tile_address, int thread) {
    const uint2 two = ptx::load_shared_8(tile_address + static_cast<std::uint32_t>(thread * 8));
    return {
        {two.x, two.y, ptx::load_shared_4(tile_address + static_cast<std::uint32_t>((2 * kTileThreads + thread) * 4))}};
  }
  static __device__ __forceinline__ void unpack(const Codes& codes, int step, std::uint32_t (&a)[4]) {
    const std::uint32_t* words = codes.words;
    if (step < 3) {
      const std::uint32_t upper = words[step] >> q3_bit(2);
      a[0] = words[step] & kLow;
      a[1] = words[step] & kMiddle;
      a[2] = upper & kLow;
      a[3] = upper & kMiddle;
      return;
    }
    a[0] = product(words[0] & kHigh, kOneSixtyFourth);
    a[1] = product(words[1] & kHigh, kOneEighth);
    a[2] = (words[0] >> kQ3SplitBit & kBit) | (words[1] >> (kQ3SplitBit - 1) & kBit << 1) |
           (words[2] >> (kQ3SplitBit - 2) & kBit << 2);
    a[3] = product(words[2] & kHigh, kOneEighth);
  }

 private:
  static constexpr std::uint32_t kBit = 0x0001'0001U;
  static constexpr std::uint32_t kLow = 7 * kBit;
  static constexpr std::uint32_t kMiddle = kLow << 3;
  static constexpr std::uint32_t kHigh = kLow << kQ3MixedBit;
  static constexpr std::uint32_t kOneSixtyFourth = 0x2400'2400U;
  static constexpr std::uint32_t kOneEighth = 0x3000'3000U;

  static __device__ __forceinline__ std::uint32_t product(std::uint32_t halves, std::uint32_t factors) {
    const __half2 result =
        __hmul2(*reinterpret_cast<const __half2*>(&halves), *reinterpret_cast<const __half2*>(&factors));
    return *reinterpret_cast<const std::uint32_t*>(&result);
  }
};

}  // namespace tare::engine
