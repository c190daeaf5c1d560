// The end of a product that applies the activation itself: what a cluster does with the sums of its own row block, and
// how the blocks finish the row blocks that they share (activated_plan.h). Rows lie as gate_up_rows.h has them.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "engine/cuda/device/cluster.cuh"
#include "engine/cuda/device/ptx.cuh"
#include "engine/cuda/device/quick_silu.cuh"
#include "engine/cuda/device/warps_barrier.cuh"
#include "engine/cuda/product/activated_plan.h"
#include "engine/cuda/product/gate_up_rows.h"
#include "engine/cuda/product/operand.cuh"
#include "engine/cuda/product/product_stream.h"

namespace tare::engine {

constexpr int kActivationWarps = 8;
constexpr int kGroupSumsBarrier = 1;  // named barrier of the warps that have a group; 0 is __syncthreads
constexpr int kRowBlockGroups = kUnitRows / 2 / kOperandGroup;  // groups of 64 columns that a row block becomes
constexpr int kGroupRows = 2 * kOperandGroup;
constexpr int kPlaneBatchOfWarp = 5;  // planes that a warp has on their way together; 27B: 40 planes, 8 warps

// Shared memory of a block beside its ring: sums from the peer, [vector][thread 128] of four floats, later sums of
// planes, [warp][lane] gate and up of two rows by two tokens; group sums, [warp 4][token] FP32; a barrier.
constexpr int kPlaneSumBytes = kActivationWarps * 32 * 2 * 16;
[[nodiscard]] constexpr int peer_sum_bytes(int tokens) {
  return kTileThreads * tokens * 4;
}
[[nodiscard]] constexpr int group_sum_offset(int tokens) {
  return peer_sum_bytes(tokens) > kPlaneSumBytes ? peer_sum_bytes(tokens) : kPlaneSumBytes;
}
[[nodiscard]] constexpr int peer_barrier_offset(int tokens) {
  return group_sum_offset(tokens) + 4 * tokens * 4;
}
[[nodiscard]] constexpr int activation_shared_bytes(int tokens) {
  return peer_barrier_offset(tokens) + 16;
}

template <int kTokens>
class BlockActivation {
 public:
  __device__ __forceinline__ BlockActivation(const ActivationEnding& ending, std::uint32_t shared)
      : ending_(ending), shared_(shared) {}

  // All threads, before anything else; the peer's sums are expected from then on.
  __device__ __forceinline__ void init() const {
    if (threadIdx.x == 0) {
      ptx::barrier_init(barrier(), 1);
      ptx::barrier_arrive_expect(barrier(), peer_sum_bytes(kTokens));
    }
    cluster_arrive();
  }

