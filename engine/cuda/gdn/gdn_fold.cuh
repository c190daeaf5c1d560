// A commit comes into the state: records folded into a slice in registers, which is written back. `Kernel` is the table
// of one kernel's sizes.
#pragma once

#include "engine/cuda/gdn/gdn_inputs.cuh"
#include "engine/cuda/gdn/gdn_int8_state.cuh"

namespace tare::engine::gdn {

// Writes the state's slice and its scale. Of INT8 the scratch memory must be free.
template <class Kernel>
__device__ __forceinline__ void write_state(const GdnMemory& memory, typename Kernel::Shared& shared,
                                            typename Kernel::Tile& state, int slice_place, int head, int slice) {
  constexpr int kCopies = Kernel::kColumns * kGdnScaleCopies / kGdnHead;
  const auto thread = static_cast<int>(threadIdx.x);
  float scale = shared.scale;
  if constexpr (Kernel::kInt8) {
    auto* most = reinterpret_cast<std::uint32_t*>(shared.scratch);
    static_assert(Kernel::kScratchBytes >= Kernel::kColumns / kGdnStateBlock * kGdnHead * 4);
    std::uint16_t* const scales = block_scales_of(memory, head, slice * Kernel::kColumns);
    store_int8<Kernel::kThreads>(state, static_cast<std::int8_t*>(memory.state), slice_place, scales, most, scale);
    if (thread == 0) shared.scale = 1.0F;
    __syncthreads();
    if (thread < kCopies) memory.scales[head * kGdnScaleCopies + slice * kCopies + thread] = 1.0F;
    return;
  }
  if (memory.state_format != StateFormat::kFP32) {
    state.round_to(memory.state_format, scale);
    scale = 1.0F;
    __syncthreads();  // everyone has read the scale
    if (thread == 0) shared.scale = scale;
    __syncthreads();
  }
  state.store(memory.state, slice_place, memory.state_format);
  if (thread < kCopies) memory.scales[head * kGdnScaleCopies + slice * kCopies + thread] = scale;
}

// Folds the records that were committed, of which the first 16 were asked for, into the state and writes it. Every
// thread of the block; `first_decay` is read_decay's of the first 16.
template <class Kernel>
__device__ __forceinline__ void fold(const GdnMemory& memory, typename Kernel::Shared& shared,
                                     typename Kernel::Tile& state, const Records& records, int slots, float first_decay,
                                     int slice_place, int head, int slice, int pending) {
  const auto thread = static_cast<int>(threadIdx.x);
#pragma unroll 1
  for (int first = 0; first < pending; first += kBlockTokens) {
    const int count = min(pending - first, kBlockTokens);
    if (first > 0) ask_for_records<Kernel>(memory, shared, records, slots, first, count);
    if (thread / kLanes == Kernel::kScaleWarp) {
      const float decay = first == 0 ? first_decay : read_decay(memory, records, slots, first, count);
      float scale = shared.scale;
      unsigned restarts = 0;
      const Scales own = follow_scale(decay, count, scale, restarts);
      if (thread % kLanes < count) shared.steps[thread % kLanes].raw = own.raw;
      __syncwarp();
      if (thread % kLanes == 0) {
        shared.scale = scale;
        shared.restarts = restarts;
      }
    }
    wait_for_all_copies();
    __syncthreads();
    if constexpr (Kernel::kShortFold) {
      advance_in_short(state, shared, count);
    } else {
      advance(state, shared, count);
    }
    __syncthreads();
  }
  if (pending > 0) write_state<Kernel>(memory, shared, state, slice_place, head, slice);
}

}  // namespace tare::engine::gdn
