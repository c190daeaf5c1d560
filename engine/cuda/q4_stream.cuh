// The weight stream of the q4 products: a ring of bulk copies that one producer thread fills and eight consumer warps
// (two warpgroups) empty. What is done with a stage is the Consumer's business.
//
//   stage = one unit of weights (q4_tiles.h, 8,704 bytes) and its activation block (q4_activations.h)
//   full[stage]:  1 arrival (the producer) and the bytes of both copies
//   empty[stage]: 8 arrivals, one a consumer warp
//
// The producer asks for the first ring of weights before it waits for the preceding grid; weights are never written
// while a round runs. Activations come after the wait. Launched programmatically, the next grid's thread block thus
// fills its ring (87 KB) while this one still computes, and DRAM stays busy across the boundary.
//
// A Consumer has
//   static constexpr int kTokens
//   void first_unit(const std::byte* stage)          begins a fragment with its first stage
//   template <class Release> void next_unit(const std::byte* stage, Release release_previous)
//       computes on a further stage; calls release_previous() once, when nothing of the stage before is needed any more
//   void end_fragment()      afterwards the last stage is not needed either
//   void store(float* plane) writes its sums of the row block to plane [256][kTokens]
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/cuda/ptx.cuh"
#include "engine/cuda/q4_gemm.h"

namespace tare::engine {

constexpr int kQ4ConsumerWarps = 8;
constexpr int kQ4ConsumerThreads = 32 * kQ4ConsumerWarps;

[[nodiscard]] constexpr int q4_stage_bytes(int tokens) {
  return kQ4UnitBytes + q4_activation_block_bytes(tokens);
}

// The ring's place: kQ4Stages stages, then the barriers full[kQ4Stages], empty[kQ4Stages].
[[nodiscard]] constexpr int q4_shared_bytes(int tokens) {
  return kQ4Stages * (q4_stage_bytes(tokens) + 16);
}

// A stage index that goes round, and the parity of its lap.
struct RingPlace {
  int stage = 0;
  std::uint32_t parity = 0;

  __device__ __forceinline__ void advance() {
    if (++stage == kQ4Stages) {
      stage = 0;
      parity ^= 1U;
    }
  }
};

template <int kTokens>
struct Q4Ring {
  std::uint32_t stages = 0;  // shared addresses
  std::uint32_t barriers = 0;

