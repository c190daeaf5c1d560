// The variants of the q4 product that q4_gemm_probe knows, each with its kernels for 16 and 8 tokens, and the pace of
// their consumers when nothing has to be copied.
#pragma once

#include "engine/cuda/q4_launch.cuh"
#include "profiles/micro/q4_consumers.cuh"

namespace tare::micro {

using engine::CudaLaunch;
using engine::kQ4BlockRows;
using engine::kQ4Threads;
using engine::Q4GemmArguments;
using engine::Q4Poll;
namespace ptx = engine::ptx;

// Clocks that a consumer needs for kResidentPairs unit pairs when its stage lies in shared memory already.
constexpr int kResidentPairs = 1000;
enum class Beside {
  kNothing,         // no copies, no barriers
  kEveryLanePolls,  // before each pair every lane looks at a barrier whose phase has ended
  kOneLanePolls,    // one lane a warp does
  kCopies,          // a producer copies pairs from L2 into a ring of four that nobody reads, as fast as they land
};
constexpr int kBesideStages = 4;

template <class Consumer>
constexpr int kResidentSharedBytes = engine::q4_stage_bytes(Consumer::kTokens) + kBesideStages* kQ4PairBytes;

// One thread: copies until the consumers are done; returns how many pairs.
__device__ __forceinline__ int copy_beside(const std::byte* source, std::uint32_t target, std::uint64_t* landed,
                                           const volatile int* done, int done_when) {
  int count = 0;
  const auto parity = [&] { return static_cast<std::uint32_t>(count / kBesideStages - 1) & 1U; };
  while (*done < done_when || count % kBesideStages != 0) {
    const int slot = count % kBesideStages;
    const std::uint32_t barrier = ptx::shared_address(landed + slot);
    if (count >= kBesideStages) ptx::barrier_wait(barrier, parity());
    ptx::barrier_arrive_expect(barrier, kQ4PairBytes);
    ptx::bulk_copy(target + static_cast<std::uint32_t>(slot * kQ4PairBytes), source + slot * kQ4PairBytes, kQ4PairBytes,
                   barrier);
    ++count;
  }
  for (int slot = 0; slot < kBesideStages && count > 0; ++slot) {
    ptx::barrier_wait(ptx::shared_address(landed + slot), parity());
  }
  return count;
}

template <class Consumer, Beside kBeside>
__global__ void __launch_bounds__(kQ4Threads<Consumer>, 1)
    resident_kernel(const std::byte* pairs, const std::byte* activation_blocks, float* plane, long long* clocks,
                    int* copies) {
  extern __shared__ __align__(128) std::byte stage[];
  __shared__ std::uint64_t ended;
  __shared__ std::uint64_t landed[kBesideStages];
  __shared__ int done;
  constexpr int kConsumerThreads = 128 * Consumer::kWarpgroups;
  constexpr int kStageBytes = engine::q4_stage_bytes(Consumer::kTokens);
  for (int index = static_cast<int>(threadIdx.x); index < kStageBytes; index += kQ4Threads<Consumer>) {
    stage[index] = index < kQ4PairBytes ? pairs[index] : activation_blocks[index - kQ4PairBytes];
  }
  if (threadIdx.x == 0) {
    done = 0;
    ptx::barrier_init(ptx::shared_address(&ended), 1);
    for (std::uint64_t& barrier : landed) ptx::barrier_init(ptx::shared_address(&barrier), 1);
    ptx::fence_barrier_init();
    ptx::barrier_arrive(ptx::shared_address(&ended));
  }
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  if (threadIdx.x >= kConsumerThreads) {
    if (kBeside == Beside::kCopies && threadIdx.x == kConsumerThreads) {
      copies[blockIdx.x] = copy_beside(pairs + static_cast<std::size_t>(blockIdx.x) * kBesideStages * kQ4PairBytes,
                                       ptx::shared_address(stage) + kStageBytes, landed, &done, Consumer::kWarpgroups);
    }
    return;
  }
  const bool speaks = threadIdx.x % 32 == 0;
  const std::uint32_t barrier = ptx::shared_address(&ended);
  Consumer consumer;
  const long long begin = clock64();
  consumer.first_pair(stage);
  for (int count = 1; count < kResidentPairs; ++count) {
    if (kBeside == Beside::kEveryLanePolls) engine::wait_for_stage<Q4Poll::kEveryLane>(barrier, 0, speaks);
    if (kBeside == Beside::kOneLanePolls) engine::wait_for_stage<Q4Poll::kOneLane>(barrier, 0, speaks);
    consumer.next_pair(stage, [] {});
  }
  consumer.end_fragment();
  const long long end = clock64();
  consumer.store(plane + static_cast<std::size_t>(blockIdx.x) * kQ4BlockRows * Consumer::kTokens);
  if (threadIdx.x % 128 == 0) {
    clocks[blockIdx.x * 4 + threadIdx.x / 128] = end - begin;
    atomicAdd(&done, 1);
  }
}

template <class Consumer>
void launch_resident(Beside beside, const std::byte* pairs, const std::byte* activation_blocks, float* plane,
                     long long* clocks, int* copies) {
  auto* kernel = resident_kernel<Consumer, Beside::kNothing>;
  if (beside == Beside::kEveryLanePolls) kernel = resident_kernel<Consumer, Beside::kEveryLanePolls>;
  if (beside == Beside::kOneLanePolls) kernel = resident_kernel<Consumer, Beside::kOneLanePolls>;
  if (beside == Beside::kCopies) kernel = resident_kernel<Consumer, Beside::kCopies>;
  engine::launch_kernel("resident", kernel, 132, kQ4Threads<Consumer>, kResidentSharedBytes<Consumer>, {}, pairs,
                        activation_blocks, plane, clocks, copies);
}

// A variant's kernels for 16 and 8 tokens.
template <template <int> class Consumer, int kStages, int kBlocksAnSm, Q4Poll kPoll>
struct Kernels {
  static void launch(int tokens, const Q4GemmArguments& arguments, const CudaLaunch& launch) {
    if (tokens == 16) {
      return engine::launch_q4_stream<Consumer<16>, kStages, kBlocksAnSm, kPoll>("q4 n16", arguments, launch);
    }
    engine::launch_q4_stream<Consumer<8>, kStages, kBlocksAnSm, kPoll>("q4 n8", arguments, launch);
  }
  static void resident(Beside beside, int tokens, const std::byte* pairs, const std::byte* activation_blocks,
                       float* plane, long long* clocks, int* copies) {
    if (tokens == 16) return launch_resident<Consumer<16>>(beside, pairs, activation_blocks, plane, clocks, copies);
    launch_resident<Consumer<8>>(beside, pairs, activation_blocks, plane, clocks, copies);
  }
};

template <int kTokens>
using Wgmma4 = engine::Q4WgmmaConsumer<kTokens, 4>;
template <int kTokens>
using Wgmma2 = engine::Q4WgmmaConsumer<kTokens, 2>;
template <int kTokens>
using MmaSync4 = MmaSyncConsumer<kTokens, 4>;
template <int kTokens>
using MmaSync2 = MmaSyncConsumer<kTokens, 2>;
template <int kTokens>
using Unpack4 = UnpackConsumer<kTokens, 4>;

struct Variant {
  const char* name;
  bool computes;  // the product, so that it can be checked
  void (*resident)(Beside beside, int tokens, const std::byte* pairs, const std::byte* activation_blocks, float* plane,
                   long long* clocks, int* copies);  // null: of no interest
  void (*launch)(int tokens, const Q4GemmArguments& arguments, const CudaLaunch& launch);
};

using BigRing4 = Kernels<Wgmma4, 10, 1, Q4Poll::kOneLane>;
using BigRing4AllPoll = Kernels<Wgmma4, 10, 1, Q4Poll::kEveryLane>;
using BigRing2 = Kernels<Wgmma2, 10, 1, Q4Poll::kOneLane>;
using TwoBlocks2 = Kernels<Wgmma2, 5, 2, Q4Poll::kOneLane>;
using BigRingMma4 = Kernels<MmaSync4, 10, 1, Q4Poll::kOneLane>;
using BigRingMma2 = Kernels<MmaSync2, 10, 1, Q4Poll::kOneLane>;
using BigRingUnpack4 = Kernels<Unpack4, 10, 1, Q4Poll::kOneLane>;
using BigRingCopy = Kernels<CopyConsumer, 10, 1, Q4Poll::kOneLane>;
using TwoBlocks2AllPoll = Kernels<Wgmma2, 5, 2, Q4Poll::kEveryLane>;
using TwoBlocksMma2AllPoll = Kernels<MmaSync2, 5, 2, Q4Poll::kEveryLane>;
using BigRingMma2AllPoll = Kernels<MmaSync2, 10, 1, Q4Poll::kEveryLane>;

inline constexpr Variant kVariants[] = {
    {"wgmma_4wg", true, BigRing4::resident, BigRing4::launch},
    {"wgmma_4wg_all_poll", true, nullptr, BigRing4AllPoll::launch},
    {"wgmma_2wg", true, BigRing2::resident, BigRing2::launch},
    {"wgmma_2wg_two_blocks", true, nullptr, TwoBlocks2::launch},
    {"mma_sync_4wg", true, BigRingMma4::resident, BigRingMma4::launch},
    {"mma_sync_2wg", true, BigRingMma2::resident, BigRingMma2::launch},
    {"unpack_4wg", false, BigRingUnpack4::resident, BigRingUnpack4::launch},
    {"copy", false, nullptr, BigRingCopy::launch},
    {"wgmma_2wg_two_blocks_all_poll", true, nullptr, TwoBlocks2AllPoll::launch},
    {"mma_sync_2wg_two_blocks_all_poll", true, nullptr, TwoBlocksMma2AllPoll::launch},
    {"mma_sync_2wg_all_poll", true, nullptr, BigRingMma2AllPoll::launch},
};

}  // namespace tare::micro
