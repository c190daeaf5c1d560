// The variants of the q4 product that q4_gemm_probe knows, each with its kernels for 16 and 8 tokens, and the pace of
// their consumers when nothing has to be copied.
#pragma once

#include "engine/cuda/q4_launch.cuh"
#include "engine/cuda/q4_mma_sync.cuh"
#include "profiles/micro/q4_consumers.cuh"
#include "profiles/micro/q4_wgmma.cuh"

namespace tare::micro {

using engine::CudaLaunch;
using engine::kQ4BlockRows;
using engine::kQ4Threads;
using engine::Q4GemmArguments;
namespace ptx = engine::ptx;

// Clocks that a consumer needs for kResidentPairs unit pairs when its stage lies in shared memory already.
constexpr int kResidentPairs = 1000;
enum class Beside {
  kNothing,  // no copies, no barriers
  kPolls,    // before each pair every lane looks at a barrier whose phase has ended
  kCopies,   // a producer copies pairs from L2 into a ring of four that nobody reads, as fast as they land
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
  const std::uint32_t barrier = ptx::shared_address(&ended);
  Consumer consumer;
  const long long begin = clock64();
  consumer.first_pair(stage);
  for (int count = 1; count < kResidentPairs; ++count) {
    if (kBeside == Beside::kPolls) ptx::barrier_wait(barrier, 0);
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
  if (beside == Beside::kPolls) kernel = resident_kernel<Consumer, Beside::kPolls>;
  if (beside == Beside::kCopies) kernel = resident_kernel<Consumer, Beside::kCopies>;
  engine::launch_kernel("resident", kernel, 132, kQ4Threads<Consumer>, kResidentSharedBytes<Consumer>, {}, pairs,
                        activation_blocks, plane, clocks, copies);
}

// A variant's kernels for 16 and 8 tokens.
template <template <int> class Consumer, int kStages, int kBlocksAnSm>
struct Kernels {
  static void launch(int tokens, const Q4GemmArguments& arguments, const CudaLaunch& launch) {
    if (tokens == 16) {
      return engine::launch_q4_stream<Consumer<16>, kStages, kBlocksAnSm>("q4 n16", arguments, launch);
    }
    engine::launch_q4_stream<Consumer<8>, kStages, kBlocksAnSm>("q4 n8", arguments, launch);
  }
  static void resident(Beside beside, int tokens, const std::byte* pairs, const std::byte* activation_blocks,
                       float* plane, long long* clocks, int* copies) {
    if (tokens == 16) return launch_resident<Consumer<16>>(beside, pairs, activation_blocks, plane, clocks, copies);
    launch_resident<Consumer<8>>(beside, pairs, activation_blocks, plane, clocks, copies);
  }
};

template <int kTokens>
using MmaSync2 = engine::Q4MmaSyncConsumer<kTokens, 2>;
template <int kTokens>
using Wgmma4 = Q4WgmmaConsumer<kTokens, 4>;
template <int kTokens>
using Wgmma2 = Q4WgmmaConsumer<kTokens, 2>;
template <int kTokens>
using Unpack2 = UnpackConsumer<kTokens, 2>;

struct Variant {
  const char* name;
  bool computes;  // the product, so that it can be checked
  void (*resident)(Beside beside, int tokens, const std::byte* pairs, const std::byte* activation_blocks, float* plane,
                   long long* clocks, int* copies);  // null: of no interest
  void (*launch)(int tokens, const Q4GemmArguments& arguments, const CudaLaunch& launch);
};

using TwoBlocksMma2 = Kernels<MmaSync2, 5, 2>;
using BigRingMma2 = Kernels<MmaSync2, 10, 1>;
using TwoBlocksWgmma2 = Kernels<Wgmma2, 5, 2>;
using BigRingWgmma4 = Kernels<Wgmma4, 10, 1>;
using TwoBlocksUnpack2 = Kernels<Unpack2, 5, 2>;
using TwoBlocksCopy = Kernels<CopyConsumer, 5, 2>;

inline constexpr Variant kVariants[] = {
    {"engine", true, TwoBlocksMma2::resident, engine::q4_gemm},  // mma.sync, two blocks an SM
    {"mma_sync_big_ring", true, nullptr, BigRingMma2::launch},
    {"wgmma_two_blocks", true, TwoBlocksWgmma2::resident, TwoBlocksWgmma2::launch},
    {"wgmma_4wg_big_ring", true, BigRingWgmma4::resident, BigRingWgmma4::launch},
    {"unpack", false, TwoBlocksUnpack2::resident, TwoBlocksUnpack2::launch},
    {"copy", false, nullptr, TwoBlocksCopy::launch},
};

}  // namespace tare::micro
