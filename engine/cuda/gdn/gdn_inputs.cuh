// What a thread block of the GDN kernel reads: the projections of its channels, of the convolution's columns and of the
// records of a verify. `Kernel` is gdn_pass.cu's table of one kernel's sizes.
#pragma once

#include <cuda_bf16.h>

#include <cmath>

#include "engine/cuda/device/async_copy.cuh"
#include "engine/cuda/device/ptx.cuh"
#include "engine/cuda/gdn/gdn_pass.h"
#include "engine/cuda/gdn/gdn_state.cuh"
#include "engine/cuda/product/product.h"

namespace tare::engine::gdn {

enum class Role { kQuery, kKey, kValue, kGate };

// What a kernel would divide for.
struct Constants {
  std::uint32_t inverse_ratio;  // of value heads a key head
  float query_scale;
  float inverse_dv;
  std::uint16_t planes[kGdnMostRows / 256];  // of the qkvz product, by 256 rows
};
inline Constants constants_of(const CudaGdnShape& shape, const ProductResult& qkvz) {
  const auto ratio = static_cast<std::uint32_t>(shape.value_heads / shape.key_heads);
  Constants constants{(1U << 31U) / ratio + 1U,
                      1.0F / std::sqrt(static_cast<float>(shape.dk)),
                      1.0F / static_cast<float>(shape.dv),
                      {}};
  if (!qkvz.planes) return constants;
  for (int block = 0; block < qkvz.plan.row_blocks; ++block) {
    constants.planes[block] = static_cast<std::uint16_t>(qkvz.plan.planes(block));
  }
  return constants;
}

// Parameters lie in constant memory, which a launch finds cold, and a line of 64 bytes is waited for where it is first
// used. So one word of each line is asked for at once.
__device__ __forceinline__ void bring_parameters(const GdnPass& pass, const Constants& constants) {
  const auto low = [](const void* pointer) { return static_cast<int>(reinterpret_cast<std::uintptr_t>(pointer)); };
  const int words = pass.shape.key_heads ^ low(pass.memory.state) ^ low(pass.qkvz.data) ^ pass.gates.rows ^
                    pass.out.width ^ static_cast<int>(constants.inverse_ratio);
  ptx::have_computed(words & 0x7FFF'FFFF);
}
// Exact while value_heads times their ratio to key heads is less than 2^31.
__device__ __forceinline__ int key_head_of(const Constants& constants, int head) {
  return static_cast<int>(__umulhi(2U * static_cast<unsigned>(head), constants.inverse_ratio));
}

// What one thread looks after: a channel of q, k, v or z.
struct Channel {
  Role role;
  int place;       // within the head
  bool real;       // not padding
  int row;         // of the qkvz product
  int planes;      // that the product left of this row
  int projection;  // of a record's row
  bool records;    // this thread block is the one that records it
};
// `leads`: the first of the value heads of its key head, whose thread block records q and k.
template <int kSlices>
__device__ __forceinline__ Channel own_channel(const CudaGdnShape& shape, const Constants& constants, int head,
                                               int key_head, bool leads, int slice) {
  const auto thread = static_cast<int>(threadIdx.x);
  Channel channel{};
  if constexpr (kSlices == 1) {
    channel.role = static_cast<Role>(thread / kGdnHead);
    channel.place = thread % kGdnHead;
  } else {
    // Slice 0 has q, slice 1 has k; each its half of v and z.
    constexpr int kColumns = kGdnHead / kSlices;
    const bool shared_part = thread < kGdnHead;
    channel.role = shared_part ? static_cast<Role>(slice) : thread < kGdnHead + kColumns ? Role::kValue : Role::kGate;
    channel.place = shared_part ? thread : slice * kColumns + thread % kColumns;
  }
  const bool of_key_head = channel.role == Role::kQuery || channel.role == Role::kKey;
  channel.real = channel.place < (of_key_head ? shape.dk : shape.dv);
  const int key_channels = shape.key_heads * shape.dk;
  switch (channel.role) {
    case Role::kQuery:
      channel.row = key_head * shape.dk + channel.place;
      channel.projection = key_head * kGdnHead + channel.place;
      break;
    case Role::kKey:
      channel.row = key_channels + key_head * shape.dk + channel.place;
      channel.projection = (shape.key_heads + key_head) * kGdnHead + channel.place;
      break;
    case Role::kValue:
      channel.row = 2 * key_channels + head * shape.dv + channel.place;
      channel.projection = (2 * shape.key_heads + head) * kGdnHead + channel.place;
      break;
    case Role::kGate:
      channel.row = shape.channels() + head * shape.dv + channel.place;
      break;
  }
  channel.planes = constants.planes[channel.row / 256];
  channel.records = channel.role == Role::kValue || (of_key_head && leads);
  return channel;
}

// Convolution columns, FP32 or BF16.
__device__ __forceinline__ float read_column(const void* source, int place, bool narrow) {
  return narrow ? __bfloat162float(static_cast<const __nv_bfloat16*>(source)[place])
                : static_cast<const float*>(source)[place];
}
__device__ __forceinline__ void write_column(void* target, int place, bool narrow, float value) {
  if (narrow) {
    static_cast<__nv_bfloat16*>(target)[place] = __float2bfloat16_rn(value);
  } else {
    static_cast<float*>(target)[place] = value;
  }
}
__device__ __forceinline__ float as_stored(float value, bool narrow) {
  return narrow ? __bfloat162float(__float2bfloat16_rn(value)) : value;
}

// The three inputs before the next token of this channel, oldest first.
struct Past {
  float x[kGdnPast] = {};
};
__device__ __forceinline__ int column_place(int head, int age_index, const Channel& channel) {
  return (head * kGdnPast + age_index) * 3 * kGdnHead + static_cast<int>(channel.role) * kGdnHead + channel.place;
}
__device__ __forceinline__ int projection_place(const CudaGdnShape& shape, int half, int token,
                                                const Channel& channel) {
  const int channels = (2 * shape.key_heads + shape.value_heads) * kGdnHead;
  return (half * kMostRoundTokens + token) * channels + channel.projection;
}
__device__ __forceinline__ void write_past(const GdnMemory& memory, int head, const Channel& channel,
                                           const Past& past) {
  for (int i = 0; i < kGdnPast; ++i) {
    write_column(memory.columns, column_place(head, i, channel), memory.narrow_columns, past.x[i]);
  }
}
// The slot of record `record` of the path; lane l of the warp, which is whole, brings that of record l.
__device__ __forceinline__ int slot_of(int slots, int record) {
  return __shfl_sync(~0U, slots, record & (kLanes - 1));
}
// Of the columns followed by `pending` records, the last three, on their way: nothing that looks at one is done before
// take_past, or a warp waits there for all that it has asked for.
struct AskedPast {
  float wide[kGdnPast] = {};
  std::uint16_t narrow[kGdnPast] = {};
};
__device__ __forceinline__ AskedPast ask_for_past(const GdnPass& pass, int head, const Channel& channel, int pending,
                                                  int half, int slots) {
  AskedPast past;
  if (channel.role == Role::kGate) return past;
  const GdnMemory& memory = pass.memory;
#pragma unroll
  for (int i = 0; i < kGdnPast; ++i) {
    const int from = pending + i;
    const int slot = slot_of(slots, from - kGdnPast);
    if (from >= kGdnPast) {
      past.wide[i] = memory.projections[projection_place(pass.shape, 1 - half, slot, channel)];
    } else if (memory.narrow_columns) {
      past.narrow[i] = static_cast<const std::uint16_t*>(memory.columns)[column_place(head, from, channel)];
    } else {
      past.wide[i] = static_cast<const float*>(memory.columns)[column_place(head, from, channel)];
    }
  }
  return past;
}
__device__ __forceinline__ Past take_past(const AskedPast& asked, bool narrow, int pending) {
  Past past;
#pragma unroll
  for (int i = 0; i < kGdnPast; ++i) {
    past.x[i] = asked.wide[i];
    if (!narrow) continue;
    // A BF16 number is the upper half of the FP32 one.
    const float of_column = __uint_as_float(static_cast<std::uint32_t>(asked.narrow[i]) << 16U);
    past.x[i] = pending + i < kGdnPast ? of_column : as_stored(past.x[i], true);
  }
  return past;
}

// Where this thread's row of the product lies. Planes are read straight into registers, so many loads at once that a
// block's share is on its way together; plain rows come through shared memory, asked for while other tokens are worked
// on (prefill).
struct Incoming {
  const float* source;  // of token 0
  int plane_stride;     // 0: plain rows
  int row_stride;       // of plain rows: of a token
  float* staged;        // of plain rows: this thread's [token][threads]
};
constexpr int kPairsAtOnce = 4;   // of tokens, all their planes
constexpr int kPlanesAtOnce = 6;  // what 16384 rows of 5120 cut among 264 thread blocks leave
constexpr int kPairStride = static_cast<int>(plane_place(16, 0, 2));  // floats, of any width
template <class Kernel>
__device__ __forceinline__ Incoming incoming_of(const ProductResult& result, const Channel& channel, float* staging) {
  float* staged = staging + threadIdx.x;
  if (!result.planes) return {result.data + channel.row, 0, result.rows, staged};
  return {result.data + plane_place(result.width, channel.row, 0),
          static_cast<int>(plane_floats(result.plan, result.width)), 0, staged};
}
// Asks for `count` plain rows from `first` on.
template <class Kernel>
__device__ __forceinline__ void ask_for_rows(const Incoming& incoming, int first, int count) {
  std::uint32_t target = ptx::shared_address(incoming.staged);
  const float* source = incoming.source + static_cast<std::int64_t>(first) * incoming.row_stride;
#pragma unroll 2
  for (int token = 0; token < count; ++token) {
    copy_async<4>(target, source);
    source += incoming.row_stride;
    target += 4 * Kernel::kThreads;
  }
}
// This thread's row of tokens first + from .. of which `count` exist from `first` on, two a pair; 0 past the last one's
// pair.
template <class Kernel>
__device__ __forceinline__ void read_pairs(const ProductResult& result, const Channel& channel,
                                           const Incoming& incoming, int first, int from, int count,
                                           float2 (&pairs)[kPairsAtOnce]) {
  if (incoming.plane_stride == 0) {
#pragma unroll
    for (int pair = 0; pair < kPairsAtOnce; ++pair) {
      const int token = from + 2 * pair;
      pairs[pair] = {0.0F, 0.0F};
      if (channel.real && token < count) pairs[pair].x = incoming.staged[token * Kernel::kThreads] * result.factor;
      if (channel.real && token + 1 < count) {
        pairs[pair].y = incoming.staged[(token + 1) * Kernel::kThreads] * result.factor;
      }
    }
    return;
  }
  const int planes = channel.real ? channel.planes : 0;
  const float* const source = incoming.source + (first + from) / 2 * kPairStride;
  float2 parts[kPairsAtOnce][kPlanesAtOnce];
#pragma unroll
  for (int plane = 0; plane < kPlanesAtOnce; ++plane) {
    const float* const of_plane = source + static_cast<std::int64_t>(plane) * incoming.plane_stride;
#pragma unroll
    for (int pair = 0; pair < kPairsAtOnce; ++pair) {
      parts[pair][plane] = {0.0F, 0.0F};
      if (plane < planes && from + 2 * pair < count) {
        parts[pair][plane] = __ldcg(reinterpret_cast<const float2*>(of_plane + pair * kPairStride));
      }
    }
  }
#pragma unroll
  for (int pair = 0; pair < kPairsAtOnce; ++pair) {
    pairs[pair] = parts[pair][0];
#pragma unroll
    for (int plane = 1; plane < kPlanesAtOnce; ++plane) {
      pairs[pair].x += parts[pair][plane].x;
      pairs[pair].y += parts[pair][plane].y;
    }
  }
#pragma unroll 1
  for (int plane = kPlanesAtOnce; plane < planes; ++plane) {
    float2 more[kPairsAtOnce];
#pragma unroll
    for (int pair = 0; pair < kPairsAtOnce; ++pair) {
      more[pair] = {0.0F, 0.0F};
      if (from + 2 * pair < count) {
        more[pair] = __ldcg(reinterpret_cast<const float2*>(
            source + static_cast<std::int64_t>(plane) * incoming.plane_stride + pair * kPairStride));
      }
    }
#pragma unroll
    for (int pair = 0; pair < kPairsAtOnce; ++pair) {
      pairs[pair].x += more[pair].x;
      pairs[pair].y += more[pair].y;
    }
  }
#pragma unroll
  for (int pair = 0; pair < kPairsAtOnce; ++pair) {
    pairs[pair].x *= result.factor;
    pairs[pair].y *= result.factor;
  }
}

// b and a of a head, of the tokens in hand. By a whole warp: lanes 0..15 have b of one token each, lanes 16..31 a. All
// planes are asked for first (Kernel::kGatePlanes at most), and added in order when they are there.
struct GateInputs {
  float b = 0;
  float a = 0;
};
struct IncomingGates {
  const float* source;  // of this lane's token of the first ones
  int plane_stride;
  int step_stride;  // from one step's tokens to the next one's
  int planes;
};
__device__ __forceinline__ IncomingGates incoming_gates(const GdnPass& pass, int head) {
  const ProductResult& result = pass.gates;
  const auto lane = static_cast<int>(threadIdx.x % kLanes);
  const int token = lane % kBlockTokens;
  const int row = (lane < kBlockTokens ? 0 : pass.shape.value_heads) + head;
  if (!result.planes) return {result.data + token * result.rows + row, 0, kBlockTokens * result.rows, 1};
  return {result.data + plane_place(result.width, row, token),
          static_cast<int>(plane_floats(result.plan, result.width)), kBlockTokens / 2 * kPairStride,
          result.plan.planes(row / 256)};
}
__device__ __forceinline__ bool gates_exist(const GdnPass& pass, int first) {
  return first + static_cast<int>(threadIdx.x % kBlockTokens) < pass.tokens;
}
// `arrived` is [plane][lane].
template <class Kernel>
__device__ __forceinline__ void ask_for_gates(const GdnPass& pass, const IncomingGates& gates, int first,
                                              const float* arrived) {
  if (!gates_exist(pass, first)) return;
  const float* source = gates.source + static_cast<std::int64_t>(first / kBlockTokens) * gates.step_stride;
  std::uint32_t target = ptx::shared_address(arrived + threadIdx.x % kLanes);
#pragma unroll 4
  for (int plane = 0; plane < min(gates.planes, Kernel::kGatePlanes); ++plane) {
    copy_async<4>(target, source);
    source += gates.plane_stride;
    target += 4 * kLanes;
  }
}
// Lane t < 16 gets those of token t.
template <class Kernel>
__device__ __forceinline__ GateInputs add_gates(const GdnPass& pass, const IncomingGates& gates, int first,
                                                const float* arrived) {
  const float* own = arrived + threadIdx.x % kLanes;
  float sum = 0.0F;
  if (gates_exist(pass, first)) {
    sum = own[0];
#pragma unroll 4
    for (int plane = 1; plane < min(gates.planes, Kernel::kGatePlanes); ++plane) sum += own[plane * kLanes];
    const float* source = gates.source + static_cast<std::int64_t>(first / kBlockTokens) * gates.step_stride;
#pragma unroll 1
    for (int plane = Kernel::kGatePlanes; plane < gates.planes; ++plane) {
      sum += __ldcg(source + static_cast<std::int64_t>(plane) * gates.plane_stride);
    }
  }
  sum *= pass.gates.factor;
  return {sum, __shfl_down_sync(~0U, sum, kBlockTokens)};
}

// A thread block's part of the records of a verify: first elements, and from one token to the next.
struct Records {
  int first_key;     // [token][key head][dk]
  int first_update;  // [token][value head][this slice]
  int first_decay;   // [token][value head]
  int key_stride;
  int update_stride;
  int decay_stride;
};
template <class Kernel>
__device__ __forceinline__ Records records_of(const GdnPass& pass, int half, int head, int key_head, int slice) {
  const int key_stride = pass.shape.key_heads * kGdnHead;
  const int update_stride = pass.shape.value_heads * kGdnHead;
  const int first = half * kMostRoundTokens;
  return {first * key_stride + key_head * kGdnHead,
          first * update_stride + head * kGdnHead + slice * Kernel::kColumns,
          first * pass.shape.value_heads + head,
          key_stride,
          update_stride,
          pass.shape.value_heads};
}
// Lane t gets the decay of record first + t, 1 past the last.
__device__ __forceinline__ float read_decay(const GdnMemory& memory, const Records& records, int slots, int first,
                                            int count) {
  const auto lane = static_cast<int>(threadIdx.x % kLanes);
  const int slot = slot_of(slots, first + lane);
  return lane < count ? memory.decays[records.first_decay + slot * records.decay_stride] : 1.0F;
}
// Asks for `count` records from `first` on, to be where `advance` reads them.
template <class Kernel>
__device__ __forceinline__ void ask_for_records(const GdnMemory& memory, typename Kernel::Shared& shared,
                                                const Records& records, int slots, int first, int count) {
  constexpr int kUpdateQuads = Kernel::kColumns / 4;
  const auto thread = static_cast<int>(threadIdx.x);
  const int column = 4 * (thread % kLanes);
  static_assert(4 * kLanes == kGdnHead);
#pragma unroll
  for (int k = 0; k < Kernel::kTokensAWarp; ++k) {
    const int token = thread / kLanes + k * Kernel::kWarps;
    const int slot = slot_of(slots, first + token);
    if (token < count) {
      copy_async<16>(&shared.keys[token][column],
                     memory.keys + (records.first_key + slot * records.key_stride + column));
    }
  }
  static_assert(kBlockTokens * kUpdateQuads <= Kernel::kThreads);
  const int token = thread / kUpdateQuads;
  const int update_column = 4 * (thread % kUpdateQuads);
  const int slot = slot_of(slots, first + token);
  if (token < count) {
    copy_async<16>(&shared.values[token][update_column],
                   memory.updates + (records.first_update + slot * records.update_stride + update_column));
  }
}

}  // namespace tare::engine::gdn
