// q8 weights as operand A: a byte becomes the low bits of an FP16 number of [1024, 2048), whose unit in the last place
// is 1; less 1152 that is the code itself, exact. So nothing is left to correct after the products.
#pragma once

#include <cuda_fp16.h>

#include "engine/cuda/device/ptx.cuh"
#include "engine/cuda/product/tiles.h"

namespace tare::engine {

struct Q8Format {
  static constexpr WeightFormat kFormat = WeightFormat::kQ8;
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
    const std::uint32_t offsets = kOffsets;
    const uint4& four = codes.halves[step / 2];
    const std::uint32_t words[2] = {step % 2 == 0 ? four.x : four.z, step % 2 == 0 ? four.y : four.w};
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      // Bytes 0 and 1, or 2 and 3, of the word as low bytes; high bytes 0x64: 1024 + byte.
      const std::uint32_t wide = __byte_perm(words[r / 2], kHighBytes, r % 2 == 0 ? 0x4140U : 0x4342U);
      const __half2 code =
          __hsub2(*reinterpret_cast<const __half2*>(&wide), *reinterpret_cast<const __half2*>(&offsets));
      a[r] = *reinterpret_cast<const std::uint32_t*>(&code);
    }
  }

 private:
  static constexpr std::uint32_t kHighBytes = 0x6464'6464U;
  static constexpr std::uint32_t kOffsets = 0x6480'6480U;  // 1152 = 1024 + code_bias, twice
};

}  // namespace tare::engine
