// What a thread block of the GDN kernel reads: the projections of its channels, of the convolution's columns and of the
// records of a verify. `Kernel` is gdn_pass.cu's table of one kernel's sizes.
#pragma once

#include <cuda_bf16.h>

#include "engine/cuda/device/ptx.cuh"
#include "engine/cuda/gdn/gdn_pass.h"
#include "engine/cuda/gdn/gdn_state.cuh"
#include "engine/cuda/product/product.h"

namespace tare::engine::gdn {

constexpr int kPairs = kBlockTokens / 2;  // of tokens

enum class Role { kQuery, kKey, kValue, kGate };

// Of this thread, what it asked for with cp.async.
__device__ __forceinline__ void wait_for_copies() {
  asm volatile("cp.async.wait_all;" ::: "memory");
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
template <int kSlices>
__device__ __forceinline__ Channel own_channel(const CudaGdnShape& shape, const ProductResult& qkvz, int head,
                                               int key_head, int slice) {
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
  channel.planes = qkvz.planes ? qkvz.plan.planes(channel.row / 256) : 0;
  channel.records = channel.role == Role::kValue || (of_key_head && head % (shape.value_heads / shape.key_heads) == 0);
  return channel;
}

// Convolution columns, FP32 or BF16.
__device__ __forceinline__ float read_column(const void* source, std::int64_t place, bool narrow) {
  return narrow ? __bfloat162float(static_cast<const __nv_bfloat16*>(source)[place])
                : static_cast<const float*>(source)[place];
}
__device__ __forceinline__ void write_column(void* target, std::int64_t place, bool narrow, float value) {
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
__device__ __forceinline__ std::int64_t column_place(int head, int age_index, const Channel& channel) {
  return (static_cast<std::int64_t>(head) * kGdnPast + age_index) * 3 * kGdnHead +
         static_cast<int>(channel.role) * kGdnHead + channel.place;
}
__device__ __forceinline__ std::int64_t projection_place(const CudaGdnShape& shape, int half, int token,
                                                         const Channel& channel) {
  const int channels = (2 * shape.key_heads + shape.value_heads) * kGdnHead;
  return (static_cast<std::int64_t>(half) * kMostRoundTokens + token) * channels + channel.projection;
}
__device__ __forceinline__ void write_past(const GdnMemory& memory, int head, const Channel& channel,
                                           const Past& past) {
  for (int i = 0; i < kGdnPast; ++i) {
    write_column(memory.columns, column_place(head, i, channel), memory.narrow_columns, past.x[i]);
  }
}
// Of the columns followed by `pending` records, the last three.
__device__ __forceinline__ Past read_past(const GdnPass& pass, int head, const Channel& channel, int pending,
                                          int half) {
  Past past;
  if (channel.role == Role::kGate) return past;
  const GdnMemory& memory = pass.memory;
#pragma unroll
  for (int i = 0; i < kGdnPast; ++i) {
    const int from = pending + i;
    past.x[i] = from < kGdnPast
                    ? read_column(memory.columns, column_place(head, from, channel), memory.narrow_columns)
                    : as_stored(memory.projections[projection_place(pass.shape, 1 - half, from - kGdnPast, channel)],
                                memory.narrow_columns);
  }
  return past;
}

// Where this thread's row of the product lies and where it goes, found before the product is there.
struct Incoming {
  const float* source;        // of token 0
  std::int64_t plane_stride;  // 0: plain rows
  std::int64_t token_stride;  // of planes: of two tokens
  int planes;                 // asked for together
  int threads;                // whose rows lie beside each other
  std::byte* target;
};
template <class Kernel>
__device__ __forceinline__ Incoming incoming_of(const ProductResult& result, const Channel& channel,
                                                std::byte* scratch) {
  const auto thread = static_cast<int>(threadIdx.x);
  const bool of_gate = channel.role == Role::kGate;
  const int threads = of_gate ? Kernel::kColumns : Kernel::kMixThreads;
  const int place = of_gate ? thread - Kernel::kMixThreads : thread;
  if (result.planes) {
    return {result.data + plane_place(result.width, channel.row, 0),
            plane_floats(result.plan, result.width),
            plane_place(result.width, 0, 2),
            min(channel.planes, Kernel::kPlanes),
            threads,
            scratch + 8 * place};
  }
  return {
      result.data + channel.row, 0, result.rows, 1, threads, scratch + (of_gate ? 0 : Kernel::kRowsOffset) + 4 * place};
}
// Asks for `count` tokens from `first` on: without registers, so that all planes and tokens are under way together.
__device__ __forceinline__ void ask_for_tokens(const Incoming& incoming, int first, int count) {
  std::uint32_t target = ptx::shared_address(incoming.target);
  if (incoming.plane_stride != 0) {
    const int pairs = (count + 1) / 2;
#pragma unroll 1
    for (int plane = 0; plane < incoming.planes; ++plane) {
      const float* source = incoming.source + plane * incoming.plane_stride + first / 2 * incoming.token_stride;
      std::uint32_t pair_target = target;
#pragma unroll 2
      for (int pair = 0; pair < pairs; ++pair) {
        asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"(pair_target), "l"(source) : "memory");
        source += incoming.token_stride;
        pair_target += 8 * incoming.threads;
      }
      target += 8 * incoming.threads * kPairs;
    }
  } else {
    const float* source = incoming.source + first * incoming.token_stride;
#pragma unroll 2
    for (int token = 0; token < count; ++token) {
      asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(target), "l"(source) : "memory");
      source += incoming.token_stride;
      target += 4 * incoming.threads;
    }
  }
}
// Tokens 2 pair and 2 pair + 1 of what was asked for.
template <class Kernel>
__device__ __forceinline__ float2 arrived_pair(const Incoming& incoming, float factor, int planes, int first,
                                               int pair) {
  if (incoming.plane_stride == 0) {
    const auto* rows = reinterpret_cast<const float*>(incoming.target);
    return {rows[2 * pair * incoming.threads] * factor, rows[(2 * pair + 1) * incoming.threads] * factor};
  }
  const auto* arrived = reinterpret_cast<const float2*>(incoming.target) + pair * incoming.threads;
  float2 sum = arrived[0];
#pragma unroll
  for (int plane = 1; plane < Kernel::kPlanes; ++plane) {
    if (plane >= planes) break;
    const float2 more = arrived[plane * kPairs * incoming.threads];
    sum.x += more.x;
    sum.y += more.y;
  }
#pragma unroll 1
  for (int plane = Kernel::kPlanes; plane < planes; ++plane) {
    const float2 more = *reinterpret_cast<const float2*>(incoming.source + plane * incoming.plane_stride +
                                                         (first / 2 + pair) * incoming.token_stride);
    sum.x += more.x;
    sum.y += more.y;
  }
  return {sum.x * factor, sum.y * factor};
}
// z of one column of this block's slice, whose row of the product is `row`.
template <class Kernel>
__device__ __forceinline__ float arrived_gate(const ProductResult& result, const typename Kernel::Shared& shared,
                                              int row, int first, int token, int column) {
  const auto* arrived = reinterpret_cast<const float*>(shared.scratch);
  if (!result.planes) return arrived[token * Kernel::kColumns + column] * result.factor;
  const int planes = shared.gate_planes[column];
  float sum = 0.0F;
#pragma unroll 1
  for (int plane = 0; plane < planes; ++plane) {
    sum += plane < Kernel::kPlanes ? arrived[((plane * kPairs + token / 2) * Kernel::kColumns + column) * 2 + token % 2]
                                   : result.data[plane * plane_floats(result.plan, result.width) +
                                                 plane_place(result.width, row, first + token)];
  }
  return sum * result.factor;
}

// A thread block's part of the records of a verify.
struct Records {
  const float* keys;     // [token][key head][dk]
  const float* updates;  // [token][value head][this slice]
  const float* decays;   // [token][value head]
  int key_stride;
  int update_stride;
  int decay_stride;
};
template <class Kernel>
__device__ __forceinline__ Records records_of(const GdnPass& pass, int half, int head, int key_head, int slice) {
  const CudaGdnShape& shape = pass.shape;
  return {pass.memory.keys + half * gdn_key_elements(shape) + static_cast<std::int64_t>(key_head) * kGdnHead,
          pass.memory.updates + half * gdn_update_elements(shape) + static_cast<std::int64_t>(head) * kGdnHead +
              slice * Kernel::kColumns,
          pass.memory.decays + half * gdn_decay_elements(shape) + head,
          shape.key_heads * kGdnHead,
          shape.value_heads * kGdnHead,
          shape.value_heads};
}
// Asks for `count` records from `first` on, to be where `advance` reads them.
template <class Kernel>
__device__ __forceinline__ void ask_for_records(typename Kernel::Shared& shared, const Records& records, int first,
                                                int count) {
  constexpr int kKeyQuads = kGdnHead / 4;
  constexpr int kUpdateQuads = Kernel::kColumns / 4;
#pragma unroll 1
  for (int index = static_cast<int>(threadIdx.x); index < count * (kKeyQuads + kUpdateQuads);
       index += Kernel::kThreads) {
    const bool key = index < count * kKeyQuads;
    const int rest = key ? index : index - count * kKeyQuads;
    const int token = key ? rest / kKeyQuads : rest / kUpdateQuads;
    const int column = 4 * (key ? rest % kKeyQuads : rest % kUpdateQuads);
    const float* source = key ? records.keys + (first + token) * records.key_stride + column
                              : records.updates + (first + token) * records.update_stride + column;
    const float* target = key ? &shared.keys[token][column] : &shared.values[token][column];
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(ptx::shared_address(target)), "l"(source)
                 : "memory");
  }
}
}  // namespace tare::engine::gdn
