// Named barriers (1..15) of some of a block's warps.
//
// compute-sanitizer's racecheck can lose what later barriers of a block order where some of its warps have passed a
// named barrier and others have not: it then reports accesses on both sides of a __syncthreads
// (docs/method/sanitizers.md). With TARE_RACECHECK (the build option TARE_CUDA_RACECHECK) all warps of the
// block wait at every one of these barriers, in the same order; kBlockThreads are the block's.
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
