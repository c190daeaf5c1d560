// What the extra thread blocks of a GDN launch do.
#pragma once

#include <cstdint>

#include "engine/cuda/device/ptx.cuh"
#include "engine/cuda/device/round_control.h"

namespace tare::engine::gdn {

constexpr int kFillPiece = 8192;  // bytes that one prefetch asks for

// The extra blocks: pull weights into L2.
__device__ inline void fill_l2(const L2Fill& fill, int block) {
  const std::int64_t pieces = (fill.bytes + kFillPiece - 1) / kFillPiece;
  const std::int64_t threads = static_cast<std::int64_t>(fill.blocks) * blockDim.x;
  for (std::int64_t piece = static_cast<std::int64_t>(block) * blockDim.x + threadIdx.x; piece < pieces;
       piece += threads) {
    const std::byte* source = fill.data + piece * kFillPiece;
    const std::int64_t bytes = min(static_cast<std::int64_t>(kFillPiece), fill.bytes - piece * kFillPiece);
#if __CUDA_ARCH__ >= 900
    ptx::bulk_prefetch_l2(source, static_cast<std::uint32_t>(bytes / 16 * 16));
#else
    constexpr int kLine = 128;
    for (std::int64_t at = 0; at < bytes; at += kLine) asm volatile("prefetch.global.L2 [%0];" ::"l"(source + at));
#endif
  }
}

// Of a grid of which the first `work` blocks work: whether this is one of the fill's. If so, it has done its part.
__device__ __forceinline__ bool is_done_as_fill(const L2Fill& fill, int work) {
  if (static_cast<int>(blockIdx.x) < work) return false;
  ptx::launch_dependents();
  fill_l2(fill, static_cast<int>(blockIdx.x) - work);
  ptx::wait_for_preceding_grid();
  return true;
}

// The blocks of a fill, whole clusters; 0 without one.
inline int fill_blocks(const L2Fill& fill, int cluster) {
  return fill.bytes > 0 ? (fill.blocks + cluster - 1) / cluster * cluster : 0;
}

}  // namespace tare::engine::gdn
