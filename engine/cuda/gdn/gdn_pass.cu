// The GDN kernel. A value head's columns are cut into slices, one thread block each; two slices of a head are a cluster
// and share the convolution of q and k and the gated norm's sum.
//
//   before the preceding grid's end   state slice into registers, committed records folded into it and written back,
//                                     convolution columns moved on
//   for up to 16 tokens at a time     projections of this block's channels (one thread a channel) -> convolution,
//                                     records | SiLU and l2 norms, exchanged within the cluster | gates
//                                     recurrence or chunk over the state in registers (gdn_state.cuh, gdn_chunk.cuh)
//                                     gated norm, operand
//   absorbing                         state and columns are written at the end
//
// A round runs this code once, from a cold instruction cache: loops stay loops unless they hold registers.
#include <cuda_bf16.h>

#include <algorithm>

#include "base/error.h"
#include "engine/cuda/device/launch.cuh"
#include "engine/cuda/device/ptx.cuh"
#include "engine/cuda/gdn/gdn_chunk.cuh"
#include "engine/cuda/gdn/gdn_cluster.cuh"
#include "engine/cuda/gdn/gdn_inputs.cuh"
#include "engine/cuda/gdn/gdn_pass.h"
#include "engine/cuda/product/operand.cuh"

namespace tare::engine {
namespace gdn {
namespace {

constexpr float kL2NormEps = 1e-6F;       // added to the sum of squares, inside the root; a literal of the model
constexpr float kSoftplusLinear = 20.0F;  // softplus(x) = x above: PyTorch's threshold
constexpr int kFillPiece = 8192;          // bytes that one prefetch asks for
constexpr int kStoreThreads = 256;
constexpr int kThreadsASlice[] = {0, 512, 256};  // by slices a head: one thread a channel of q, k, v, z

constexpr int kLeastSharedBytes = 99 * 1024;  // that every device from sm_80 to sm_120 gives a block
// So much that a Hopper SM takes one thread block of a pass, and a product's block beside it: left alone, blocks of a
// pass meet on one SM while others idle.
constexpr int kTwoSliceSharedBytes = 114 * 1024;

// With fewer the sums of the recurrence share registers and wait for each other. A block of a product (27,500
// registers) fits beside two slices' 256 threads; 512 threads fit on an SM.
constexpr int kTwoSliceRegisters = 144;
constexpr int kOneSliceRegisters = 128;

template <int kSlices, GdnForm kForm>
struct Kernel {
  static constexpr int kColumns = kGdnHead / kSlices;
  static constexpr int kThreads = kThreadsASlice[kSlices];
  static constexpr int kWarps = kThreads / kLanes;
  static constexpr int kMixThreads = kThreads - kColumns;  // of q, k and v; the others, the last ones, look after z
  static constexpr int kMixWarps = kMixThreads / kLanes;
  static constexpr bool kRecurrent = kForm == GdnForm::kRecurrent;
  // Planes of a product that are asked for together.
  static constexpr int kPlanes = kSlices == 2 ? 6 : 1;
  using Tile = StateTile<kForm, kColumns>;
  using Tokens = std::conditional_t<kRecurrent, PassShared<kColumns>, ChunkShared<kColumns>>;
  // Projections on their way in, of planes [plane][pair of tokens][thread], of rows [token][thread]. First the planes
  // of q, k and v; when these are used up, z lies where they began, the chunk's parts behind it, and behind those the
  // next tokens' rows of q, k and v (one slice a head has no room for that: rows come in place of the parts).
  static constexpr int kGateBytes = kPlanes * kBlockTokens * kColumns * 4;
  static constexpr int kPartsOffset = kGateBytes;
  static constexpr int kPartsBytes = kRecurrent ? 0 : static_cast<int>(sizeof(ChunkParts<kColumns>));
  static constexpr bool kFetchAhead = kRecurrent || kSlices == 2;
  static constexpr int kRowsOffset = kPartsOffset + (kFetchAhead ? kPartsBytes : 0);
  static constexpr int kScratchBytes = std::max({kPlanes * kBlockTokens * kMixThreads * 4, kPartsOffset + kPartsBytes,
                                                 kRowsOffset + kBlockTokens* kMixThreads * 4});
  struct Shared : Tokens {
    int gate_planes[kColumns];  // of z's rows
    alignas(16) std::byte scratch[kScratchBytes];
  };
  static_assert(sizeof(Shared) <= (kSlices == 2 ? kTwoSliceSharedBytes : kLeastSharedBytes));
};

__device__ __forceinline__ float silu(float x) {
  return __fdividef(x, 1.0F + expf(-x));
}
__device__ __forceinline__ float sum_of_warp(float x) {
#pragma unroll
  for (int step = kLanes / 2; step > 0; step /= 2) x += __shfl_xor_sync(~0U, x, step);
  return x;
}
__device__ __forceinline__ float dot(float4 x, float4 y) {
  return fmaf(x.w, y.w, fmaf(x.z, y.z, fmaf(x.y, y.y, x.x * y.x)));
}

struct GateInputs {
  float b = 0;
  float a = 0;
};
// Lane t reads the gates of token first + t.
__device__ __forceinline__ GateInputs read_gates(const GdnPass& pass, int head, int first) {
  const int token = first + static_cast<int>(threadIdx.x % kLanes);
  GateInputs inputs;
  if (token < min(pass.tokens, first + kBlockTokens)) {
    const float* row = pass.gates.data + static_cast<std::int64_t>(token) * pass.gates.rows + head;
    inputs.b = row[0] * pass.gates.factor;
    inputs.a = row[pass.shape.value_heads] * pass.gates.factor;
  }
  return inputs;
}

// The extra blocks: pull weights into L2.
__device__ void fill_l2(const L2Fill& fill, int block) {
  const std::int64_t pieces = (fill.bytes + kFillPiece - 1) / kFillPiece;
  const std::int64_t threads = static_cast<std::int64_t>(fill.blocks) * blockDim.x;
  for (std::int64_t piece = static_cast<std::int64_t>(block) * blockDim.x + threadIdx.x; piece < pieces;
       piece += threads) {
    const std::byte* source = fill.data + piece * kFillPiece;
    const std::int64_t bytes = min(static_cast<std::int64_t>(kFillPiece), fill.bytes - piece * kFillPiece);
#if __CUDA_ARCH__ >= 900
    ptx::bulk_prefetch_l2(source, static_cast<std::uint32_t>(bytes / 16 * 16));
#else
    constexpr int kLine = 128;
    for (std::int64_t at = 0; at < bytes; at += kLine) asm volatile("prefetch.global.L2 [%0];" ::"l"(source + at));
#endif
  }
}

// Writes the state's slice and its scale.
template <class Kernel>
__device__ __forceinline__ void write_state(const GdnMemory& memory, typename Kernel::Shared& shared,
                                            typename Kernel::Tile& state, std::int64_t slice_place, int head,
                                            int slice) {
  constexpr int kCopies = Kernel::kColumns * kGdnScaleCopies / kGdnHead;
  const auto thread = static_cast<int>(threadIdx.x);
  float scale = shared.scale;
  if (memory.half_state) {
    state.round_to_halves(scale);
    scale = 1.0F;
    __syncthreads();  // everyone has read the scale
    if (thread == 0) shared.scale = scale;
    __syncthreads();
  }
  state.store(memory.state, slice_place, memory.half_state);
  if (thread < kCopies) memory.scales[head * kGdnScaleCopies + slice * kCopies + thread] = scale;
}

// Folds the records that were committed, of which the first 16 were asked for, into the state and writes it. Every
// thread of the block.
template <class Kernel>
__device__ __forceinline__ void fold(const GdnPass& pass, typename Kernel::Shared& shared, typename Kernel::Tile& state,
                                     const Records& records, std::int64_t slice_place, int head, int slice,
                                     int pending) {
  const auto thread = static_cast<int>(threadIdx.x);
#pragma unroll 1
  for (int first = 0; first < pending; first += kBlockTokens) {
    const int count = min(pending - first, kBlockTokens);
    if (first > 0) ask_for_records<Kernel>(shared, records, first, count);
    if (thread < kLanes) {
      const float decay = thread < count ? records.decays[(first + thread) * records.decay_stride] : 1.0F;
      float scale = shared.scale;
      unsigned restarts = 0;
      const Scales own = follow_scale(decay, count, scale, restarts);
      if (thread < count) shared.steps[thread].raw = own.raw;
      __syncwarp();
      if (thread == 0) {
        shared.scale = scale;
        shared.restarts = restarts;
      }
    }
    wait_for_copies();
    __syncthreads();
    state.advance(shared, count);
    __syncthreads();
  }
  if (pending > 0) write_state<Kernel>(pass.memory, shared, state, slice_place, head, slice);
}
// Beta, decay and scale of `count` tokens, by the last two warps; the decays are recorded.
template <class Kernel>
__device__ __forceinline__ void prepare_gates(const GdnPass& pass, typename Kernel::Shared& shared,
                                              const GateInputs& inputs, float decay_rate, float dt_bias, float scale,
                                              int count, float* recorded) {
  const auto warp = static_cast<int>(threadIdx.x / kLanes);
  const auto lane = static_cast<int>(threadIdx.x % kLanes);
  const float x = inputs.a + dt_bias;
  const float softplus = x > kSoftplusLinear ? x : log1pf(expf(x));
  const float decay = lane < count ? expf(-decay_rate * softplus) : 1.0F;
  if (warp == Kernel::kWarps - 2) {
    if constexpr (!Kernel::kRecurrent) multiply_decays(shared, decay, scale);
  } else if (warp == Kernel::kWarps - 1) {
    if (recorded != nullptr && lane < count) recorded[lane * pass.shape.value_heads] = decay;
    unsigned restarts = 0;
    const Scales own = follow_scale(decay, count, scale, restarts);
    if (lane < kBlockTokens) {
      shared.steps[lane].beta = lane < count ? 1.0F / (1.0F + expf(-inputs.b)) : 0.0F;
      shared.steps[lane].raw = own.raw;
      shared.steps[lane].inverse = 1.0F / own.after;
    }
    if (lane == 0) {
      shared.scale = scale;
      shared.restarts = restarts;
    }
  }
}

// Sums over the taps of this thread's channel, before SiLU; rows from `count` up to `rows` become zero.
template <class Kernel>
__device__ __forceinline__ void convolve(const GdnPass& pass, const Channel& channel, const Incoming& incoming,
                                         float4 taps, Past& past, int first, int count, int rows, float* target,
                                         int stride, float* recorded) {
  const std::int64_t channels = static_cast<std::int64_t>(2 * pass.shape.key_heads + pass.shape.value_heads) * kGdnHead;
  const bool narrow = pass.memory.narrow_columns;
#pragma unroll 2
  for (int pair = 0; pair < (rows + 1) / 2; ++pair) {
    float x[2] = {0.0F, 0.0F};
    if (channel.real && 2 * pair < count) {
      const float2 both = arrived_pair<Kernel>(incoming, pass.qkvz.factor, channel.planes, first, pair);
      x[0] = both.x;
      x[1] = both.y;
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int token = 2 * pair + i;
      if (token < count) {
        target[token * stride] =
            fmaf(taps.w, x[i], fmaf(taps.z, past.x[2], fmaf(taps.y, past.x[1], taps.x * past.x[0])));
        past.x[0] = past.x[1];
        past.x[1] = past.x[2];
        past.x[2] = as_stored(x[i], narrow);
        if (recorded != nullptr) recorded[token * channels] = x[i];
      } else if (token < rows) {
        target[token * stride] = 0.0F;
      }
    }
  }
}

__device__ __forceinline__ float4 silu(float4 x) {
  return {silu(x.x), silu(x.y), silu(x.z), silu(x.w)};
}
// SiLU of q, k and v and the l2 norms of the rows this block convolved, here and in the peer; keys are recorded. By the
// warps that do not look after z.
template <class Kernel, int kSlices>
__device__ __forceinline__ void activate(typename Kernel::Shared& shared, int slice, int rows, int count,
                                         float query_scale, float* recorded, std::int64_t recorded_stride) {
  const auto thread = static_cast<int>(threadIdx.x);
  const int warp = thread / kLanes;
  const int lane = thread % kLanes;
#pragma unroll 1
  for (int item = warp; item < rows * (2 / kSlices); item += Kernel::kMixWarps) {
    const bool query = kSlices == 2 ? slice == 0 : item < rows;
    const int token = item < rows ? item : item - rows;
    float* own = (query ? shared.queries[token] : shared.keys[token]) + 4 * lane;
    float4 x = silu(*reinterpret_cast<float4*>(own));
    const float factor = (query ? query_scale : 1.0F) * rsqrtf(sum_of_warp(dot(x, x)) + kL2NormEps);
    x = {x.x * factor, x.y * factor, x.z * factor, x.w * factor};
    *reinterpret_cast<float4*>(own) = x;
    if constexpr (kSlices == 2) store_to_peer(peer_address(own, static_cast<unsigned>(1 - slice)), x);
    if (!query && recorded != nullptr && token < count) {
      *reinterpret_cast<float4*>(recorded + token * recorded_stride + 4 * lane) = x;
    }
  }
#pragma unroll 1
  for (int index = thread; index < rows * Kernel::kColumns / 4; index += Kernel::kMixWarps * kLanes) {
    auto* value = reinterpret_cast<float4*>(&shared.values[0][0]) + index;
    *value = silu(*value);
  }
}

// One element of an operand in rows; used where a group of 64 columns belongs to several heads.
__device__ __forceinline__ void store_element(const Operand& out, std::int64_t token, std::int64_t column,
                                              float value) {
  const std::int64_t place = token * out.columns + column;
  if (out.layout == OperandLayout::kFP32Rows) {
    reinterpret_cast<float*>(out.data)[place] = value;
  } else {
    reinterpret_cast<__nv_bfloat16*>(out.data)[place] = __float2bfloat16_rn(value);
  }
}

template <int kSlices, GdnForm kForm>
__global__ void __maxnreg__(kSlices == 2 ? kTwoSliceRegisters : kOneSliceRegisters)
    gdn_kernel(const __grid_constant__ GdnPass pass) {
  using K = Kernel<kSlices, kForm>;
  constexpr int kColumns = K::kColumns;
  constexpr int kGroups = kColumns / kOperandGroup;
  extern __shared__ __align__(16) std::byte shared_bytes[];
  auto& shared = *reinterpret_cast<typename K::Shared*>(shared_bytes);
  ptx::launch_dependents();

  const CudaGdnShape& shape = pass.shape;
  const int work_blocks = shape.value_heads * kSlices;
  if (static_cast<int>(blockIdx.x) >= work_blocks) {
    fill_l2(pass.fill, static_cast<int>(blockIdx.x) - work_blocks);
    ptx::wait_for_preceding_grid();
    return;
  }
  const int head = static_cast<int>(blockIdx.x) / kSlices;
  const int slice = static_cast<int>(blockIdx.x) % kSlices;
  const int ratio = shape.value_heads / shape.key_heads;
  const int key_head = head / ratio;
  const auto thread = static_cast<int>(threadIdx.x);
  const int warp = thread / kLanes;
  const int lane = thread % kLanes;
  const GdnMemory& memory = pass.memory;
  const int pending = pass.control->pending;
  const int half = pass.control->half;

  const std::int64_t slice_place = static_cast<std::int64_t>(head) * kGdnHead * kGdnHead + slice * kColumns;
  typename K::Tile state;
  state.load(memory.state, slice_place, memory.half_state);
  const Records committed = records_of<K>(pass, 1 - half, head, key_head, slice);
  ask_for_records<K>(shared, committed, 0, min(pending, kBlockTokens));
  if (thread == 0) shared.scale = memory.scales[head * kGdnScaleCopies + slice * (kGdnScaleCopies / kSlices)];

  const Channel channel = own_channel<kSlices>(shape, pass.qkvz, head, key_head, slice);
  Past past = read_past(pass, head, channel, pending, half);
  float4 taps{0.0F, 0.0F, 0.0F, 0.0F};
  const bool of_gate = channel.role == Role::kGate;
  if (of_gate) shared.gate_planes[thread - K::kMixThreads] = channel.planes;
  if (!of_gate && channel.real) {
    taps =
        *reinterpret_cast<const float4*>(pass.weights.convolution + static_cast<std::int64_t>(channel.row) * kGdnTaps);
  }
  const float decay_rate = pass.weights.decay_rate[head];
  const float dt_bias = pass.weights.dt_bias[head];
  float2 norm[kGroups];
#pragma unroll
  for (int group = 0; group < kGroups; ++group) {
    const int column = slice * kColumns + group * kOperandGroup + 2 * lane;
    norm[group].x = column < shape.dv ? pass.weights.norm[column] : 0.0F;
    norm[group].y = column + 1 < shape.dv ? pass.weights.norm[column + 1] : 0.0F;
  }
  __syncthreads();  // the scale is there
  fold<K>(pass, shared, state, committed, slice_place, head, slice, pending);
  if (pending > 0 && !of_gate) write_past(memory, head, channel, past);
  float scale = shared.scale;
  if constexpr (kSlices == 2) cluster_arrive();  // the peer may write here from now on

  const bool panels = pass.out.layout == OperandLayout::kFP16Panels || pass.out.layout == OperandLayout::kBF16Panels;
  const bool whole_groups = shape.dv == kGdnHead;
  const Operand rows_out = panels ? Operand{OperandLayout::kFP32Rows, kMostRoundTokens, pass.out.columns, 0,
                                            reinterpret_cast<std::byte*>(memory.mixed)}
                                  : pass.out;
  const int padded_tokens = panels ? pass.out.width : pass.tokens;
  const float query_scale = 1.0F / sqrtf(static_cast<float>(shape.dk));
  float* target = channel.role == Role::kQuery ? &shared.queries[0][channel.place]
                  : channel.role == Role::kKey ? &shared.keys[0][channel.place]
                                               : &shared.values[0][channel.place - slice * kColumns];
  const int target_stride = channel.role == Role::kValue ? kColumns : kRowStride;
  std::byte* const scratch = shared.scratch;
  const Incoming incoming = incoming_of<K>(pass.qkvz, channel, scratch);
  ptx::wait_for_preceding_grid();
  if constexpr (kSlices == 2) cluster_wait();

  const bool asks = channel.real && !of_gate;
  if (asks) ask_for_tokens(incoming, 0, min(pass.tokens, kBlockTokens));

#pragma unroll 1
  for (int first = 0; first < pass.tokens; first += kBlockTokens) {
    const int count = min(pass.tokens - first, kBlockTokens);
    // Rows that the recurrence reads: the chunk form's tiles are full.
    const int rows = K::kRecurrent ? count : count <= kBlockTokens / 2 ? kBlockTokens / 2 : kBlockTokens;
    const std::int64_t record = static_cast<std::int64_t>(half) * kMostRoundTokens + first;
    // z is needed last: its warps prepare the gates first.
    if (of_gate) {
      prepare_gates<K>(pass, shared, read_gates(pass, head, first), decay_rate, dt_bias, scale, count,
                       pass.absorb || slice != 0 ? nullptr : memory.decays + record * shape.value_heads + head);
    } else {
      wait_for_copies();
      convolve<K>(pass, channel, incoming, taps, past, first, count, rows, target, target_stride,
                  pass.absorb || !channel.records ? nullptr
                                                  : memory.projections + projection_place(shape, half, first, channel));
    }
    __syncthreads();
    if (of_gate) {
      if (channel.real) ask_for_tokens(incoming, first, count);
    } else {
      activate<K, kSlices>(
          shared, slice, rows, count, query_scale,
          pass.absorb || head % ratio != 0 ? nullptr : memory.keys + (record * shape.key_heads + key_head) * kGdnHead,
          static_cast<std::int64_t>(shape.key_heads) * kGdnHead);
    }
    scale = shared.scale;
    const int next = first + kBlockTokens;
    // The next rows of a prefill travel while these are worked on.
    const bool fetch_ahead = K::kFetchAhead && !pass.qkvz.planes;
    const bool more = asks && next < pass.tokens;
    if (fetch_ahead && more) {
      ask_for_tokens(incoming, next, min(pass.tokens - next, kBlockTokens));
    }
    if constexpr (kSlices == 2) {
      cluster_arrive();
      cluster_wait();
    } else {
      __syncthreads();
    }

    if constexpr (K::kRecurrent) {
#pragma unroll 1
      for (int token = warp; token < count; token += K::kWarps) {
        const float sum = sum_of_warp(dot(*reinterpret_cast<const float4*>(&shared.keys[token][4 * lane]),
                                          *reinterpret_cast<const float4*>(&shared.queries[token][4 * lane])));
        if (lane == 0) shared.steps[token].key_query = sum;
      }
      __syncthreads();
      run_recurrence(state, shared, count);
    } else {
      run_chunk<kColumns, K::kThreads>(state, shared,
                                       *reinterpret_cast<ChunkParts<kColumns>*>(scratch + K::kPartsOffset), count);
    }
    if (of_gate) wait_for_copies();
    __syncthreads();

    // Gated norm: a warp has a token, here and below the same.
#pragma unroll 1
    for (int token = warp; token < count; token += K::kWarps) {
      float sum = 0.0F;
#pragma unroll
      for (int group = 0; group < kGroups; ++group) {
        const float2 pair = *reinterpret_cast<const float2*>(&shared.outputs[token][group * kOperandGroup + 2 * lane]);
        sum = fmaf(pair.y, pair.y, fmaf(pair.x, pair.x, sum));
      }
      sum = sum_of_warp(sum);
      if (lane == 0) {
        shared.square_sums[slice][token] = sum;
        if constexpr (kSlices == 2) {
          store_to_peer(peer_address(&shared.square_sums[slice][token], static_cast<unsigned>(1 - slice)), sum);
        }
      }
    }
    if constexpr (kSlices == 2) cluster_arrive();
    if (!pass.absorb) {
#pragma unroll 1
      for (int index = thread; index < count * kColumns; index += K::kThreads) {
        const int token = index / kColumns;
        const int column = index % kColumns;
        memory.updates[((record + token) * shape.value_heads + head) * kGdnHead + slice * kColumns + column] =
            shared.values[token][column];
      }
    }
    if (pass.absorb || first + kBlockTokens < pass.tokens) {
      // The recurrent form's state has moved on already.
      if constexpr (!K::kRecurrent) state.advance(shared, count);
    }
    if constexpr (kSlices == 2) {
      cluster_wait();
    } else {
      __syncwarp();
    }
#pragma unroll 1
    for (int token = warp; token < min(kBlockTokens, padded_tokens - first); token += K::kWarps) {
      const bool real = token < count;
      float sum = real ? shared.square_sums[0][token] : 0.0F;
      if (kSlices == 2 && real) sum += shared.square_sums[1][token];
      const float factor = rsqrtf(fmaf(sum, 1.0F / static_cast<float>(shape.dv), shape.eps));
#pragma unroll
      for (int group = 0; group < kGroups; ++group) {
        const int column = group * kOperandGroup + 2 * lane;
        float2 pair{0.0F, 0.0F};
        if (real) {
          const float2 output = *reinterpret_cast<const float2*>(&shared.outputs[token][column]);
          const int of_head = slice * kColumns + column;
          const int row = shape.channels() + head * shape.dv + of_head;
          if (of_head < shape.dv) {  // dv is even
            pair.x =
                output.x * factor * norm[group].x * silu(arrived_gate<K>(pass.qkvz, shared, row, first, token, column));
            pair.y = output.y * factor * norm[group].y *
                     silu(arrived_gate<K>(pass.qkvz, shared, row + 1, first, token, column + 1));
          }
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
    __syncthreads();
    if (!fetch_ahead && more) {
      ask_for_tokens(incoming, next, min(pass.tokens - next, kBlockTokens));
    }
  }

  if (pass.absorb) {
    write_state<K>(memory, shared, state, slice_place, head, slice);
    if (!of_gate) write_past(memory, head, channel, past);
  }
}

// Rows -> panels, where heads share groups of 64 columns. A warp has a group of a token.
__global__ void __launch_bounds__(kStoreThreads)
    gdn_store_kernel(const float* mixed, int tokens, const __grid_constant__ Operand out) {
  ptx::launch_dependents();
  ptx::wait_for_preceding_grid();
  const auto lane = static_cast<int>(threadIdx.x % kLanes);
  const auto item = static_cast<int>(blockIdx.x * (kStoreThreads / kLanes) + threadIdx.x / kLanes);
  const int group = item / out.width;
  const int token = item % out.width;
  if (group >= operand_blocks(out.columns)) return;
  const std::int64_t column = static_cast<std::int64_t>(group) * kOperandGroup + 2 * lane;
  const float* row = mixed + token * out.columns;
  float2 pair{0.0F, 0.0F};
  if (token < tokens && column < out.columns) pair.x = row[column];
  if (token < tokens && column + 1 < out.columns) pair.y = row[column + 1];
  store_group(out, group, token, pair);
}

template <int kSlices, GdnForm kForm>
void launch_kernel_of(const char* name, const GdnPass& pass, const CudaLaunch& launch) {
  using K = Kernel<kSlices, kForm>;
  const int fill_blocks = pass.fill.bytes > 0 ? (pass.fill.blocks + kSlices - 1) / kSlices * kSlices : 0;
  GdnPass rounded = pass;
  rounded.fill.blocks = fill_blocks;
  const LaunchShape shape{
      .blocks = pass.shape.value_heads * kSlices + fill_blocks,
      .threads = K::kThreads,
      .shared_bytes = kSlices == 2 ? kTwoSliceSharedBytes : static_cast<int>(sizeof(typename K::Shared)),
      .cluster = kSlices};
  launch_kernel(name, gdn_kernel<kSlices, kForm>, shape, launch, rounded);
}

}  // namespace
}  // namespace gdn

int gdn_slices_of_device() {
  int device = 0;
  int clusters = 0;
  int shared_bytes = 0;
  check_cuda(cudaGetDevice(&device), "cudaGetDevice");
  check_cuda(cudaDeviceGetAttribute(&clusters, cudaDevAttrClusterLaunch, device), "cudaDeviceGetAttribute");
  check_cuda(cudaDeviceGetAttribute(&shared_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device),
             "cudaDeviceGetAttribute");
  return clusters != 0 && shared_bytes >= gdn::kTwoSliceSharedBytes ? 2 : 1;
}

void launch_gdn_pass(const char* name, GdnForm form, int slices, const GdnPass& pass, const CudaLaunch& launch) {
  if (pass.tokens < 1) throw internal_error("a GDN pass of no tokens");
  if (!pass.absorb && pass.tokens > kMostRoundTokens) throw internal_error("a GDN round of too many tokens");
  if (pass.gates.planes) throw internal_error("GDN gates are plain rows");
  if (slices == 2) {
    if (form == GdnForm::kRecurrent) {
      gdn::launch_kernel_of<2, GdnForm::kRecurrent>(name, pass, launch);
    } else {
      gdn::launch_kernel_of<2, GdnForm::kChunked>(name, pass, launch);
    }
  } else if (form == GdnForm::kRecurrent) {
    gdn::launch_kernel_of<1, GdnForm::kRecurrent>(name, pass, launch);
  } else {
    gdn::launch_kernel_of<1, GdnForm::kChunked>(name, pass, launch);
  }
  const Operand& out = pass.out;
  const bool panels = out.layout == OperandLayout::kFP16Panels || out.layout == OperandLayout::kBF16Panels;
  if (!panels || pass.shape.dv == kGdnHead) return;
  constexpr int kWarps = gdn::kStoreThreads / gdn::kLanes;
  const int items = static_cast<int>(operand_blocks(out.columns)) * out.width;
  CudaLaunch store = launch;
  store.bytes = 0;  // counted with the pass
  launch_kernel("gdn_store", gdn::gdn_store_kernel,
                LaunchShape{.blocks = (items + kWarps - 1) / kWarps, .threads = gdn::kStoreThreads}, store,
                static_cast<const float*>(pass.memory.mixed), pass.tokens, out);
}

void launch_gdn_round(GdnForm form, const CudaGdnWeights& weights, const CudaGdnCache& cache, const ProductResult& qkvz,
                      const ProductResult& gates, int tokens, const RoundControl* control, const Operand& out,
                      const L2Fill& fill, const CudaLaunch& launch) {
  GdnPass pass{.shape = cache.shape, .weights = weights, .memory = gdn_memory(cache), .qkvz = qkvz, .gates = gates};
  pass.tokens = tokens;
  pass.control = control;
  pass.out = out;
  pass.fill = fill;
  launch_gdn_pass("gdn_round", form, gdn_slices_of_device(), pass, launch);
}

void launch_gdn_prefill(GdnForm form, const CudaGdnWeights& weights, const CudaGdnCache& cache,
                        const ProductResult& qkvz, const ProductResult& gates, int tokens, const RoundControl* control,
                        const Operand& out, const CudaLaunch& launch) {
  GdnPass pass{.shape = cache.shape, .weights = weights, .memory = gdn_memory(cache), .qkvz = qkvz, .gates = gates};
  pass.tokens = tokens;
  pass.control = control;
  pass.out = out;
  pass.absorb = true;
  if (out.layout != OperandLayout::kFP32Rows && out.layout != OperandLayout::kBF16Rows) {
    throw internal_error("a GDN prefill writes rows");
  }
  launch_gdn_pass("gdn_prefill", form, gdn_slices_of_device(), pass, launch);
}

}  // namespace tare::engine
