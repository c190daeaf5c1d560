// q4 in the product stream: 4-bit codes, FP16 group scales.
//
// A code becomes an FP16 number without arithmetic: masked in place it is the subnormal q 2^-22 (bits 2 to 5), or
// 16 q 2^-22 (bits 6 to 9) in registers 1 and 3, whose rows (g + 8) are then too large by 16. (As high in the mantissa
// as the ten bits allow: sums of smaller subnormals came out less exact, docs/method/weight-formats.md.) q = code + 8,
// so a group's sums start at -8 2^-22 times the sum of its activations. All exact: the products differ from true ones
// by nothing but the sums.
#pragma once

#include <cstdint>

#include "engine/cuda/device/ptx.cuh"
#include "engine/cuda/product/tiles.h"

namespace tare::engine {

struct Q4Format {
  static constexpr WeightFormat kFormat = WeightFormat::kQ4;
  static constexpr ScaleFormat kScales = ScaleFormat::kFP16;
  static constexpr bool kBFloat16 = false;
  static constexpr bool kScaled = true;
  static constexpr float kGroupBias = -8.0F * 0x1p-22F;
  static constexpr float kRowFactor = 16.0F;
  static constexpr float kSumFactor = 0x1p22F;

  using Codes = uint4;  // word s: operand A of K step s

  static __device__ __forceinline__ Codes load(std::uint32_t tile_address, int thread) {
    return ptx::load_shared_16(tile_address + static_cast<std::uint32_t>(thread) * 16U);
  }
  // A word of each load.
  static __device__ __forceinline__ std::uint32_t last(const Codes& codes) { return codes.w; }
  // Five operations for eight codes.
  static __device__ __forceinline__ void unpack(const Codes& codes, int step, std::uint32_t (&a)[4]) {
    const std::uint32_t word = step == 0 ? codes.x : step == 1 ? codes.y : step == 2 ? codes.z : codes.w;
    const std::uint32_t upper = __funnelshift_r(word, word, 8);
    a[0] = word & kFirst;
    a[1] = word & kSecond;
    a[2] = upper & kFirst;
    a[3] = upper & kSecond;
  }

 private:
  static constexpr std::uint32_t kFirst = 0x000F'000FU << kQ4FirstBit;
  static constexpr std::uint32_t kSecond = kFirst << 4;
};

}  // namespace tare::engine
