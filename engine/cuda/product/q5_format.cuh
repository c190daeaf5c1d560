// q5 in the product stream: the lower four bits of a code lie as in q4, its fifth in a word of its own that a rotation
// brings above them. In bits 2 to 6 of an FP16 number the field is the subnormal q 2^-22; in bits 6 to 10 it is 16 q
// 2^-22: bit 10 is the lowest of the exponent, whose step from 0 to 1 adds to a number what a further mantissa bit
// would. q = code + 16, so a group's sums start at -16 2^-22 times the sum of its activations. All exact, as in q4.
#pragma once

#include <cstdint>

#include "engine/cuda/device/ptx.cuh"
#include "engine/cuda/product/tiles.h"

namespace tare::engine {

struct Q5Format {
  static constexpr WeightFormat kFormat = WeightFormat::kQ5;
  static constexpr ScaleFormat kScales = ScaleFormat::kFP16;
  static constexpr bool kBFloat16 = false;
  static constexpr bool kScaled = true;
  static constexpr float kGroupBias = -16.0F * 0x1p-22F;
  static constexpr float kRowFactor = 16.0F;
  static constexpr float kSumFactor = 0x1p22F;

  struct Codes {
    uint4 low;           // word s: of K step s
    std::uint32_t high;  // fifth bits
  };
  static __device__ __forceinline__ Codes load(std::uint32_t tile_address, int thread) {
    return {ptx::load_shared_16(tile_address + static_cast<std::uint32_t>(thread) * 16U),
            ptx::load_shared_4(tile_address + static_cast<std::uint32_t>(kQ5LowWords + thread) * 4U)};
  }
  static __device__ __forceinline__ void unpack(const Codes& codes, int step, std::uint32_t (&a)[4]) {
    const std::uint32_t word = step == 0   ? codes.low.x
                               : step == 1 ? codes.low.y
                               : step == 2 ? codes.low.z
                                           : codes.low.w;
    const std::uint32_t upper = __funnelshift_r(word, word, 8);
    const std::uint32_t fifth = step == 0 ? codes.high : __funnelshift_r(codes.high, codes.high, step);
    const std::uint32_t upper_fifth = __funnelshift_r(codes.high, codes.high, step + 8);
    a[0] = (word & kFirst) | (fifth & kFirstTop);
    a[1] = (word & kSecond) | (fifth & kSecondTop);
    a[2] = (upper & kFirst) | (upper_fifth & kFirstTop);
    a[3] = (upper & kSecond) | (upper_fifth & kSecondTop);
  }

 private:
  static constexpr std::uint32_t kBit = 0x0001'0001U;
  static constexpr std::uint32_t kFirst = 0xFU * kBit << kQ4FirstBit;
  static constexpr std::uint32_t kSecond = kFirst << 4;
  static constexpr std::uint32_t kFirstTop = kBit << q5_fifth_bit(0, 0, 0);
  static constexpr std::uint32_t kSecondTop = kBit << q5_fifth_bit(0, 1, 0);
  static_assert(q5_fifth_bit(0, 0, 0) == kQ4FirstBit + 4 && q5_fifth_bit(3, 2, 1) == (kQ4FirstBit + 4 + 16 + 11) % 32);
};

}  // namespace tare::engine
