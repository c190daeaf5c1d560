// FP8 weights as operand A: each E4M3 number as the FP16 number of the same value.
#pragma once

#include <cuda_fp8.h>

#include "engine/cuda/device/ptx.cuh"
#include "engine/cuda/product/tiles.h"

namespace tare::engine {

struct FP8Format {
  static constexpr WeightFormat kFormat = WeightFormat::kFP8;
  static constexpr ScaleFormat kScales = ScaleFormat::kFP16;
  static constexpr bool kBFloat16 = false;
  static constexpr bool kScaled = true;
  static constexpr float kGroupBias = 0;
  static constexpr float kRowFactor = 1;
  static constexpr float kSumFactor = 1;

  struct Codes {
    uint4 halves[2];  // steps 0 and 1, steps 2 and 3
  };
  static __device__ __forceinline__ Codes load(std::uint32_t tile_address, int thread) {
    const std::uint32_t place = tile_address + static_cast<std::uint32_t>(thread * 16);
    return {{ptx::load_shared_16(place), ptx::load_shared_16(place + 16 * kTileThreads)}};
  }
  static __device__ __forceinline__ void unpack(const Codes& codes, int step, std::uint32_t (&a)[4]) {
    const uint4& four = codes.halves[step / 2];
    const std::uint32_t words[2] = {step % 2 == 0 ? four.x : four.z, step % 2 == 0 ? four.y : four.w};
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      const auto two = static_cast<__nv_fp8x2_storage_t>(words[r / 2] >> (16 * (r % 2)));
      const __half2_raw halves = __nv_cvt_fp8x2_to_halfraw2(two, __NV_E4M3);
      a[r] = static_cast<std::uint32_t>(halves.x) | static_cast<std::uint32_t>(halves.y) << 16;
    }
  }
};

}  // namespace tare::engine
