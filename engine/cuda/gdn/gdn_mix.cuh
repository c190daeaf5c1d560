// What a token's rows go through around the recurrence: convolution and SiLU, l2 norms of q and k, gates, and the first
// half of the gated norm. `Kernel` is gdn_pass.cu's table of one kernel's sizes.
#pragma once

#include "engine/cuda/device/cluster.cuh"
#include "engine/cuda/device/quick_silu.cuh"
#include "engine/cuda/gdn/gdn_chunk.cuh"
#include "engine/cuda/gdn/gdn_inputs.cuh"
#include "engine/cuda/product/operand.cuh"

namespace tare::engine::gdn {

constexpr float kL2NormEps = 1e-6F;           // added to the sum of squares, inside the root; a literal of the model
constexpr float kSoftplusLinear = 20.0F;      // softplus(x) = x above: PyTorch's threshold
constexpr int kRowWarps = kGdnHead / kLanes;  // that share the rows of q, or of k

__device__ __forceinline__ float sum_over_warp(float x) {
#pragma unroll
  for (int step = kLanes / 2; step > 0; step /= 2) x += __shfl_xor_sync(~0U, x, step);
  return x;
}
__device__ __forceinline__ float dot(float4 x, float4 y) {
  return fmaf(x.w, y.w, fmaf(x.z, y.z, fmaf(x.y, y.y, x.x * y.x)));
}

// A token's decay and beta from its b and a; 1 and 0 past the last. constants: decay_rate, dt_bias.
__device__ __forceinline__ float decay_of(const GateInputs& inputs, const float* constants, bool real) {
  const float x = inputs.a + constants[1];
  const float softplus = x > kSoftplusLinear ? x : log1pf(expf(x));
  return real ? expf(-constants[0] * softplus) : 1.0F;
}
__device__ __forceinline__ float beta_of(const GateInputs& inputs, bool real) {
  return real ? __fdividef(1.0F, 1.0F + expf(-inputs.b)) : 0.0F;
}

// Sums over the taps of this thread's channel, then SiLU; rows from `count` up to `rows` become zero. z has taps of
// (0, 0, 0, 1) and no past.
template <class Kernel>
__device__ __forceinline__ void take_in(const GdnPass& pass, const Channel& channel, const Incoming& incoming,
                                        float4 taps, Past& past, int first, int count, int rows, float* target,
                                        int stride, float* recorded) {
  const int channels = (2 * pass.shape.key_heads + pass.shape.value_heads) * kGdnHead;
  const bool narrow = pass.memory.narrow_columns;
  const bool remembers = channel.role != Role::kGate;
  constexpr int kTokens = 2 * kPairsAtOnce;
  const auto convolve = [&](float x, float kept) {
    const float y = fmaf(taps.w, x, fmaf(taps.z, past.x[2], fmaf(taps.y, past.x[1], taps.x * past.x[0])));
    past.x[0] = past.x[1];
    past.x[1] = past.x[2];
    past.x[2] = kept;
    return y;
  };
#pragma unroll 1
  for (int from = 0; from < rows; from += 2 * kPairsAtOnce) {
    float2 pairs[kPairsAtOnce];
    read_pairs<Kernel>(pass.qkvz, channel, incoming, first, from, count, pairs);
    float x[kTokens];
    float kept[kTokens];
#pragma unroll
    for (int i = 0; i < kTokens; ++i) {
      x[i] = i % 2 == 0 ? pairs[i / 2].x : pairs[i / 2].y;
      kept[i] = remembers ? x[i] : 0.0F;
    }
    if (narrow) {
#pragma unroll
      for (float& value : kept) value = as_stored(value, true);
    }
    // Without branches between tokens while all are there, so that their chains run side by side.
    if (from + kTokens <= count) {
      float y[kTokens];
#pragma unroll
      for (int i = 0; i < kTokens; ++i) y[i] = convolve(x[i], kept[i]);
#pragma unroll
      for (int i = 0; i < kTokens; ++i) target[(from + i) * stride] = quick_silu(y[i]);
      if (recorded != nullptr) {
#pragma unroll
        for (int i = 0; i < kTokens; ++i) recorded[(from + i) * channels] = x[i];
      }
      continue;
    }
#pragma unroll
    for (int i = 0; i < kTokens; ++i) {
      const int token = from + i;
      if (token >= rows) break;
      if (token >= count) {
        target[token * stride] = 0.0F;
        continue;
      }
      target[token * stride] = quick_silu(convolve(x[i], kept[i]));
      if (recorded != nullptr) recorded[token * channels] = x[i];
    }
  }
}

// l2 norms of `rows` rows of q or of k, by the four warps that took them in; sent to the peer, and keys recorded.
template <int kSlices>
__device__ __forceinline__ void normalise(float (*vectors)[kRowStride], const std::uint64_t& rows_barrier, int slice,
                                          int rows, int count, float size, float* recorded, int recorded_stride) {
  const auto lane = static_cast<int>(threadIdx.x % kLanes);
  const auto warp = static_cast<int>(threadIdx.x / kLanes % kRowWarps);
  const std::uint32_t to_peer = kSlices == 2 ? peer_address(vectors, 1 - slice) : 0;
  const std::uint32_t peer_barrier = kSlices == 2 ? peer_address(&rows_barrier, 1 - slice) : 0;
  constexpr int kTogether = 2;  // tokens whose chains run side by side
#pragma unroll 1
  for (int first = warp; first < rows; first += kTogether * kRowWarps) {
    float4 x[kTogether];
    float sums[kTogether];
#pragma unroll
    for (int k = 0; k < kTogether; ++k) {
      const int token = first + k * kRowWarps;
      x[k] = {0.0F, 0.0F, 0.0F, 0.0F};
      if (token < rows) x[k] = *reinterpret_cast<const float4*>(vectors[token] + 4 * lane);
      sums[k] = dot(x[k], x[k]);
    }
#pragma unroll
    for (int step = kLanes / 2; step > 0; step /= 2) {
#pragma unroll
      for (int k = 0; k < kTogether; ++k) sums[k] += __shfl_xor_sync(~0U, sums[k], step);
    }
#pragma unroll
    for (int k = 0; k < kTogether; ++k) {
      const int token = first + k * kRowWarps;
      if (token >= rows) break;
      const float factor = size * rsqrtf(sums[k] + kL2NormEps);
      const float4 y{x[k].x * factor, x[k].y * factor, x[k].z * factor, x[k].w * factor};
      if constexpr (kSlices == 2) {
        send(to_peer + static_cast<std::uint32_t>(token * kRowStride + 4 * lane) * sizeof(float), y, peer_barrier);
      }
      *reinterpret_cast<float4*>(vectors[token] + 4 * lane) = y;
      if (recorded != nullptr && token < count) {
        *reinterpret_cast<float4*>(recorded + token * recorded_stride + 4 * lane) = y;
      }
    }
  }
}

// Beta, decay and scale of `count` tokens, by the last two warps; the decays are recorded. Of a tree lane n brings the
// parent of node n.
template <class Kernel>
__device__ __forceinline__ void prepare_gates(const GdnPass& pass, typename Kernel::Shared& shared,
                                              const GateInputs& inputs, int parent, float scale, int count,
                                              float* recorded) {
  const auto warp = static_cast<int>(threadIdx.x / kLanes);
  const auto lane = static_cast<int>(threadIdx.x % kLanes);
  const float* const constants = shared.gate_constants[warp % Kernel::kGateWarps];
  const float decay = decay_of(inputs, constants, lane < count);
  if (warp == Kernel::kWarps - 2) {
    if constexpr (!Kernel::kRecurrent && Kernel::kTree) {
      multiply_decays_of_nodes(shared, decay, parent, scale);
    } else if constexpr (!Kernel::kRecurrent) {
      multiply_decays(shared, decay, scale);
    }
  } else if (warp == Kernel::kWarps - 1) {
    if (recorded != nullptr && lane < count) recorded[lane * pass.shape.value_heads] = decay;
    unsigned restarts = 0;
    Scales own;
    if constexpr (Kernel::kTree) {
      own = follow_scale_of_nodes(decay, parent, count, scale, restarts);
    } else {
      own = follow_scale(decay, count, scale, restarts);
    }
    if (lane < kBlockTokens) {
      const float beta = beta_of(inputs, lane < count);
      shared.steps[lane] = {beta, own.raw, __fdividef(1.0F, own.after), own.after};
    }
    if (lane == 0) {
      shared.scale = scale;
      shared.restarts = restarts;
    }
  }
}

// Finishes the outputs of this warp's tokens warp, warp + kWarps, .. of `count`, two columns of each group of 64 a
// lane, and sends the sums of their squares over this slice to the peer.
template <class Kernel, int kSlices>
__device__ __forceinline__ void finish_outputs(typename Kernel::Shared& shared, int slice, int count) {
  constexpr int kGroups = Kernel::kColumns / kOperandGroup;
  const auto warp = static_cast<int>(threadIdx.x / kLanes);
  const auto lane = static_cast<int>(threadIdx.x % kLanes);
#pragma unroll 1
  for (int token = warp; token < count; token += Kernel::kWarps) {
    float factor = 0.0F;
    if constexpr (Kernel::kRecurrent) {
      factor = sum_over_warp(dot(*reinterpret_cast<const float4*>(&shared.keys[token][4 * lane]),
                                 *reinterpret_cast<const float4*>(&shared.queries[token][4 * lane]))) *
               shared.steps[token].after;
    }
    float sum = 0.0F;
#pragma unroll
    for (int group = 0; group < kGroups; ++group) {
      const int column = group * kOperandGroup + 2 * lane;
      auto* place = reinterpret_cast<float2*>(&shared.outputs[token][column]);
      float2 output = *place;
      if constexpr (Kernel::kRecurrent) {
        const float2 scaled_update = *reinterpret_cast<const float2*>(&shared.values[token][column]);
        output.x = fmaf(factor, scaled_update.x, output.x);
        output.y = fmaf(factor, scaled_update.y, output.y);
        *place = output;
      }
      sum = fmaf(output.y, output.y, fmaf(output.x, output.x, sum));
    }
    sum = sum_over_warp(sum);
    if (lane == 0) {
      shared.own_sums[token] = sum;
      if constexpr (kSlices == 2) {
        send(peer_address(&shared.peer_sums[token], 1 - slice), sum, peer_address(&shared.sums_barrier, 1 - slice));
      }
    }
  }
  __syncwarp();
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

}  // namespace tare::engine::gdn
