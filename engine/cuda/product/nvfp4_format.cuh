// NVFP4 in the product stream: E2M1 codes under an E4M3 scale for every 16 columns, which are one K step.
//
// A code's magnitude in bits 9 to 11 of an FP16 number and its sign in bit 15 are the number 2^-14 code; times 2^7
// scale it is 2^-7 code scale: six significant bits, from 2^-17 to 21, so exact in FP16. Weights enter the matrix
// instruction with their scales; the sums of a unit are added up as they are, and the scale of the tensor comes at the
// end.
#pragma once

#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <cstdint>

#include "engine/cuda/device/ptx.cuh"
#include "engine/cuda/product/tiles.h"

namespace tare::engine {

struct NVFP4Format {
  static constexpr WeightFormat kFormat = WeightFormat::kNVFP4;
  static constexpr ScaleFormat kScales = ScaleFormat::kE4M3;
  static constexpr bool kBFloat16 = false;
  static constexpr bool kScaled = true;
  static constexpr float kGroupBias = 0;
  static constexpr float kRowFactor = 1;
  static constexpr float kSumFactor = 0x1p7F;

  struct Codes {
    uint4 steps;   // word s: of K step s
    uint2 scales;  // two bytes a step: of rows g and g + 8
  };
  // Without the scales, which lie after all tiles of a unit.
  static __device__ __forceinline__ Codes load(std::uint32_t tile_address, int thread) {
    return {ptx::load_shared_16(tile_address + static_cast<std::uint32_t>(thread) * 16U), {}};
  }
  static __device__ __forceinline__ void unpack(const Codes& codes, int step, std::uint32_t (&a)[4]) {
    const std::uint32_t word = step == 0   ? codes.steps.x
                               : step == 1 ? codes.steps.y
                               : step == 2 ? codes.steps.z
                                           : codes.steps.w;
    const std::uint32_t turned = __funnelshift_r(word, word, nvfp4_bit(1, 0) - nvfp4_bit(0, 0));
    const std::uint32_t numbers[4] = {
        word & (kMagnitude | kSign), turned & (kMagnitude | kSign),
        (word << (kFirstBit - nvfp4_bit(2, 0)) & kMagnitude) | (word << (kSignBit - nvfp4_sign_bit(2, 0)) & kSign),
        (word << (kFirstBit - nvfp4_bit(3, 0)) & kMagnitude) | (word << (kSignBit - nvfp4_sign_bit(3, 0)) & kSign)};
    const std::uint32_t bytes = (step < 2 ? codes.scales.x : codes.scales.y) >> (16 * (step % 2));
    const __half2 rows =
        __hmul2(__half2(__nv_cvt_fp8x2_to_halfraw2(static_cast<__nv_fp8x2_storage_t>(bytes), __NV_E4M3)),
                __half2half2(__ushort_as_half(kScaleFactor)));
    const __half2 scales[2] = {__low2half2(rows), __high2half2(rows)};
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      const __half2 weight = __hmul2(*reinterpret_cast<const __half2*>(&numbers[r]), scales[r % 2]);
      a[r] = *reinterpret_cast<const std::uint32_t*>(&weight);
    }
  }

 private:
  static constexpr std::uint32_t kBit = 0x0001'0001U;
  static constexpr int kFirstBit = nvfp4_bit(0, 0);
  static constexpr int kSignBit = nvfp4_sign_bit(0, 0);
  static constexpr std::uint32_t kMagnitude = 7U * kBit << kFirstBit;
  static constexpr std::uint32_t kSign = kBit << kSignBit;
  static constexpr unsigned short kScaleFactor = 0x5800;  // 2^7
  static_assert(kFirstBit == 9 && kSignBit == 15);        // where FP16 has them
};

}  // namespace tare::engine
