// Consumers of the q4 weight stream that are not the engine's: each leaves something out, so that differences of times
// say what a part costs.
#pragma once

#include "engine/cuda/q4_fragments.cuh"

namespace tare::micro {

using engine::kQ4PairBytes;
using engine::kQ4UnitBytes;
using engine::Q4Lane;

// Stages pass through unread: the ring alone.
template <int kTokenCount>
class CopyConsumer {
 public:
  static constexpr int kTokens = kTokenCount;
  static constexpr int kWarpgroups = 2;
  __device__ __forceinline__ void first_pair(const std::byte*) {}
  template <class Release>
  __device__ __forceinline__ void next_pair(const std::byte*, Release release_previous) {
    release_previous();
  }
  __device__ __forceinline__ void end_fragment() {}
  __device__ __forceinline__ void store(float*) const {}
};

// Reads and unpacks, folds the registers together instead of multiplying.
template <int kTokenCount, int kWarpgroupCount>
class UnpackConsumer {
 public:
  static constexpr int kTokens = kTokenCount;
  static constexpr int kWarpgroups = kWarpgroupCount;
  __device__ __forceinline__ UnpackConsumer() { lane_.hold(); }
  __device__ __forceinline__ void first_pair(const std::byte* stage) {
    folded_ = 0;
    fold(stage);
  }
  template <class Release>
  __device__ __forceinline__ void next_pair(const std::byte* stage, Release release_previous) {
    fold(stage);
    __syncwarp();
    release_previous();
  }
  __device__ __forceinline__ void end_fragment() { __syncwarp(); }
  __device__ __forceinline__ void store(float* plane) const {
    plane[threadIdx.x % 256 * kTokens] = __uint_as_float(folded_ & 0x3F7F'FFFFU);
  }

 private:
  static constexpr int kTiles = 4 / kWarpgroups;
  __device__ __forceinline__ void fold(const std::byte* stage) {
    const std::uint32_t base = engine::ptx::shared_address(stage);
#pragma unroll
    for (int step = 0; step < 2 * kTiles; ++step) {
      const std::uint32_t unit_base = base + static_cast<std::uint32_t>(step / kTiles * kQ4UnitBytes);
      const uint4 codes =
          engine::load_codes(unit_base + lane_.codes + static_cast<std::uint32_t>(step % kTiles * 2048));
      std::uint32_t registers[16];
      engine::unpack_tile(codes, registers);
#pragma unroll
      for (int index = 0; index < 16; index += 2) {
        asm("lop3.b32 %0, %1, %2, %3, 0x96;"
            : "=r"(folded_)
            : "r"(registers[index]), "r"(registers[index + 1]), "r"(folded_));
      }
    }
  }
  Q4Lane<kTiles> lane_;
  std::uint32_t folded_ = 0;
};

}  // namespace tare::micro
