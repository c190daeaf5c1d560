// Copies from global to shared memory that go past the registers, and are waited for by the threads that asked for them
// (PTX ISA 9.0, cp.async). Addresses are multiples of the size.
#pragma once

#include <cstdint>

#include "engine/cuda/device/ptx.cuh"

namespace tare::engine {

// To an address in the shared window.
template <int kBytes>
__device__ __forceinline__ void copy_async(std::uint32_t shared_target, const void* source) {
  static_assert(kBytes == 4 || kBytes == 8 || kBytes == 16);
  if constexpr (kBytes == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_target), "l"(source) : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(shared_target), "l"(source), "n"(kBytes) : "memory");
  }
}
template <int kBytes>
__device__ __forceinline__ void copy_async(const void* shared_target, const void* source) {
  copy_async<kBytes>(ptx::shared_address(shared_target), source);
}
// 16 bytes, or 16 zero bytes; the source is not read then.
__device__ __forceinline__ void copy_async_or_zeros(std::uint32_t shared_target, const void* source, bool real) {
  const int bytes = real ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_target), "l"(source), "r"(bytes)
               : "memory");
}
// The copies asked for since the last one are a group.
__device__ __forceinline__ void commit_copies() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
// Waits for all of this thread's groups but the last `kLeft`.
template <int kLeft>
__device__ __forceinline__ void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kLeft) : "memory");
}
// Waits for all copies of this thread, of a group or of none.
__device__ __forceinline__ void wait_for_all_copies() {
  asm volatile("cp.async.wait_all;" ::: "memory");
}

}  // namespace tare::engine
