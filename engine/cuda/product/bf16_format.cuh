// BF16 weights as operand A: as they are. No scales, so sums run on over all units.
#pragma once

#include "engine/cuda/device/ptx.cuh"
#include "engine/cuda/product/tiles.h"

namespace tare::engine {

struct BF16Format {
  static constexpr WeightFormat kFormat = WeightFormat::kBF16;
  static constexpr ScaleFormat kScales = ScaleFormat::kFP16;
  static constexpr bool kBFloat16 = true;
  static constexpr bool kScaled = false;
  static constexpr float kGroupBias = 0;
  static constexpr float kRowFactor = 1;
  static constexpr float kSumFactor = 1;

  struct Codes {
    uint4 steps[4];
  };
  static __device__ __forceinline__ Codes load(std::uint32_t tile_address, int thread) {
    const std::uint32_t place = tile_address + static_cast<std::uint32_t>(thread * 16);
    Codes codes;
#pragma unroll
    for (int step = 0; step < 4; ++step) {
      codes.steps[step] = ptx::load_shared_16(place + static_cast<std::uint32_t>(step * 16 * kTileThreads));
    }
    return codes;
  }
  static __device__ __forceinline__ void unpack(const Codes& codes, int step, std::uint32_t (&a)[4]) {
    const uint4& four = codes.steps[step];
    a[0] = four.x, a[1] = four.y, a[2] = four.z, a[3] = four.w;
  }
};

}  // namespace tare::engine
