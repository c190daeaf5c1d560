// The PTX instructions that CUDA C++ has no name for, one function each (PTX ISA 9.0). Addresses called `shared` are
// 32-bit addresses in the shared window. All need sm_90; the two that order grids do nothing on older devices, where no
// launch is programmatic.
#pragma once

#include <vector_types.h>

#include <cstdint>

namespace tare::engine::ptx {

__device__ __forceinline__ std::uint32_t shared_address(const void* pointer) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(pointer));
}

// Lets the next grid of the stream start once every thread block of this one has said so or ended.
__device__ __forceinline__ void launch_dependents() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
// Waits until the preceding grid has ended and its writes are visible.
__device__ __forceinline__ void wait_for_preceding_grid() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Has `value`, which is never -1, computed here: ptxas else moves arithmetic past the wait, to where its result is
// used.
__device__ __forceinline__ void have_computed(std::int64_t value) {
  asm volatile("{\n\t.reg .pred p;\n\tsetp.eq.s64 p, %0, -1;\n\t@p trap;\n\t}" ::"l"(value) : "memory");
}

__device__ __forceinline__ void barrier_init(std::uint32_t shared_barrier, std::uint32_t arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_barrier), "r"(arrivals) : "memory");
}
// Makes initialised barriers visible to the copy engine.
__device__ __forceinline__ void fence_barrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ __forceinline__ void barrier_arrive(std::uint32_t shared_barrier) {
  asm volatile("mbarrier.arrive.release.cta.shared::cta.b64 _, [%0];" ::"r"(shared_barrier) : "memory");
}
// By a whole warp: one arrival of one lane, when what the warp loaded from shared memory up to `last_loaded` is in its
// registers. The order of a load and an arrival in the program is not enough: the load may wait in its queue while the
// arrival takes effect, and the copy engine, which is not held back by it, overwrite what is still to be read (seen on
// an H200, beside a block whose loads fill that queue: one warp in 10^6 blocks read the stage after its own). Loads
// from shared memory return in order, so the address of the arrival is made to depend on the last one. `zero`: 0, and
// the compiler must not know (a kernel argument).
__device__ __forceinline__ void warp_barrier_arrive_after(std::uint32_t shared_barrier, std::uint32_t last_loaded,
                                                          std::uint32_t zero) {
  __syncwarp();
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "{\n\t.reg .pred p;\n\t.reg .b32 nothing, address;\n\t"
      "and.b32 nothing, %1, %2;\n\t"
      "add.u32 address, %0, nothing;\n\t"
      "elect.sync _|p, 0xFFFFFFFF;\n\t"
      "@p mbarrier.arrive.release.cta.shared::cta.b64 _, [address];\n\t}" ::"r"(shared_barrier),
      "r"(last_loaded), "r"(zero)
      : "memory");
#endif
}
// One arrival that also announces `bytes` of copies; the phase ends when they have landed.
__device__ __forceinline__ void barrier_arrive_expect(std::uint32_t shared_barrier, std::uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%0], %1;" ::"r"(shared_barrier), "r"(bytes)
               : "memory");
}
// Waits until the barrier's phase of that parity has ended.
__device__ __forceinline__ void barrier_wait(std::uint32_t shared_barrier, std::uint32_t parity) {
  std::uint32_t done = 0;
  do {
    asm volatile(
        "{\n\t.reg .pred p;\n\t"
        "mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 p, [%1], %2;\n\t"
        "selp.u32 %0, 1, 0, p;\n\t}"
        : "=r"(done)
        : "r"(shared_barrier), "r"(parity)
        : "memory");
  } while (done == 0);
}

// Whether the barrier's phase of that parity has ended.
__device__ __forceinline__ bool barrier_ended(std::uint32_t shared_barrier, std::uint32_t parity) {
  std::uint32_t done = 0;
  asm volatile(
      "{\n\t.reg .pred p;\n\t"
      "mbarrier.test_wait.parity.acquire.cta.shared::cta.b64 p, [%1], %2;\n\t"
      "selp.u32 %0, 1, 0, p;\n\t}"
      : "=r"(done)
      : "r"(shared_barrier), "r"(parity)
      : "memory");
  return done != 0;
}