  // Of the cluster's row block; totals as in product_fragments.cuh, d[4 j + v] a gate row's, d[4 j + 2 + v] its up
  // row's. All threads: the rows of one group of columns go to the peer, those of the other are added to the peer's.
  __device__ __forceinline__ void store(const float (&totals)[2][kTokens / 2]) const {
    std::uint32_t thread = threadIdx.x;
    asm volatile("" : "+r"(thread));  // not to be prepared before the loop, whose registers are few
    const std::uint32_t rank = blockIdx.x % kActivatedCluster;
    const std::uint32_t team = thread / kTileThreads;  // has tiles 2 team and 2 team + 1: one group of columns
    const std::uint32_t place = shared_ + thread % kTileThreads * 16;
    cluster_wait();  // for the peer's barrier
    if (team != rank) {
      const std::uint32_t peer = peer_address(place, rank ^ 1U);
      const std::uint32_t peer_barrier = peer_address(barrier(), rank ^ 1U);
#pragma unroll
      for (int i = 0; i < kTokens / 4; ++i) {
        const float* four = totals[i / (kTokens / 8)] + i % (kTokens / 8) * 4;
        send(peer + i * (kTileThreads * 16), float4{four[0], four[1], four[2], four[3]}, peer_barrier);
      }
      if (ending_.out.layout == OperandLayout::kFP16Panels) pass_by<kActivationWarps * 32>(kGroupSumsBarrier);
      return;
    }
    ptx::barrier_wait(barrier(), 0);
    const std::uint32_t warp = thread % kTileThreads / 32;
    const std::uint32_t g = thread % 32 / 4;
    const std::uint32_t p = thread % 4;
    std::byte* block = block_of(static_cast<int>(blockIdx.x));
    float sums[kTokens / 4] = {};
#pragma unroll
    for (int tile = 0; tile < 2; ++tile) {
      const int column = tile * kTileRows / 2 + static_cast<int>(warp * 8 + g);
#pragma unroll
      for (int j = 0; j < kTokens / 8; ++j) {
        const float4 other = as_floats(ptx::load_shared_16(place + (tile * (kTokens / 8) + j) * (kTileThreads * 16)));
        const float* own = totals[tile] + 4 * j;
        const float values[2] = {activated(own[0] + other.x, own[2] + other.z),
                                 activated(own[1] + other.y, own[3] + other.w)};
#pragma unroll
        for (int v = 0; v < 2; ++v) {
          const int token = 8 * j + static_cast<int>(2 * p) + v;
          sums[2 * j + v] += store_number(ending_.out, block, token, column, values[v]);
        }
      }
    }
    if (ending_.out.layout != OperandLayout::kFP16Panels) return;
#pragma unroll
    for (float& sum : sums) {
#pragma unroll
      for (int step = 16; step >= 4; step /= 2) sum += __shfl_xor_sync(~0U, sum, step);
    }
    const std::uint32_t group_sums = shared_ + static_cast<std::uint32_t>(group_sum_offset(kTokens));
    if (g == 0) {
#pragma unroll
      for (int j = 0; j < kTokens / 8; ++j) {
        ptx::store_shared_8(group_sums + (warp * kTokens + 8 * j + 2 * p) * 4, {sums[2 * j], sums[2 * j + 1]});
      }
    }
    meet<kActivationWarps * 32>(kGroupSumsBarrier, kTileThreads);
    if (warp != 0 || thread % 32 >= kTokens) return;
    float total = 0.0F;
#pragma unroll
    for (int other = 0; other < 4; ++other) {
      total += __uint_as_float(ptx::load_shared_4(group_sums + (other * kTokens + thread % 32) * 4));
    }
    store_group_sum(ending_.out, block, static_cast<int>(thread % 32), total);
  }

  // A warp's part of a shared row block's plane is written.
  __device__ __forceinline__ void arrive(int row_block) const {
    __syncwarp();
    ptx::warp_count(ending_.counters + 2 * row_block);
  }

  // All threads. A group of columns of two tokens is a thread block's.
  __device__ __forceinline__ void finish_shared(const StreamArguments& arguments) const {
    constexpr int kPairs = kTokens / 2;
    const int tasks = arguments.plan.row_blocks * kRowBlockGroups * kPairs;
    // The last blocks have no part of a shared row block.
    for (auto task = static_cast<int>(gridDim.x - 1 - blockIdx.x); task < tasks; task += static_cast<int>(gridDim.x)) {
      __syncthreads();  // before shared memory has other numbers
      finish(arguments, task / kPairs, task % kPairs);
    }
  }

 private:
  const ActivationEnding& ending_;
  std::uint32_t shared_;

  [[nodiscard]] __device__ __forceinline__ std::uint32_t barrier() const {
    return shared_ + static_cast<std::uint32_t>(peer_barrier_offset(kTokens));
  }
  [[nodiscard]] __device__ __forceinline__ std::byte* block_of(int group) const {
    return ending_.out.data + static_cast<std::size_t>(group) * operand_block_bytes(kTokens);
  }
  [[nodiscard]] __device__ __forceinline__ float activated(float gate, float up) const {
    return quick_silu(gate * ending_.factor) * (up * ending_.factor);
  }

