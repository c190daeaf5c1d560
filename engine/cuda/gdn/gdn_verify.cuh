// The GDN kernel of a verify in the chunk form: up to 16 tokens, a chain or a tree, two thread blocks a head as a
// cluster. What a round waits for is done once, by all warps at a time; no loop over tokens is on the way but the
// substitution of a 16 x 16 triangle.
//
//   before the preceding grid's end   state slice into registers, committed records folded into it token by token and
//                                     written back; the state as halves; convolution columns moved on
//   warps 0..3   q (slice 0) or k (slice 1), a thread a channel: planes -> convolution, SiLU -> l2 norm, halves, sent
//                to the peer
//   warps 4, 5   v, a thread a channel
//   warps 6, 7   gates: 6 products of decays, 7 betas and scales; z's planes into shared memory
//   all          wait for the peer's rows
//   warps 0..3   keys with keys, decayed; then 0 inverses of the triangle's halves, 1 queries with keys, decayed;
//                silu(z)
//   warps 4..7   S'^T K, S'^T Q of 16 columns each; U, O; sums of squares to both blocks
//   all          two tokens a warp: gated norm, operand; then what is left of the records
//
// A round runs this code once, from a cold instruction cache, at some 4 clocks an instruction: what can be found beside
// something else is, and loops stay loops. gdn_verify_products.cuh has the formulas. Keys, queries and betas past the
// last token are zeros.
#pragma once

#include <algorithm>

#include "engine/cuda/device/launch.cuh"
#include "engine/cuda/device/warps_barrier.cuh"
#include "engine/cuda/gdn/gdn_block.h"
#include "engine/cuda/gdn/gdn_fold.cuh"
#include "engine/cuda/gdn/gdn_l2_fill.cuh"
#include "engine/cuda/gdn/gdn_pass.h"
#include "engine/cuda/gdn/gdn_verify_inputs.cuh"

namespace tare::engine::gdn {

constexpr int kSlicesAHead = 2;

template <StateFormat kFormat>
struct VerifyKernel {
  static constexpr bool kInt8 = kFormat == StateFormat::kInt8;
  static constexpr bool kShortFold = true;
  static constexpr int kColumns = kSliceColumns;
  static constexpr int kThreads = kThreadsASlice[2];
  static constexpr int kWarps = kThreads / kLanes;
  static constexpr int kTokensAWarp = kBlockTokens / kWarps;
  static constexpr int kGateWarps = 2;
  static constexpr int kGatePlanes = 2;
  static constexpr int kFirstGateWarp = kWarps - kGateWarps;
  static constexpr int kScaleWarp = kFirstGateWarp;  // follows the scale in a fold; it asks for the least
  static constexpr int kFirstStateWarp = kWarps - kColumns / kWarpColumns;
  // Of a named barrier: the warps of the state, and the two that find M.
  static constexpr int kQueryThreads = (kWarps - kFirstStateWarp + 2) * kLanes;
  using Tile = StateTile<GdnForm::kRecurrent, kColumns>;

