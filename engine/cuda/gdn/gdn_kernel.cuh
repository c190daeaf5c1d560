// The GDN kernel. A value head's columns are cut into slices, one thread block each; two slices of a head are a cluster
// and share the convolution of q and k and the gated norm's sum.
//
//   before the preceding grid's end   state slice into registers, committed records folded into it and written back,
//                                     convolution columns moved on
//   for up to 16 tokens at a time     projections of this block's channels, one thread a channel -> convolution, SiLU,
//                                     records | l2 norms, sent to the peer | gates
//                                     recurrence or chunk over the state in registers (gdn_state.cuh, gdn_chunk.cuh)
//                                     gated norm, operand
//   absorbing                         state and columns are written at the end
//
// A round runs this code once, from a cold instruction cache: loops stay loops unless they hold registers or hide a
// trip to memory. For the same reason, and for its registers, a tree has kernels of its own (gdn_tree.cuh).
#pragma once

#include <cuda_bf16.h>

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "base/error.h"
#include "engine/cuda/device/cluster.cuh"
#include "engine/cuda/device/launch.cuh"
#include "engine/cuda/device/ptx.cuh"
#include "engine/cuda/gdn/gdn_block.h"
#include "engine/cuda/gdn/gdn_chunk.cuh"
#include "engine/cuda/gdn/gdn_fold.cuh"
#include "engine/cuda/gdn/gdn_inputs.cuh"
#include "engine/cuda/gdn/gdn_l2_fill.cuh"
#include "engine/cuda/gdn/gdn_mix.cuh"
#include "engine/cuda/gdn/gdn_pass.h"
#include "engine/cuda/gdn/gdn_tree.cuh"
#include "engine/cuda/product/operand.cuh"

