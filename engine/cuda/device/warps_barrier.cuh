// Named barriers (1..15) of some of a block's warps.
//
// compute-sanitizer's racecheck orders the accesses of two warps by how many barriers each has passed, whichever they
// were. Where some warps pass one more than others it is one __syncthreads off from then on, and reports what that
// barrier has ordered. With TARE_RACECHECK (the build option TARE_CUDA_RACECHECK) all warps of the block therefore wait
// at every one of these barriers, in the same order; kBlockThreads are the block's.
#pragma once

#include "engine/cuda/device/ptx.cuh"

namespace tare::engine {

// Waits until `threads`, these among them, have come.
template <int kBlockThreads>
__device__ __forceinline__ void meet(int barrier, [[maybe_unused]] int threads) {
#ifdef TARE_RACECHECK
  ptx::named_barrier_sync(barrier, kBlockThreads);
#else
  ptx::named_barrier_sync(barrier, threads);
#endif
}
// Counts among `threads`, without waiting.
template <int kBlockThreads>
__device__ __forceinline__ void hand_on(int barrier, [[maybe_unused]] int threads) {
#ifdef TARE_RACECHECK
  ptx::named_barrier_sync(barrier, kBlockThreads);
#else
  ptx::named_barrier_arrive(barrier, threads);
#endif
}
// By the warps that the barrier does not concern.
template <int kBlockThreads>
__device__ __forceinline__ void pass_by([[maybe_unused]] int barrier) {
#ifdef TARE_RACECHECK
  ptx::named_barrier_sync(barrier, kBlockThreads);
#endif
}

}  // namespace tare::engine
