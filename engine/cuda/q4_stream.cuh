// The weight stream of the q4 products: a ring of bulk copies that one producer thread fills and the warps of the
// consumer empty. What is done with a stage is the Consumer's business.
//
//   stage = a unit pair of weights (q4_tiles.h, 17,408 bytes) and its two activation blocks (q4_activations.h)
//   full[stage]:  1 arrival (the producer) and the bytes of both copies
//   empty[stage]: 1 arrival a consumer warp
//
// The producer asks for the first ring of weights before it waits for the preceding grid; weights are never written
// while a round runs. Activations come after the wait. Launched programmatically, a thread block thus fills its ring
// while blocks of the preceding grid still compute, and DRAM stays busy across the boundary.
//
// Every lane of a consumer warp polls: one lane for its warp was measured 3 to 20 clocks a tile slower.
//
// A Consumer has
//   static constexpr int kTokens, kWarpgroups
//   void first_pair(const std::byte* stage)          begins a fragment with its first stage
//   template <class Release> void next_pair(const std::byte* stage, Release release_previous)
//       computes on a further stage; calls release_previous() once, when nothing of the stage before is needed any more
//   void end_fragment()      afterwards the last stage is not needed either
//   void store(float* plane) writes its sums of the row block to plane [256][kTokens]
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/cuda/ptx.cuh"
#include "engine/cuda/q4_gemm.h"

namespace tare::engine {

constexpr int kQ4PairBytes = 2 * kQ4UnitBytes;

[[nodiscard]] constexpr int q4_stage_bytes(int tokens) {
  return kQ4PairBytes + 2 * q4_activation_block_bytes(tokens);
}

// The ring's place: `stages` stages, then the barriers full[stages], empty[stages].
[[nodiscard]] constexpr int q4_shared_bytes(int tokens, int stages) {
  return stages * (q4_stage_bytes(tokens) + 16);
}

template <int kTokens, int kStages>
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
    return barriers + static_cast<std::uint32_t>(8 * (kStages + index));
  }
};

// A stage index that goes round, and the parity of its lap.
template <int kStages>
struct RingPlace {
  int stage = 0;
  std::uint32_t parity = 0;

  __device__ __forceinline__ void advance() {
    if (++stage == kStages) {
      stage = 0;
      parity ^= 1U;
    }
  }
};

// One thread: streams the pairs first .. last - 1.
template <int kTokens, int kStages>
__device__ __forceinline__ void q4_produce(const Q4GemmArguments& arguments, const Q4Ring<kTokens, kStages>& ring,
                                           int first, int last) {
  constexpr std::uint32_t kActivationBytes = 2 * q4_activation_block_bytes(kTokens);
  const std::uint64_t policy = ptx::evict_first_policy();
  const std::byte* weights = arguments.weights + static_cast<std::size_t>(first) * kQ4PairBytes;
  const int count = last - first;
  const int prefilled = count < kStages ? count : kStages;
  for (int index = 0; index < prefilled; ++index) {
    ptx::barrier_arrive_expect(ring.full(index), kQ4PairBytes + kActivationBytes);
    ptx::bulk_copy(ring.stage(index), weights, kQ4PairBytes, ring.full(index), policy);
    weights += kQ4PairBytes;
  }
  ptx::wait_for_preceding_grid();
  int pair = first % arguments.plan.pairs_a_row_block;
  const auto copy_activations = [&](int stage) {
    const std::byte* source = arguments.activations + static_cast<std::size_t>(pair) * kActivationBytes;
    ptx::bulk_copy(ring.stage(stage) + kQ4PairBytes, source, kActivationBytes, ring.full(stage));
    if (++pair == arguments.plan.pairs_a_row_block) pair = 0;
  };
  for (int index = 0; index < prefilled; ++index) copy_activations(index);
  RingPlace<kStages> place;
  for (int index = prefilled; index < count; ++index) {
    ptx::barrier_wait(ring.empty(place.stage), place.parity);
    ptx::barrier_arrive_expect(ring.full(place.stage), kQ4PairBytes + kActivationBytes);
    ptx::bulk_copy(ring.stage(place.stage), weights, kQ4PairBytes, ring.full(place.stage), policy);
    copy_activations(place.stage);
    weights += kQ4PairBytes;
    place.advance();
  }
}

// The consumer warps: pairs first .. last - 1 fragment by fragment.
template <class Consumer, int kStages>
__device__ __forceinline__ void q4_consume(const Q4GemmArguments& arguments, const std::byte* shared,
                                           const Q4Ring<Consumer::kTokens, kStages>& ring, int first, int last) {
  const TilePlan& plan = arguments.plan;
  const bool speaks = threadIdx.x % 32 == 0;
  const std::size_t plane_floats =
      static_cast<std::size_t>(plan.row_blocks) * kQ4BlockRows * static_cast<std::size_t>(Consumer::kTokens);
  ptx::wait_for_preceding_grid();
  Consumer consumer;
  RingPlace<kStages> place;
  int row_block = first / plan.pairs_a_row_block;
  int left = last - first;
  int left_in_row_block = (row_block + 1) * plan.pairs_a_row_block - first;
  while (left > 0) {
    int count = left < left_in_row_block ? left : left_in_row_block;
    left -= count;
    left_in_row_block = plan.pairs_a_row_block;
    ptx::barrier_wait(ring.full(place.stage), place.parity);
    consumer.first_pair(shared + place.stage * q4_stage_bytes(Consumer::kTokens));
    std::uint32_t held = ring.empty(place.stage);  // barrier of the stage still in use
    place.advance();
    while (--count > 0) {
      ptx::barrier_wait(ring.full(place.stage), place.parity);
      consumer.next_pair(shared + place.stage * q4_stage_bytes(Consumer::kTokens), [&] {
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
    ++row_block;
  }
}

template <class Consumer>
constexpr int kQ4Threads = 128 * Consumer::kWarpgroups + 32;

template <class Consumer, int kStages, int kBlocksAnSm>
__global__ void __launch_bounds__(kQ4Threads<Consumer>, kBlocksAnSm)
    q4_stream_kernel(const __grid_constant__ Q4GemmArguments arguments) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ __align__(128) std::byte shared[];
  constexpr int kTokens = Consumer::kTokens;
  constexpr int kConsumerThreads = 128 * Consumer::kWarpgroups;
  ptx::launch_dependents();
  const Q4Ring<kTokens, kStages> ring{
      .stages = ptx::shared_address(shared),
      .barriers = ptx::shared_address(shared) + static_cast<std::uint32_t>(kStages * q4_stage_bytes(kTokens))};
  if (threadIdx.x == 0) {
    for (int index = 0; index < kStages; ++index) {
      ptx::barrier_init(ring.full(index), 1);
      ptx::barrier_init(ring.empty(index), kConsumerThreads / 32);
    }
    ptx::fence_barrier_init();
  }
  __syncthreads();
  const int block = static_cast<int>(blockIdx.x);
  const int first = arguments.plan.first_pair(block);
  const int last = arguments.plan.first_pair(block + 1);
  if (threadIdx.x >= kConsumerThreads) {
    if (threadIdx.x == kConsumerThreads) q4_produce<kTokens, kStages>(arguments, ring, first, last);
  } else {
    q4_consume<Consumer, kStages>(arguments, shared, ring, first, last);
  }
#else
  (void)arguments;
  __trap();  // q4_gemm refuses other devices
#endif
}

}  // namespace tare::engine
