// How a warp that has read a stage of a ring in shared memory hands it back, at the stage's "empty" barrier, to the
// copy engine.
#pragma once

#include "engine/cuda/device/ptx.cuh"

namespace tare::engine {

// TARE_RACECHECK (the build option TARE_CUDA_RACECHECK): all lanes of a warp arrive, not one for all.
// compute-sanitizer's racecheck orders after a barrier what a lane did before its own arrival; between the lanes of a
// converged warp, whose loads the hardware issues at once, it knows no order, and reports the 31 that do not arrive.
#ifdef TARE_RACECHECK
inline constexpr std::uint32_t kWarpArrivals = 32;
#else
inline constexpr std::uint32_t kWarpArrivals = 1;
#endif

// By a whole warp: its kWarpArrivals at the barrier, once what it loaded up to `last_loaded` is in its registers;
// `zero` as in ptx::warp_barrier_arrive_after.
__device__ __forceinline__ void hand_over_stage(std::uint32_t empty_barrier, std::uint32_t last_loaded,
                                                std::uint32_t zero) {
#ifdef TARE_RACECHECK
  ptx::barrier_arrive(empty_barrier + (last_loaded & zero));
#else
  ptx::warp_barrier_arrive_after(empty_barrier, last_loaded, zero);
#endif
}

}  // namespace tare::engine
