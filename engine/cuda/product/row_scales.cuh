// The scales of a block's rows on their way: asked for when the sums of a row block begin, there when they end. Read
// from global memory at the end they cost a block 0.5 to 1 us.
#pragma once

#include <cstdint>

#include "engine/cuda/device/async_copy.cuh"
#include "engine/cuda/product/tiles.h"

namespace tare::engine {

constexpr int kRowScaleBytes = kUnitRows * 4;  // of shared memory, a row of the row block a float

// What a lane does for its warp's 32 rows: 16 of two neighbouring tiles.
class RowScales {
 public:
  // `shared`: of the block's kRowScaleBytes; thread: 0..255.
  __device__ __forceinline__ RowScales(std::uint32_t shared, std::uint32_t thread)
      : warp_(shared + thread / 32 * 32 * 4) {}

  // Asks for the scales of a row block, whose first is *scales; what was there may still be read by other lanes.
  __device__ __forceinline__ void ask(const float* scales, std::uint32_t thread) const {
    const std::uint32_t lane = thread % 32;
    const float* source =
        scales + (thread / kTileThreads * 2 + lane / 16) * kTileRows + thread % kTileThreads / 32 * 16 + lane % 16;
    __syncwarp();
    copy_async<4>(warp_ + lane * 4, source);
    commit_copies();
  }
  __device__ __forceinline__ void wait() const {
    wait_for_all_copies();
    __syncwarp();
  }
  // Of row g and g + 8 (u) of a tile of the warp's two.
  [[nodiscard]] __device__ __forceinline__ float of(int tile, std::uint32_t g, int u) const {
    float scale = 0;
    asm volatile("ld.shared.f32 %0, [%1];" : "=f"(scale) : "r"(warp_ + (tile * 16 + g + u * 8) * 4) : "memory");
    return scale;
  }

 private:
  std::uint32_t warp_;
};

}  // namespace tare::engine