__device__ __forceinline__ std::uint64_t evict_first_policy() {
  std::uint64_t policy = 0;
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}
// Copies `bytes` (a multiple of 16, both addresses 16-byte aligned) from global to shared memory; they count at the
// barrier.
__device__ __forceinline__ void bulk_copy(std::uint32_t shared_target, const void* source, std::uint32_t bytes,
                                          std::uint32_t shared_barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(shared_target),
      "l"(source), "r"(bytes), "r"(shared_barrier)
      : "memory");
}
__device__ __forceinline__ void bulk_copy(std::uint32_t shared_target, const void* source, std::uint32_t bytes,
                                          std::uint32_t shared_barrier, std::uint64_t policy) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;" ::
          "r"(shared_target),
      "l"(source), "r"(bytes), "r"(shared_barrier), "l"(policy)
      : "memory");
}
// By a whole warp, with the same arguments in all lanes: one lane announces `first_bytes` + `second_bytes` at the
// barrier and starts both copies. Without a branch, and so without the loop over lanes that ptxas else puts around a
// copy.
__device__ __forceinline__ void warp_bulk_copies(std::uint32_t shared_target, const void* first,
                                                 std::uint32_t first_bytes, std::uint64_t first_policy,
                                                 const void* second, std::uint32_t second_bytes,
                                                 std::uint32_t shared_barrier) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "{\n\t.reg .pred p;\n\t.reg .b32 bytes, second;\n\t"
      "elect.sync _|p, 0xFFFFFFFF;\n\t"
      "add.u32 bytes, %2, %5;\n\t"
      "add.u32 second, %0, %2;\n\t"
      "@p mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%6], bytes;\n\t"
      "@p cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%6], "
      "%3;\n\t"
      "@p cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [second], [%4], %5, [%6];\n\t}" ::"r"(
          shared_target),
      "l"(first), "r"(first_bytes), "l"(first_policy), "l"(second), "r"(second_bytes), "r"(shared_barrier)
      : "memory");
#endif
}
// Likewise: one lane announces `expected` bytes at the barrier and starts a copy of some of them.
__device__ __forceinline__ void warp_expect_and_copy(std::uint32_t shared_target, const void* source,
                                                     std::uint32_t bytes, std::uint64_t policy,
                                                     std::uint32_t shared_barrier, std::uint32_t expected) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "{\n\t.reg .pred p;\n\t"
      "elect.sync _|p, 0xFFFFFFFF;\n\t"
      "@p mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%4], %5;\n\t"
      "@p cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%4], "
      "%3;\n\t}" ::"r"(shared_target),
      "l"(source), "r"(bytes), "l"(policy), "r"(shared_barrier), "r"(expected)
      : "memory");
#endif
}
// And one that was announced.
__device__ __forceinline__ void warp_bulk_copy(std::uint32_t shared_target, const void* source, std::uint32_t bytes,
                                               std::uint32_t shared_barrier) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "{\n\t.reg .pred p;\n\t"
      "elect.sync _|p, 0xFFFFFFFF;\n\t"
      "@p cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];\n\t}" ::"r"(
          shared_target),
      "l"(source), "r"(bytes), "r"(shared_barrier)
      : "memory");
#endif
}
// By a whole warp: adds one to the counter when what the warp wrote before __syncwarp can be seen by the whole GPU.
// Without a branch.
__device__ __forceinline__ void warp_count(unsigned* counter) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "{\n\t.reg .pred p;\n\t"
      "elect.sync _|p, 0xFFFFFFFF;\n\t"
      "@p red.release.gpu.global.add.u32 [%0], 1;\n\t}" ::"l"(counter)
      : "memory");
#endif
}
__device__ __forceinline__ void bulk_prefetch_l2(const void* source, std::uint32_t bytes) {
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(source), "r"(bytes) : "memory");
}

// The block's named barriers (1..15): `threads` in all arrive, those that sync wait for the others.
__device__ __forceinline__ void named_barrier_sync(int barrier, int threads) {
  asm volatile("barrier.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}
__device__ __forceinline__ void named_barrier_arrive(int barrier, int threads) {
  asm volatile("barrier.arrive %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

// Makes this thread's ordinary accesses to shared memory come before later copies of the copy engine into it.
__device__ __forceinline__ void fence_async_shared() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

__device__ __forceinline__ std::uint32_t load_shared_4(std::uint32_t shared_source) {
  std::uint32_t word = 0;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(word) : "r"(shared_source));
  return word;
}
__device__ __forceinline__ uint2 load_shared_8(std::uint32_t shared_source) {
  uint2 words;
  asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(words.x), "=r"(words.y) : "r"(shared_source));
  return words;
}
__device__ __forceinline__ uint4 load_shared_16(std::uint32_t shared_source) {
  uint4 words;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w)
               : "r"(shared_source));
  return words;
}
__device__ __forceinline__ void store_shared_8(std::uint32_t shared_target, float2 value) {
  asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(shared_target), "f"(value.x), "f"(value.y) : "memory");
}
__device__ __forceinline__ void store_shared_16(std::uint32_t shared_target, float4 value) {
  asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(shared_target), "f"(value.x), "f"(value.y),
               "f"(value.z), "f"(value.w)
               : "memory");
}
// 8x8 matrices of 16-bit numbers; lane 8 i + r gives the address of row r of matrix i.
__device__ __forceinline__ void load_two_matrices(std::uint32_t shared_row, std::uint32_t* two) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
               : "=r"(two[0]), "=r"(two[1])
               : "r"(shared_row));
}
__device__ __forceinline__ void load_four_matrices(std::uint32_t shared_row, std::uint32_t* four) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(four[0]), "=r"(four[1]), "=r"(four[2]), "=r"(four[3])
               : "r"(shared_row));
}

}  // namespace tare::engine::ptx
