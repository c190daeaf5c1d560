// Thread blocks of a cluster that work together: stores into each other's shared memory that announce themselves at a
// barrier there (sm_90). Kernels call these with clusters only; on older devices they trap.
//
// Not barrier.cluster for every exchange: its release waits for all of a block's stores to global memory, its acquire
// empties L1; about 1,000 cycles each time on an H200.
#pragma once

#include <cstdint>

#include "engine/cuda/device/ptx.cuh"

namespace tare::engine {

// All threads of the cluster call both, once: barriers made before the arrival exist after the wait, and what a peer
// read before its arrival may be overwritten. Orders nothing else.
__device__ __forceinline__ void cluster_arrive() {
#if __CUDA_ARCH__ >= 900
  ptx::fence_barrier_init();
  asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory");
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

__device__ __forceinline__ void make_barrier(const std::uint64_t& barrier) {
#if __CUDA_ARCH__ >= 900
  ptx::barrier_init(ptx::shared_address(&barrier), 1);
#else
  __trap();
#endif
}
// One thread: the phase ends when `bytes` have come.
__device__ __forceinline__ void expect_from_peer(const std::uint64_t& barrier, int bytes) {
#if __CUDA_ARCH__ >= 900
  ptx::barrier_arrive_expect(ptx::shared_address(&barrier), static_cast<std::uint32_t>(bytes));
#else
  __trap();
#endif
}
__device__ __forceinline__ void wait_for_peer(const std::uint64_t& barrier, int phase) {
#if __CUDA_ARCH__ >= 900
  ptx::barrier_wait(ptx::shared_address(&barrier), static_cast<std::uint32_t>(phase % 2));
#else
  __trap();
#endif
}

// Where the peer keeps what lies at `shared`, or at `pointer`, here.
__device__ __forceinline__ std::uint32_t peer_address(std::uint32_t shared, std::uint32_t peer) {
  std::uint32_t address = 0;
#if __CUDA_ARCH__ >= 900
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(address) : "r"(shared), "r"(peer));
#else
  __trap();
#endif
  return address;
}
__device__ __forceinline__ std::uint32_t peer_address(const void* pointer, int peer) {
  return peer_address(ptx::shared_address(pointer), static_cast<std::uint32_t>(peer));
}
// Stores to the peer; the bytes count at its `barrier`.
__device__ __forceinline__ void send(std::uint32_t address, float4 value, std::uint32_t barrier) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(address),
      "f"(value.x), "f"(value.y), "f"(value.z), "f"(value.w), "r"(barrier)
      : "memory");
#else
  __trap();
#endif
}
__device__ __forceinline__ void send(std::uint32_t address, float2 value, std::uint32_t barrier) {
#if __CUDA_ARCH__ >= 900
  asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 [%0], {%1, %2}, [%3];" ::"r"(address),
               "f"(value.x), "f"(value.y), "r"(barrier)
               : "memory");
#else
  __trap();
#endif
}
__device__ __forceinline__ void send(std::uint32_t address, float value, std::uint32_t barrier) {
#if __CUDA_ARCH__ >= 900
  asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.f32 [%0], %1, [%2];" ::"r"(address),
               "f"(value), "r"(barrier)
               : "memory");
#else
  __trap();
#endif
}

}  // namespace tare::engine