  static constexpr int kChannels = kFirstGateWarp * kLanes;  // of q or k, and v
  static constexpr int kStride = kColumns + 8;
  static constexpr int kKeptBytes = (kGdnPast + kBlockTokens) * kChannels * 4;
  static constexpr int kOutputBytes = kBlockTokens * kStride * 4;
  static constexpr int kScratchBytes = std::max({kKeptBytes, kOutputBytes, static_cast<int>(sizeof(KeyParts))});
  struct alignas(16) Shared {
    float keys[kBlockTokens][kRowStride];  // of records; then q or k of this block
    float values[kBlockTokens][kStride];   // of records u / scale; then v
    HalfRows<kColumns> state;
    TokenRows tokens;
    TokenFactors factors;
    GatePlanes z;
    float decays[kBlockTokens][kBlockTokens];  // d [i][j]
    float from_start[kBlockTokens];            // e
    float betas[kBlockTokens];
    float node_decays[kBlockTokens];
    float scale_inverses[kBlockTokens];  // 1 / the scale after a token
    TokenStep steps[kBlockTokens];       // of records
    float inverses[kWarps];              // of the state's factors, by 8 columns
    float gate_planes[kGateWarps][kGatePlanes][kLanes];
    float gate_constants[kGateWarps][2];  // decay_rate, dt_bias
    alignas(8) float norm[kColumns];
    alignas(8) float sums[kSlicesAHead][kColumns / kWarpColumns][kBlockTokens];  // of o, squared, over 16 columns
    uchar4 windows[kBlockTokens];
    float scale;
    unsigned restarts;
    std::uint64_t rows_barrier;
    std::uint64_t sums_barrier;
    alignas(16) std::byte scratch[kScratchBytes];  // a tree's inputs; KeyParts; then o [token][column]
  };
  static_assert(sizeof(Shared) <= kVerifySharedBytes);
  using Outputs = float[kBlockTokens][kStride];
};

// Named barriers of the block's warps (warps_barrier.cuh), passed in this order; 0 is __syncthreads.
enum : int { kRowsTaken = 1, kKeysMultiplied = 2, kKeyFactorsFound = 3, kInversesFound = 4, kQueryFactorsFound = 5 };

// By warps 6 and 7; lane n < 16 has decay and beta of token n.
template <class Kernel>
__device__ __forceinline__ void find_gates(typename Kernel::Shared& shared, const GateInputs& inputs, int parent,
                                           float scale, int count, float* recorded, int recorded_stride) {
  const auto warp = static_cast<int>(threadIdx.x / kLanes);
  const auto lane = static_cast<int>(threadIdx.x % kLanes);
  const float* const constants = shared.gate_constants[warp % Kernel::kGateWarps];
  const float decay = decay_of(inputs, constants, lane < count);
  if (warp == Kernel::kFirstGateWarp) {
    find_decays(shared.decays, shared.from_start, decay, parent, scale);
  } else if (lane < kBlockTokens) {
    shared.betas[lane] = beta_of(inputs, lane < count);
    shared.node_decays[lane] = decay;
    if (recorded != nullptr && lane < count) recorded[lane * recorded_stride] = decay;
  }
}

// By the warp that left the decays: the scale after each token, as a fold of its path will find it again.
template <class Shared>
__device__ __forceinline__ void find_scales(Shared& shared, int parent, float scale, int count) {
  __syncwarp();
  const auto lane = static_cast<int>(threadIdx.x % kLanes);
  const float decay = shared.node_decays[lane % kBlockTokens];
  unsigned restarts = 0;
  const Scales own = follow_scale_of_nodes(decay, parent, count, scale, restarts);
  if (lane < kBlockTokens) shared.scale_inverses[lane] = __fdividef(1.0F, own.after);
}

// By warps 4..7, of columns from `first_column` on of the slice: leaves u in `updates`, o in `outputs`, and the sums of
// its squares over these columns with both thread blocks.
template <class Kernel>
__device__ __forceinline__ void find_outputs(typename Kernel::Shared& shared, const StateOperand& state,
                                             typename Kernel::Outputs& outputs, int first_column, int slice, int count,
                                             float (&updates)[kTokenTiles][4]) {
  const auto lane = static_cast<int>(threadIdx.x % kLanes);
  const int column = first_column + lane / 4;
  const int pair = lane % 4 * 2;
  float products[2 * kTokenTiles][4];
  multiply_state(state, shared.tokens.halves, products);
  const float inverses[2] = {shared.inverses[first_column / 8], shared.inverses[first_column / 8 + 1]};
  float rest[kTokenTiles][4];
#pragma unroll
  for (int tile = 0; tile < kTokenTiles; ++tile) {
#pragma unroll
    for (int v = 0; v < 2; ++v) {
      const int token = 8 * tile + pair + v;
      const float from_start = shared.from_start[token];
      const float of_key = from_start * shared.tokens.inverses[token];
      const float of_query = from_start * shared.tokens.inverses[kBlockTokens + token];
      const float beta = shared.betas[token];
#pragma unroll
      for (int lower = 0; lower < 2; ++lower) {
        const int i = 2 * lower + v;
        const float value = token < count ? shared.values[token][column + 8 * lower] : 0.0F;
        rest[tile][i] = beta * fmaf(-of_key, products[tile][i] * inverses[lower], value);
        products[kTokenTiles + tile][i] *= inverses[lower] * of_query;
      }
    }
  }
  pass_by<Kernel::kThreads>(kKeysMultiplied);
  pass_by<Kernel::kThreads>(kKeyFactorsFound);
  meet<Kernel::kThreads>(kInversesFound, Kernel::kThreads);
  solve(shared.factors, rest, updates);
  float o[kTokenTiles][4];
#pragma unroll
  for (int tile = 0; tile < kTokenTiles; ++tile) {
#pragma unroll
    for (int i = 0; i < 4; ++i) o[tile][i] = products[kTokenTiles + tile][i];
  }
  meet<Kernel::kThreads>(kQueryFactorsFound, Kernel::kQueryThreads);
  add_outputs(shared.factors, updates, o);
  float squares[kTokenTiles][2];
#pragma unroll
  for (int tile = 0; tile < kTokenTiles; ++tile) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      outputs[8 * tile + pair + i % 2][column + i / 2 * 8] = o[tile][i];
    }
#pragma unroll
    for (int v = 0; v < 2; ++v) squares[tile][v] = fmaf(o[tile][2 + v], o[tile][2 + v], o[tile][v] * o[tile][v]);
  }
  constexpr int kFirstStep = 4;  // lanes of the same tokens