  __device__ __forceinline__ std::uint32_t stage(int index) const {
    return stages + static_cast<std::uint32_t>(index * q4_stage_bytes(kTokens));
  }
  __device__ __forceinline__ std::uint32_t full(int index) const {
    return barriers + static_cast<std::uint32_t>(8 * index);
  }
  __device__ __forceinline__ std::uint32_t empty(int index) const {
    return barriers + static_cast<std::uint32_t>(8 * (kQ4Stages + index));
  }
};

// One thread: streams the units first .. last - 1.
template <int kTokens>
__device__ __forceinline__ void q4_produce(const Q4GemmArguments& arguments, const Q4Ring<kTokens>& ring, int first,
                                           int last) {
  constexpr std::uint32_t kActivationBytes = q4_activation_block_bytes(kTokens);
  const std::uint64_t policy = ptx::evict_first_policy();
  const std::byte* weights = arguments.weights + static_cast<std::size_t>(first) * kQ4UnitBytes;
  const int count = last - first;
  const int prefilled = count < kQ4Stages ? count : kQ4Stages;
  for (int index = 0; index < prefilled; ++index) {
    ptx::barrier_arrive_expect(ring.full(index), kQ4UnitBytes + kActivationBytes);
    ptx::bulk_copy(ring.stage(index), weights, kQ4UnitBytes, ring.full(index), policy);
    weights += kQ4UnitBytes;
  }
  ptx::wait_for_preceding_grid();
  int chunk = first % arguments.plan.units_a_row_block;
  const auto copy_activations = [&](int stage) {
    const std::byte* source = arguments.activations + static_cast<std::size_t>(chunk) * kActivationBytes;
    ptx::bulk_copy(ring.stage(stage) + kQ4UnitBytes, source, kActivationBytes, ring.full(stage));
    if (++chunk == arguments.plan.units_a_row_block) chunk = 0;
  };
  for (int index = 0; index < prefilled; ++index) copy_activations(index);
  RingPlace place;
  for (int index = prefilled; index < count; ++index) {
    ptx::barrier_wait(ring.empty(place.stage), place.parity);
    ptx::barrier_arrive_expect(ring.full(place.stage), kQ4UnitBytes + kActivationBytes);
    ptx::bulk_copy(ring.stage(place.stage), weights, kQ4UnitBytes, ring.full(place.stage), policy);
    copy_activations(place.stage);
    weights += kQ4UnitBytes;
    place.advance();
  }
}

// One thread: asks L2 for what this thread block's successor will read after its ring.
__device__ __forceinline__ void q4_fill_next(const Q4Fill& fill, int block) {
  if (fill.weights == nullptr || block >= fill.plan.grid) return;
  const int first = fill.plan.first_unit(block) + fill.skip;
  const int end = fill.plan.first_unit(block + 1);
  const int last = first + fill.units < end ? first + fill.units : end;
  for (int unit = first; unit < last; ++unit) {
    ptx::bulk_prefetch_l2(fill.weights + static_cast<std::size_t>(unit) * kQ4UnitBytes, kQ4UnitBytes);
  }
}

// The consumer warps: units first .. last - 1 fragment by fragment.
template <class Consumer>
__device__ __forceinline__ void q4_consume(const Q4GemmArguments& arguments, const std::byte* shared,
                                           const Q4Ring<Consumer::kTokens>& ring, int first, int last) {
  const Q4Plan& plan = arguments.plan;
  const bool speaks = threadIdx.x % 32 == 0;
  const std::size_t plane_floats =
      static_cast<std::size_t>(plan.row_blocks) * kQ4BlockRows * static_cast<std::size_t>(Consumer::kTokens);
  ptx::wait_for_preceding_grid();
  Consumer consumer;
  RingPlace place;
  int row_block = first / plan.units_a_row_block;
  for (int unit = first; unit < last; ++row_block) {
    const int row_block_end = (row_block + 1) * plan.units_a_row_block;
    const int fragment_end = row_block_end < last ? row_block_end : last;
    ptx::barrier_wait(ring.full(place.stage), place.parity);
    consumer.first_unit(shared + place.stage * q4_stage_bytes(Consumer::kTokens));
    std::uint32_t held = ring.empty(place.stage);  // barrier of the stage still in use
    place.advance();
    while (++unit < fragment_end) {
      ptx::barrier_wait(ring.full(place.stage), place.parity);
      consumer.next_unit(shared + place.stage * q4_stage_bytes(Consumer::kTokens), [&] {
        if (speaks) ptx::barrier_arrive(held);
      });
      held = ring.empty(place.stage);
      place.advance();
    }
    consumer.end_fragment();
    if (speaks) ptx::barrier_arrive(held);
    const int plane = static_cast<int>(blockIdx.x) - plan.first_block(row_block);
    consumer.store(arguments.planes + static_cast<std::size_t>(plane) * plane_floats +
                   static_cast<std::size_t>(row_block) * kQ4BlockRows * Consumer::kTokens);
  }
}

template <class Consumer>
__global__ void __launch_bounds__(kQ4Threads, 2) q4_stream_kernel(const __grid_constant__ Q4GemmArguments arguments) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ __align__(128) std::byte shared[];
  constexpr int kTokens = Consumer::kTokens;
  ptx::launch_dependents();
  const Q4Ring<kTokens> ring{
      .stages = ptx::shared_address(shared),
      .barriers = ptx::shared_address(shared) + static_cast<std::uint32_t>(kQ4Stages * q4_stage_bytes(kTokens))};
  if (threadIdx.x == 0) {
    for (int index = 0; index < kQ4Stages; ++index) {
      ptx::barrier_init(ring.full(index), 1);
      ptx::barrier_init(ring.empty(index), kQ4ConsumerWarps);
    }
    ptx::fence_barrier_init();
  }
  __syncthreads();
  const int block = static_cast<int>(blockIdx.x);
  const int first = arguments.plan.first_unit(block);
  const int last = arguments.plan.first_unit(block + 1);
  if (threadIdx.x >= kQ4ConsumerThreads) {
    if (threadIdx.x == kQ4ConsumerThreads) {
      q4_produce<kTokens>(arguments, ring, first, last);
      q4_fill_next(arguments.fill, block);
    }
  } else {
    q4_consume<Consumer>(arguments, shared, ring, first, last);
  }
#else
  (void)arguments;
  __trap();  // q4_gemm refuses other devices
#endif
}

}  // namespace tare::engine
