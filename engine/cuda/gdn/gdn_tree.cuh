// What the nodes of a tree do otherwise than the tokens of a chain: their convolution's window, decay and scale go on
// from their ancestors (device/round_control.h). A tree has at most 16 nodes, all of one turn of the kernel. A chain in
// these kernels gets the bits that it gets in its own.
#pragma once

#include "engine/cuda/gdn/gdn_int8_state.cuh"
#include "engine/cuda/gdn/gdn_mix.cuh"

namespace tare::engine::gdn {

static_assert(kMostTreeNodes == kBlockTokens);

__device__ __forceinline__ int parent_of_lane(const RoundControl& control) {
  return control.parents[threadIdx.x % kLanes];
}

// Where the three inputs before a node are, nearest first: row r < kGdnPast is committed column r, the oldest first,
// row kGdnPast + j is node j. By a whole warp, of which lane n brings the parent of node n.
__device__ __forceinline__ void find_windows(int parent, uchar4* windows) {
  const auto lane = static_cast<int>(threadIdx.x % kLanes);
  // Before the root come the columns: -1 is the newest.
  const auto before = [&](int node) {
    const int of_node = __shfl_sync(~0U, parent, node & (kLanes - 1));
    return node >= 0 ? of_node : node - 1;
  };
  const int second = before(parent);
  const int third = before(second);
  const auto row = [](int node) { return static_cast<unsigned char>(kGdnPast + node); };
  if (lane < kBlockTokens) windows[lane] = {row(parent), row(second), row(third), 0};
}

// take_in of a tree. What a node's descendants are to see of this channel lies in the thread's own column of the rows'
// staging memory.
template <class Kernel>
__device__ __forceinline__ void take_in_nodes(const GdnPass& pass, const Channel& channel, const Incoming& incoming,
                                              float4 taps, const Past& past, const uchar4* windows, int count, int rows,
                                              float* target, int stride, float* recorded) {
  const int channels = (2 * pass.shape.key_heads + pass.shape.value_heads) * kGdnHead;
  const bool narrow = pass.memory.narrow_columns;
  const bool remembers = channel.role != Role::kGate;
  float* const kept = incoming.staged;
  const auto input_of = [&](int row) {
    if (row >= kGdnPast) return kept[(row - kGdnPast) * Kernel::kThreads];
    return row == 2 ? past.x[2] : row == 1 ? past.x[1] : past.x[0];
  };
  constexpr int kTokens = 2 * kPairsAtOnce;
#pragma unroll 1
  for (int from = 0; from < rows; from += kTokens) {
    float2 pairs[kPairsAtOnce];
    read_pairs<Kernel>(pass.qkvz, channel, incoming, 0, from, count, pairs);
    float x[kTokens];
#pragma unroll
    for (int i = 0; i < kTokens; ++i) {
      x[i] = i % 2 == 0 ? pairs[i / 2].x : pairs[i / 2].y;
      kept[(from + i) * Kernel::kThreads] = !remembers ? 0.0F : as_stored(x[i], narrow);
    }
#pragma unroll
    for (int i = 0; i < kTokens; ++i) {
      const int node = from + i;
      if (node >= rows) break;
      if (node >= count) {
        target[node * stride] = 0.0F;
        continue;
      }
      const uchar4 window = windows[node];
      const float y =
          fmaf(taps.w, x[i],
               fmaf(taps.z, input_of(window.x), fmaf(taps.y, input_of(window.y), taps.x * input_of(window.z))));
      target[node * stride] = quick_silu(y);
      if (recorded != nullptr) recorded[node * channels] = x[i];
    }
  }
}

// A head's state after a node, as rollback snapshot keeps it: always FP32.
[[nodiscard]] __device__ __forceinline__ float* snapshot_of(const GdnPass& pass, int node) {
  return pass.memory.snapshots + node * gdn_state_elements(pass.shape);
}
[[nodiscard]] __device__ __forceinline__ float* snapshot_scales_of(const GdnPass& pass, int node, int head, int slice,
                                                                   int slices) {
  return pass.memory.snapshot_scales + (node * pass.shape.value_heads + head) * kGdnScaleCopies +
         slice * (kGdnScaleCopies / slices);
}

// The recurrence along a tree. Nodes that continue the node before them find its state in registers; another one goes
// back: to its parent's snapshot, or to the committed state, to which its ancestors are applied again in the operations
// of a fold.
template <class Kernel>
__device__ __forceinline__ void run_nodes(const GdnPass& pass, typename Kernel::Shared& shared,
                                          typename Kernel::Tile& state, int slice_place, int head, int slice,
                                          int count) {
  constexpr int kSlices = kGdnHead / Kernel::kColumns;
  const RoundControl& control = *pass.control;
  const GdnMemory& memory = pass.memory;
  const bool snapshots = memory.snapshots != nullptr;
  const unsigned restarts = shared.restarts;
#pragma unroll 1
  for (int first = 0; first < count;) {
    const int parent = control.parents[first];
    if (first > 0 && parent != first - 1) {
      if (snapshots) {
        state.load(snapshot_of(pass, parent), slice_place, StateFormat::kFP32);
      } else {
        load_state<Kernel>(memory, state, slice_place, head, slice);
        __syncwarp();  // the updates of the nodes before
#pragma unroll 1
        for (unsigned rest = control.ancestors[parent]; rest != 0; rest &= rest - 1) {
          const int node = __ffs(static_cast<int>(rest)) - 1;
          advance_one(state, shared, node, (restarts >> node & 1U) != 0);
        }
      }
    }
    int end = first + 1;
    if (!snapshots) {
      while (end < count && control.parents[end] == end - 1) ++end;
    }
    Recurrence<Kernel::kColumns>(state, shared, end - first, first).run();
    if (snapshots) {
      state.store(snapshot_of(pass, first), slice_place, StateFormat::kFP32);
      if (threadIdx.x < kGdnScaleCopies / kSlices) {
        snapshot_scales_of(pass, first, head, slice, kSlices)[threadIdx.x] = shared.steps[first].after;
      }
    }
    first = end;
  }
}

}  // namespace tare::engine::gdn