  // A warp adds every eighth plane, in order; then the warps' sums are added in order.
  __device__ __forceinline__ void finish(const StreamArguments& arguments, int group, int pair) const {
    const TilePlan& plan = arguments.plan;
    const auto warp = static_cast<int>(threadIdx.x / 32);
    const auto lane = static_cast<int>(threadIdx.x % 32);
    const int row_block = group / kRowBlockGroups;
    const int planes = plan.planes(row_block);
    const auto gate_row =
        static_cast<int>(row_block * kUnitRows + group % kRowBlockGroups * kGroupRows + gate_place(2 * lane));
    const float* source = arguments.planes + plane_place(kTokens, gate_row, 2 * pair);
    const std::int64_t stride = plane_floats(plan, kTokens);
    constexpr int kUp = static_cast<int>(kGateRun) * 2;  // floats from a gate row to its up row
    wait_for_planes(row_block, static_cast<unsigned>(planes * kActivationWarps));
    float4 gate{0.0F, 0.0F, 0.0F, 0.0F};
    float4 up{0.0F, 0.0F, 0.0F, 0.0F};
#pragma unroll 1
    for (int first = warp; first < planes; first += kPlaneBatchOfWarp * kActivationWarps) {
      float4 gates[kPlaneBatchOfWarp] = {};
      float4 ups[kPlaneBatchOfWarp] = {};
#pragma unroll
      for (int i = 0; i < kPlaneBatchOfWarp; ++i) {
        const int plane = first + i * kActivationWarps;
        if (plane >= planes) continue;
        const float* at = source + plane * stride;
        gates[i] = __ldcg(reinterpret_cast<const float4*>(at));
        ups[i] = __ldcg(reinterpret_cast<const float4*>(at + kUp));
      }
#pragma unroll
      for (int i = 0; i < kPlaneBatchOfWarp; ++i) {
        add(gate, gates[i]);
        add(up, ups[i]);
      }
    }
    const auto place = [&](int of_warp) { return shared_ + static_cast<std::uint32_t>((of_warp * 32 + lane) * 32); };
    ptx::store_shared_16(place(warp), gate);
    ptx::store_shared_16(place(warp) + 16, up);
    __syncthreads();
    if (threadIdx.x == 0) forget_planes(row_block);
    if (warp != 0) return;
#pragma unroll
    for (int other = 1; other < kActivationWarps; ++other) {
      add(gate, as_floats(ptx::load_shared_16(place(other))));
      add(up, as_floats(ptx::load_shared_16(place(other) + 16)));
    }
    gate = {activated(gate.x, up.x), activated(gate.y, up.y), activated(gate.z, up.z), activated(gate.w, up.w)};
    store_two_groups(ending_.out, static_cast<int>(gridDim.x) + group, 2 * pair, {gate.x, gate.z}, {gate.y, gate.w});
  }

  // By every warp, as each reads planes of others.
  __device__ __forceinline__ void wait_for_planes(int row_block, unsigned arrivals) const {
    unsigned seen = 0;
    do {
      asm volatile("ld.acquire.gpu.global.u32 %0, [%1];"
                   : "=r"(seen)
                   : "l"(ending_.counters + 2 * row_block)
                   : "memory");
    } while (seen != arrivals);
    __syncwarp();
  }
  // By one thread, when its block has seen all arrivals: the last block to do so leaves zeros for the next launch.
  __device__ __forceinline__ void forget_planes(int row_block) const {
    unsigned* counters = ending_.counters + 2 * row_block;
    constexpr unsigned kFinishers = kRowBlockGroups * kTokens / 2;
    if (atomicInc(counters + 1, kFinishers - 1) == kFinishers - 1) counters[0] = 0;
  }

  static __device__ __forceinline__ void add(float4& sum, const float4& more) {
    sum.x += more.x, sum.y += more.y, sum.z += more.z, sum.w += more.w;
  }
  static __device__ __forceinline__ float4 as_floats(const uint4& words) {
    return {__uint_as_float(words.x), __uint_as_float(words.y), __uint_as_float(words.z), __uint_as_float(words.w)};
  }
};

}  // namespace tare::engine
