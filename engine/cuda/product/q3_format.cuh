// q3 weights as operand A: a field of three bits in the mantissa of an FP16 number is a subnormal, exact: q 2^-20 in
// bits 4 to 6, and eight times that in bits 7 to 9, from which rows g + 8 are taken. (Sums of smaller subnormals came
// out less exact, docs/method/weight-formats.md.) So steps 0, 1, 2 cost what a step of q4 costs. Step 3 is what the
// three words had room for (tiles.h): three registers from the lowest bits are multiplied by a power of two, exact and
// off the integer pipe, and one is put together from single bits.
#pragma once

#include <cuda_fp16.h>

#include "engine/cuda/device/ptx.cuh"
#include "engine/cuda/product/tiles.h"

namespace tare::engine {

struct Q3Format {
  static constexpr WeightFormat kFormat = WeightFormat::kQ3;
  static constexpr ScaleFormat kScales = ScaleFormat::kFP16;
  static constexpr bool kBFloat16 = false;
  static constexpr bool kScaled = true;
  static constexpr float kGroupBias = -4 * 0x1p-20F;
  static constexpr float kRowFactor = 8;
  static constexpr float kSumFactor = 0x1p20F;

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
      const std::uint32_t upper = words[step] >> (q3_bit(2) - q3_bit(0));
      a[0] = words[step] & kFirst;
      a[1] = words[step] & kSecond;
      a[2] = upper & kFirst;
      a[3] = upper & kSecond;
      return;
    }
    a[0] = product(words[0] & kLowest, kSixteen);
    a[1] = product(words[1] & kLowest, k128);
    a[2] = (words[0] << 1 & kBit << 4) | (words[1] << 2 & kBit << 5) | (words[2] << 3 & kBit << 6);
    a[3] = product(words[2] & kLowest, k128);
  }

 private:
  static constexpr std::uint32_t kBit = 0x0001'0001U;
  static constexpr std::uint32_t kLowest = 7 * kBit;
  static constexpr std::uint32_t kFirst = kLowest << q3_bit(0);
  static constexpr std::uint32_t kSecond = kLowest << q3_bit(1);
  static constexpr std::uint32_t kSixteen = 0x4C00'4C00U;  // FP16, twice
  static constexpr std::uint32_t k128 = 0x5800'5800U;
  static_assert(q3_bit(0) == 4 && q3_bit(1) == 7 && kQ3MixedBit == 0 && kQ3SplitBit == 3);

  static __device__ __forceinline__ std::uint32_t product(std::uint32_t halves, std::uint32_t factors) {
    const __half2 result =
        __hmul2(*reinterpret_cast<const __half2*>(&halves), *reinterpret_cast<const __half2*>(&factors));
    return *reinterpret_cast<const std::uint32_t*>(&result);
  }
};

}  // namespace tare::engine