namespace tare::engine::gdn {

template <int kSlices, GdnForm kForm, bool kOfTree, bool kOfInt8>
struct Kernel {
  static constexpr bool kTree = kOfTree;
  static constexpr bool kShortFold = false;
  static constexpr int kScaleWarp = 0;
  static constexpr bool kInt8 = kOfInt8;  // the state's format; of the others a kernel asks
  static constexpr int kColumns = kGdnHead / kSlices;
  static constexpr int kThreads = kThreadsASlice[kSlices];
  static constexpr int kWarps = kThreads / kLanes;
  static constexpr bool kRecurrent = kForm == GdnForm::kRecurrent;
  static constexpr int kTokensAWarp = (kBlockTokens + kWarps - 1) / kWarps;
  // The last two warps, of z, look after the gates; planes of theirs that are asked for together.
  static constexpr int kGateWarps = 2;
  static constexpr int kGatePlanes = kSlices == 2 ? 24 : 4;
  using Tile = StateTile<kForm, kColumns>;
  using Tokens = std::conditional_t<kRecurrent, PassShared<kColumns>, ChunkShared<kColumns>>;
  struct TreeTokens : Tokens {
    uchar4 windows[kBlockTokens];  // find_windows
  };
  // Plain rows on their way in, [token][thread], and the chunk's parts. One slice a head has room for one of them at a
  // time: there the next tokens' rows come when the parts are used up.
  static constexpr int kRowsBytes = kBlockTokens * kThreads * 4;
  static constexpr int kPartsBytes = kRecurrent ? 0 : static_cast<int>(sizeof(ChunkParts<kColumns>));
  static constexpr bool kFetchAhead = kRecurrent || kSlices == 2;
  static constexpr int kPartsOffset = kFetchAhead ? kRowsBytes : 0;
  static constexpr int kScratchBytes = std::max(kRowsBytes, kPartsOffset + kPartsBytes);
  struct Shared : std::conditional_t<kTree, TreeTokens, Tokens> {
    float gate_planes[kGateWarps][kGatePlanes][kLanes];
    float gate_constants[kGateWarps][2];  // decay_rate, dt_bias
    alignas(8) float norm[kColumns];
    alignas(16) std::byte scratch[kScratchBytes];
  };
  static_assert(sizeof(Shared) <= (kSlices == 2 ? kTwoSliceSharedBytes : kLeastSharedBytes));
};

// A round of so few tokens is faster token by token; the chunk form is bound to the recurrent one up to rounding only.
constexpr int kFewTokens = 2;

template <int kSlices, GdnForm kForm, bool kTree, bool kInt8>
__global__ void __maxnreg__(kSlices == 2 ? kTwoSliceRegisters : kOneSliceRegisters)
    gdn_kernel(const __grid_constant__ GdnPass pass, const __grid_constant__ Constants constants) {
  if constexpr (kSlices == 2 && !kTwoSlicesThere) {
    __trap();
    return;
  }
  using K = Kernel<kSlices, kForm, kTree, kInt8>;
  constexpr int kColumns = K::kColumns;
  constexpr int kGroups = kColumns / kOperandGroup;
  extern __shared__ __align__(16) std::byte shared_bytes[];
  auto& shared = *reinterpret_cast<typename K::Shared*>(shared_bytes);

  bring_parameters(pass, constants);
  const CudaGdnShape& shape = pass.shape;
  if (is_done_as_fill(pass.fill, shape.value_heads * kSlices)) return;
  const int head = static_cast<int>(blockIdx.x) / kSlices;
  const int slice = static_cast<int>(blockIdx.x) % kSlices;
  const int key_head = key_head_of(constants, head);
  const bool leads = head == 0 || key_head_of(constants, head - 1) != key_head;
  const auto thread = static_cast<int>(threadIdx.x);
  const int warp = thread / kLanes;
  const int lane = thread % kLanes;
  const GdnMemory& memory = pass.memory;
  const int pending = pass.control->pending;
  const int half = pass.control->half;
  const int slots = pass.control->path[lane];

  // What does not hang on the control is asked for, and found, while that is on its way.
  const int slice_place = (head * kGdnHead + slice * kColumns) * kGdnHead;
  typename K::Tile state;
  float past_scale = memory.scales[head * kGdnScaleCopies + slice * (kGdnScaleCopies / kSlices)];
  // A snapshot is the state with its records applied.
  int unapplied = pending;
  if (K::kRecurrent && kTree && memory.snapshots != nullptr && pending > 0) {
    const int node = slot_of(slots, pending - 1);
    state.load(snapshot_of(pass, node), slice_place, StateFormat::kFP32);
    past_scale = *snapshot_scales_of(pass, node, head, slice, kSlices);
    unapplied = 0;
  } else {
    load_state<K>(memory, state, slice_place, head, slice);
  }
  const Channel channel = own_channel<kSlices>(shape, constants, head, key_head, leads, slice);
  float4 taps{0.0F, 0.0F, 0.0F, 1.0F};
  const bool of_gate = channel.role == Role::kGate;
  if (!of_gate && channel.real) {
    taps = *reinterpret_cast<const float4*>(pass.weights.convolution + channel.row * kGdnTaps);
  }
  // Through shared memory: a register that finds no room is stored, and that waits for the load.
  const bool prepares = warp >= K::kWarps - K::kGateWarps;  // z is needed last: two of its warps prepare the gates
  if (prepares && lane < 2) {
    copy_async<4>(&shared.gate_constants[warp % K::kGateWarps][lane],
                  (lane == 0 ? pass.weights.decay_rate : pass.weights.dt_bias) + head);
  }
  if (thread < kColumns) {
    const int column = slice * kColumns + thread;
    if (column < shape.dv) {
      copy_async<4>(&shared.norm[thread], pass.weights.norm + column);
    } else {
      shared.norm[thread] = 0.0F;
    }
  }
  if (kSlices == 2 && thread == 0) {
    make_barrier(shared.rows_barrier);
    make_barrier(shared.sums_barrier);
  }
  const Records committed = records_of<K>(pass, 1 - half, head, key_head, slice);
  ask_for_records<K>(memory, shared, committed, slots, 0, min(unapplied, kBlockTokens));
  const float first_decay = warp == 0 ? read_decay(memory, committed, slots, 0, min(unapplied, kBlockTokens)) : 1.0F;
  const AskedPast asked_past = ask_for_past(pass, head, channel, pending, half, slots);
  int parent = -1;  // of the node of this lane
  if constexpr (kTree) {
    parent = parent_of_lane(*pass.control);
    if (warp == 0) find_windows(parent, shared.windows);
  }
  if (thread == 0) {
    shared.scale = past_scale;
    shared.half = half;
  }
  __syncthreads();  // the scale is there
  fold<K>(memory, shared, state, committed, slots, first_decay, slice_place, head, slice, unapplied);
  if (unapplied < pending) write_state<K>(memory, shared, state, slice_place, head, slice);
  Past past = take_past(asked_past, memory.narrow_columns, pending);
  if (pending > 0 && !of_gate) write_past(memory, head, channel, past);
  float scale = shared.scale;
  if constexpr (kSlices == 2) cluster_arrive();  // the peer may write here from now on

  const bool panels = pass.out.layout == OperandLayout::kFP16Panels || pass.out.layout == OperandLayout::kBF16Panels;
  const bool whole_groups = shape.dv == kGdnHead;
  const Operand rows_out = panels ? Operand{OperandLayout::kFP32Rows, kMostRoundTokens, pass.out.columns, 0,
                                            reinterpret_cast<std::byte*>(memory.mixed)}
                                  : pass.out;
  const int padded_tokens = panels ? pass.out.width : pass.tokens;
  const bool of_key_head = channel.role == Role::kQuery || channel.role == Role::kKey;
  float* target = channel.role == Role::kQuery   ? &shared.queries[0][channel.place]
                  : channel.role == Role::kKey   ? &shared.keys[0][channel.place]
                  : channel.role == Role::kValue ? &shared.values[0][channel.place - slice * kColumns]
                                                 : &shared.gates[0][channel.place - slice * kColumns];
  const int target_stride = of_key_head ? kRowStride : K::Tokens::kStride;
  const Incoming incoming = incoming_of<K>(pass.qkvz, channel, reinterpret_cast<float*>(shared.scratch));
  float* const gate_planes = &shared.gate_planes[warp % K::kGateWarps][0][0];
  const IncomingGates incoming_b_a = incoming_gates(pass, head);
  // Earlier, the successor's ring of weights would be ahead of this kernel's state; of many tokens, of its planes too.
  const bool starts_successor_late = pass.tokens > kFewTokens;
  if (!starts_successor_late) ptx::launch_dependents();
  if constexpr (kSlices == 2) cluster_wait();
  wait_for_all_copies();
  ptx::wait_for_preceding_grid();

  const bool asks = channel.real && !pass.qkvz.planes;
  if (asks) ask_for_rows<K>(incoming, 0, min(pass.tokens, kBlockTokens));
  if (prepares) ask_for_gates<K>(pass, incoming_b_a, 0, gate_planes);

#pragma unroll 1
  for (int first = 0; first < pass.tokens; first += kBlockTokens) {
    const int count = min(pass.tokens - first, kBlockTokens);
    // Rows that the recurrence reads: the chunk form's tiles are full.
    const int rows = K::kRecurrent ? count : count <= kBlockTokens / 2 ? kBlockTokens / 2 : kBlockTokens;
    const int own_half = shared.half;
    const int record = own_half * kMostRoundTokens + first;
    const int phase = first / kBlockTokens;
    if (kSlices == 2 && thread == 0) {
      expect_from_peer(shared.rows_barrier, rows * kGdnHead * static_cast<int>(sizeof(float)));
      expect_from_peer(shared.sums_barrier, count * static_cast<int>(sizeof(float)));
    }
    if (!pass.qkvz.planes) wait_for_all_copies();
    float* const recorded = pass.absorb || !channel.records
                                ? nullptr
                                : memory.projections + projection_place(shape, own_half, first, channel);
    if constexpr (kTree) {
      take_in_nodes<K>(pass, channel, incoming, taps, past, shared.windows, count, rows, target, target_stride,
                       recorded);
    } else {
      take_in<K>(pass, channel, incoming, taps, past, first, count, rows, target, target_stride, recorded);
    }
    __syncthreads();
    if (first == 0 && starts_successor_late) ptx::launch_dependents();
    const int next = first + kBlockTokens;
    const bool more = next < pass.tokens;
    GateInputs gates;
    if (prepares) {
      wait_for_all_copies();
      gates = add_gates<K>(pass, incoming_b_a, first, gate_planes);
      if (more) ask_for_gates<K>(pass, incoming_b_a, next, gate_planes);
    }
    // The next rows of a prefill travel while these are worked on.
    if (K::kFetchAhead && more && asks) ask_for_rows<K>(incoming, next, min(pass.tokens - next, kBlockTokens));
    if (prepares) {
      prepare_gates<K>(pass, shared, gates, parent, scale, count,
                       pass.absorb || slice != 0 ? nullptr : memory.decays + record * shape.value_heads + head);
    } else if (of_key_head) {
      const bool query = channel.role == Role::kQuery;
      normalise<kSlices>(
          query ? shared.queries : shared.keys, shared.rows_barrier, slice, rows, count,
          query ? constants.query_scale : 1.0F,
          pass.absorb || query || !leads ? nullptr : memory.keys + (record * shape.key_heads + key_head) * kGdnHead,
          shape.key_heads * kGdnHead);
    }
    __syncthreads();
    if constexpr (kSlices == 2) wait_for_peer(shared.rows_barrier, phase);
    scale = shared.scale;

    if constexpr (K::kRecurrent && kTree) {
      run_nodes<K>(pass, shared, state, slice_place, head, slice, count);
    } else if constexpr (K::kRecurrent) {
      Recurrence<kColumns>(state, shared, count).run();
    } else {
      run_chunk<kColumns, K::kThreads>(
          state, shared, *reinterpret_cast<ChunkParts<kColumns>*>(shared.scratch + K::kPartsOffset), count);
    }
    __syncthreads();
    // The recurrent form's state has moved on already. The peer may write keys once it has this block's sums.
    if (!K::kRecurrent && (pass.absorb || next < pass.tokens)) {
      advance(state, shared, count);
      __syncthreads();
    }

    // Gated norm: a warp has the same tokens here and below.
    finish_outputs<K, kSlices>(shared, slice, count);
    if (!pass.absorb) {
#pragma unroll 1
      for (int index = thread; index < count * kColumns / 4; index += K::kThreads) {
        const int token = index / (kColumns / 4);
        const int column = index % (kColumns / 4) * 4;
        *reinterpret_cast<float4*>(memory.updates + ((record + token) * shape.value_heads + head) * kGdnHead +
                                   slice * kColumns + column) =
            *reinterpret_cast<const float4*>(&shared.values[token][column]);
      }
    }
    if constexpr (kSlices == 2) wait_for_peer(shared.sums_barrier, phase);
#pragma unroll 1
    for (int token = warp; token < min(kBlockTokens, padded_tokens - first); token += K::kWarps) {
      const bool real = token < count;
      float sum = real ? shared.own_sums[token] : 0.0F;
      if (kSlices == 2 && real) sum += shared.peer_sums[token];
      const float factor = rsqrtf(fmaf(sum, constants.inverse_dv, shape.eps));
#pragma unroll
      for (int group = 0; group < kGroups; ++group) {
        const int column = group * kOperandGroup + 2 * lane;
        float2 pair{0.0F, 0.0F};
        if (real) {
          const float2 z = *reinterpret_cast<const float2*>(&shared.gates[token][column]);
          const float2 output = *reinterpret_cast<const float2*>(&shared.outputs[token][column]);
          const float2 norm = *reinterpret_cast<const float2*>(&shared.norm[column]);
          pair.x = output.x * factor * norm.x * z.x;
          pair.y = output.y * factor * norm.y * z.y;
        }
        if (whole_groups) {
          store_group(pass.out, (head * kGdnHead + slice * kColumns) / kOperandGroup + group, first + token, pair);
        } else if (real) {
          const int of_head = slice * kColumns + column;
          const std::int64_t out_column = static_cast<std::int64_t>(head) * shape.dv + of_head;
          if (of_head < shape.dv) store_element(rows_out, first + token, out_column, pair.x);
          if (of_head + 1 < shape.dv) store_element(rows_out, first + token, out_column + 1, pair.y);
        }
      }
    }
    if (more) {
      __syncthreads();
      if (!K::kFetchAhead && asks) ask_for_rows<K>(incoming, next, min(pass.tokens - next, kBlockTokens));
    }
  }

  if (pass.absorb) {
    write_state<K>(memory, shared, state, slice_place, head, slice);
    if (!of_gate) write_past(memory, head, channel, past);
  }
}

template <int kSlices, GdnForm kForm, bool kTree, bool kInt8>
void launch_kernel_of(const char* name, const GdnPass& pass, const CudaLaunch& launch) {
  using K = Kernel<kSlices, kForm, kTree, kInt8>;
  GdnPass rounded = pass;
  rounded.fill.blocks = fill_blocks(pass.fill, kSlices);
  const LaunchShape shape{
      .blocks = pass.shape.value_heads * kSlices + rounded.fill.blocks,
      .threads = K::kThreads,
      .shared_bytes = kSlices == 2 ? kTwoSliceSharedBytes : static_cast<int>(sizeof(typename K::Shared)),
      .cluster = kSlices};
  launch_kernel(name, gdn_kernel<kSlices, kForm, kTree, kInt8>, shape, launch, rounded,
                constants_of(pass.shape, pass.qkvz));
}

template <bool kTree, bool kInt8>
void launch_form(const char* name, GdnForm form, int slices, const GdnPass& pass, const CudaLaunch& launch) {
  if (form == GdnForm::kRecurrent) {
    return (slices == 2 ? launch_kernel_of<2, GdnForm::kRecurrent, kTree, kInt8>
                        : launch_kernel_of<1, GdnForm::kRecurrent, kTree, kInt8>)(name, pass, launch);
  }
  if (slices == 1) return launch_kernel_of<1, GdnForm::kChunked, kTree, kInt8>(name, pass, launch);
  if constexpr (kTree) {
    throw internal_error("a tree in two slices has a kernel of its own (gdn_verify.cuh)");
  } else {
    launch_kernel_of<2, GdnForm::kChunked, kTree, kInt8>(name, pass, launch);
  }
}

}  // namespace tare::engine::gdn
