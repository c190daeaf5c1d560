// Two thread blocks that work on one head: barriers and stores into each other's shared memory (sm_90). A kernel of one
// slice a head never calls these; elsewhere they trap.
#pragma once

#include <cstdint>

#include "engine/cuda/device/ptx.cuh"

namespace tare::engine::gdn {

// Both blocks' threads call both. What was written before the arrival is seen after the wait.
__device__ __forceinline__ void cluster_arrive() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.release;" ::: "memory");
#else
  __trap();
#endif
}
__device__ __forceinline__ void cluster_wait() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
#else
  __trap();
#endif
}

// Where the peer keeps what lies at `pointer` here.
__device__ __forceinline__ std::uint32_t peer_address(const void* pointer, unsigned peer) {
  std::uint32_t address = 0;
#if __CUDA_ARCH__ >= 900
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(address) : "r"(ptx::shared_address(pointer)), "r"(peer));
#else
  __trap();
#endif
  return address;
}
__device__ __forceinline__ void store_to_peer(std::uint32_t address, float4 value) {
#if __CUDA_ARCH__ >= 900
  asm volatile("st.shared::cluster.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(address), "f"(value.x), "f"(value.y),
               "f"(value.z), "f"(value.w)
               : "memory");
#else
  __trap();
#endif
}
__device__ __forceinline__ void store_to_peer(std::uint32_t address, float value) {
#if __CUDA_ARCH__ >= 900
  asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(address), "f"(value) : "memory");
#else
  __trap();
#endif
}

}  // namespace tare::engine::gdn