#pragma unroll
  for (int step = kFirstStep; step < kLanes; step *= 2) {
#pragma unroll
    for (auto& of_tile : squares) {
#pragma unroll
      for (float& sum : of_tile) sum += __shfl_xor_sync(~0U, sum, step);
    }
  }
  if (lane < kSlicesAHead * kFirstStep) {
    const int block = lane / kFirstStep;
    const std::uint32_t target = peer_address(&shared.sums[slice][first_column / kWarpColumns][pair], block);
    const std::uint32_t barrier = peer_address(&shared.sums_barrier, block);
#pragma unroll
    for (int tile = 0; tile < kTokenTiles; ++tile) {
      send(target + 8 * tile * static_cast<std::uint32_t>(sizeof(float)), float2{squares[tile][0], squares[tile][1]},
           barrier);
    }
  }
}

// What a channel was before the convolution, for the commit.
__device__ __forceinline__ void record_tokens(const float (&x)[kBlockTokens], float* recorded, int stride, int count) {
#pragma unroll
  for (int token = 0; token < kBlockTokens; ++token) {
    if (token < count) recorded[token * stride] = x[token];
  }
}

template <StateFormat kFormat>
__global__ void __maxnreg__(kTwoSliceRegisters)
    gdn_verify_kernel(const __grid_constant__ GdnPass pass, const __grid_constant__ Constants constants) {
  if constexpr (!kTwoSlicesThere) {
    __trap();
    return;
  }
  using K = VerifyKernel<kFormat>;
  constexpr int kSlices = kSlicesAHead;
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
  GdnMemory memory = pass.memory;
  memory.state_format = kFormat;
  const int pending = pass.control->pending;
  const int half = pass.control->half;
  const int slots = pass.control->path[lane];
  const int count = pass.tokens;
  // Nodes past the last one go on from the one before; their rows are zeros.
  const int parent = pass.tree && lane < count ? pass.control->parents[lane] : lane - 1;

  // What does not hang on the control is asked for, and found, while that is on its way.
  const int slice_place = (head * kGdnHead + slice * K::kColumns) * kGdnHead;
  typename K::Tile state;
  const float past_scale = memory.scales[head * kGdnScaleCopies + slice * (kGdnScaleCopies / kSlices)];
  load_state<K>(memory, state, slice_place, head, slice);
  const Channel channel = own_channel<kSlices>(shape, constants, head, key_head, leads, slice);
  const bool of_gates = warp >= K::kFirstGateWarp;
  float4 taps{0.0F, 0.0F, 0.0F, 0.0F};
  if (!of_gates && channel.real) {
    taps = *reinterpret_cast<const float4*>(pass.weights.convolution + channel.row * kGdnTaps);
  }
  if (of_gates && lane < 2) {
    copy_async<4>(&shared.gate_constants[warp % K::kGateWarps][lane],
                  (lane == 0 ? pass.weights.decay_rate : pass.weights.dt_bias) + head);
  }
  if (thread < K::kColumns) {
    const int column = slice * K::kColumns + thread;
    if (column < shape.dv) {
      copy_async<4>(&shared.norm[thread], pass.weights.norm + column);
    } else {
      shared.norm[thread] = 0.0F;
    }
  }
  if (warp == K::kScaleWarp + 1 && lane == 0) {
    make_barrier(shared.rows_barrier);
    make_barrier(shared.sums_barrier);
    expect_from_peer(shared.rows_barrier, kBytesFromPeer);
    expect_from_peer(shared.sums_barrier, static_cast<int>(sizeof(shared.sums)));
  }
  const Records committed = records_of<K>(pass, 1 - half, head, key_head, slice);
  ask_for_records<K>(memory, shared, committed, slots, 0, min(pending, kBlockTokens));
  float first_decay = 1.0F;
  if (warp == K::kScaleWarp) {  // which alone reads the scale before a barrier
    first_decay = read_decay(memory, committed, slots, 0, min(pending, kBlockTokens));
    if (lane == 0) shared.scale = past_scale;
    __syncwarp();
  }
  const AskedPast asked_past = ask_for_past(pass, head, channel, pending, half, slots);
  if (pass.tree && warp == 0) find_windows(parent, shared.windows);
  // Found while records are on their way.
  const bool of_rows = warp < kRowWarps;  // of q or k
  float* const target =
      of_rows ? &shared.keys[0][channel.place] : &shared.values[0][channel.place - slice * K::kColumns];
  const int target_stride = of_rows ? kRowStride : K::kStride;
  const Incoming incoming = incoming_of<K>(pass.qkvz, channel, nullptr);
  IncomingGates incoming_b_a;
  if (of_gates) incoming_b_a = incoming_gates(pass, head);
  const int record = half * kMostRoundTokens;
  const int channels = (2 * shape.key_heads + shape.value_heads) * kGdnHead;
  float* const recorded_channel = memory.projections + projection_place(shape, half, 0, channel);
  ptx::have_computed(reinterpret_cast<std::int64_t>(incoming.source));
  fold<K>(memory, shared, state, committed, slots, first_decay, slice_place, head, slice, pending);
  store_halves(state, shared.state, shared.inverses);
  cluster_arrive();  // the peer may write here from now on
  const Past past = take_past(asked_past, memory.narrow_columns, pending);
  if (pending > 0 && !of_gates) write_past(memory, head, channel, past);

  auto& outputs = *reinterpret_cast<typename K::Outputs*>(shared.scratch);
  cluster_wait();
  wait_for_all_copies();
  __syncthreads();  // the state's halves are there, and its scale
  const float scale = shared.scale;
  ptx::wait_for_preceding_grid();

  StateOperand operand;
  float x[kBlockTokens];
  if (of_gates) {
    float* const gate_planes = &shared.gate_planes[warp % K::kGateWarps][0][0];
    ask_for_gates<K>(pass, incoming_b_a, 0, gate_planes);
    wait_for_all_copies();
    const GateInputs gates = add_gates<K>(pass, incoming_b_a, 0, gate_planes);
    find_gates<K>(shared, gates, parent, scale, count,
                  slice != 0 ? nullptr : memory.decays + record * shape.value_heads + head, shape.value_heads);
    // Not before: the planes of q, k and v are waited for.
    ask_for_z(pass.qkvz, incoming_z(shape, pass.qkvz, constants, head, slice), incoming.plane_stride,
              warp % K::kGateWarps, shared.z);
    if (warp > K::kFirstGateWarp) find_scales(shared, parent, scale, count);
    wait_for_all_copies();
    pass_by<K::kThreads>(kRowsTaken);
  } else {
    read_tokens(pass.qkvz, channel, incoming, count, x);
    // Earlier, the successor's ring of weights would be ahead of this kernel's planes; later, it is what the successor
    // waits for. One warp for all: they ask at the same time.
    if (warp == 0) {
      ptx::have_computed(std::int64_t{__float_as_uint(x[0] + x[kBlockTokens - 1])});
      ptx::launch_dependents();
    }
    if (pass.tree) {
      convolve_nodes<K::kChannels>(x, taps, past, memory.narrow_columns, shared.windows,
                                   reinterpret_cast<float*>(shared.scratch) + thread, target, target_stride);
    } else {
      convolve_chain(x, taps, past, memory.narrow_columns, target, target_stride);
    }
    if (of_rows) {
      meet<K::kThreads>(kRowsTaken, kGdnHead);
      const bool query = slice == 0;
      normalise_halves(shared.keys, shared.tokens, query ? kBlockTokens : 0, shared.rows_barrier, 1 - slice, count,
                       query ? constants.query_scale : 1.0F,
                       query || !leads ? nullptr : memory.keys + (record * shape.key_heads + key_head) * kGdnHead,
                       shape.key_heads * kGdnHead);
    } else {
      pass_by<K::kThreads>(kRowsTaken);
    }
    // The others do it last.
    if (!of_rows && channel.records) record_tokens(x, recorded_channel, channels, count);
  }
  const int first_column = (warp - K::kFirstStateWarp) * kWarpColumns;
  if (warp >= K::kFirstStateWarp) operand.load(shared.state, first_column);
  __syncthreads();
  wait_for_peer(shared.rows_barrier, 0);
  float updates[kTokenTiles][4];
  if (warp >= K::kFirstStateWarp) {
    find_outputs<K>(shared, operand, outputs, first_column, slice, count, updates);
  } else {
    find_key_factors<K::kThreads>(shared.factors, *reinterpret_cast<KeyParts*>(shared.scratch), kKeysMultiplied,
                                  shared.tokens.halves, shared.tokens.inverses, shared.decays, shared.betas);
    if (warp == 0) {
      meet<K::kThreads>(kKeyFactorsFound, kRowWarps * kLanes);
      invert_factors(shared.factors);
    } else {
      hand_on<K::kThreads>(kKeyFactorsFound, kRowWarps * kLanes);
    }
    hand_on<K::kThreads>(kInversesFound, K::kThreads);
    if (warp == 1 || warp == 2) {
      find_query_factors(shared.factors, shared.tokens.halves, warp - 1, shared.tokens.inverses, shared.decays);
      hand_on<K::kThreads>(kQueryFactorsFound, K::kQueryThreads);
    } else {
      pass_by<K::kThreads>(kQueryFactorsFound);
    }
    // Pairs 0 and 1, 2, 3, 4 .. 7 of the four warps: three have had more to do.
    const IncomingZ of_z = incoming_z(shape, pass.qkvz, constants, head, slice);
    const float2 gain = *reinterpret_cast<const float2*>(&shared.norm[2 * lane]);
    const int end = warp == 0 ? 2 : warp == 3 ? kTokenPairs : warp + 2;
#pragma unroll 1
    for (int pair = warp == 0 ? 0 : warp + 1; pair < end; ++pair) {
      finish_z(pass.qkvz, of_z, pair, count, gain, shared.z);
    }
  }
  __syncthreads();

  // Gated norm of tokens `first` and the one after it.
  const int first = 2 * warp;
  const bool panels = pass.out.layout == OperandLayout::kFP16Panels || pass.out.layout == OperandLayout::kBF16Panels;
  const int padded_tokens = panels ? pass.out.width : count;
  const float4 z = *reinterpret_cast<const float4*>(&shared.z[0][warp][2 * lane]);
  float2 output[2];
#pragma unroll
  for (int k = 0; k < 2; ++k) output[k] = *reinterpret_cast<const float2*>(&outputs[first + k][2 * lane]);
  wait_for_peer(shared.sums_barrier, 0);
  if (first < padded_tokens) {
    float2 sums{0.0F, 0.0F};
#pragma unroll
    for (const auto& of_slice : shared.sums) {
#pragma unroll
      for (const auto& of_columns : of_slice) {
        const float2 more = *reinterpret_cast<const float2*>(&of_columns[first]);
        sums = {sums.x + more.x, sums.y + more.y};
      }
    }
    const float factors[2] = {quick_rsqrt(fmaf(sums.x, constants.inverse_dv, shape.eps)),
                              quick_rsqrt(fmaf(sums.y, constants.inverse_dv, shape.eps))};
    const float gates[2][2] = {{z.x, z.z}, {z.y, z.w}};  // by token
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      const bool real = first + k < count;
      output[k].x = real ? output[k].x * factors[k] * gates[k][0] : 0.0F;
      output[k].y = real ? output[k].y * factors[k] * gates[k][1] : 0.0F;
    }
    if (shape.dv == kGdnHead && pass.out.layout == OperandLayout::kFP16Panels) {
      store_two_groups(pass.out, head * kSlices + slice, first, output[0], output[1]);
    } else if (shape.dv == kGdnHead) {
#pragma unroll 1
      for (int k = 0; k < 2; ++k) {
        store_group(pass.out, head * kSlices + slice, first + k, k == 0 ? output[0] : output[1]);
      }
    } else {
      const Operand rows_out = panels ? Operand{OperandLayout::kFP32Rows, kMostRoundTokens, pass.out.columns, 0,
                                                reinterpret_cast<std::byte*>(memory.mixed)}
                                      : pass.out;
      const int of_head = slice * K::kColumns + 2 * lane;
      const std::int64_t column = static_cast<std::int64_t>(head) * shape.dv + of_head;
#pragma unroll
      for (int k = 0; k < 2; ++k) {
        if (first + k >= count) continue;
        if (of_head < shape.dv) store_element(rows_out, first + k, column, output[k].x);
        if (of_head + 1 < shape.dv) store_element(rows_out, first + k, column + 1, output[k].y);
      }
    }
  }
  // What the next pass folds is not what this one's successor waits for.
  if (warp >= K::kFirstStateWarp) {
    float* const recorded =
        memory.updates + (record * shape.value_heads + head) * kGdnHead + slice * K::kColumns + first_column + lane / 4;
#pragma unroll
    for (int tile = 0; tile < kTokenTiles; ++tile) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int token = 8 * tile + lane % 4 * 2 + i % 2;
        if (token < count) {
          recorded[token * shape.value_heads * kGdnHead + i / 2 * 8] = updates[tile][i] * shared.scale_inverses[token];
        }
      }
    }
  } else if (channel.records) {
    record_tokens(x, recorded_channel, channels, count);
  }
}

}  // namespace tare::engine::gdn
