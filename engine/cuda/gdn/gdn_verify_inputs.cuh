// What the tokens of a verify (gdn_verify.cuh) go through before the chunk's products: planes into registers, the
// convolution of a chain or of a tree, keys and queries as halves for both thread blocks of a head, z's planes.
// `Kernel` is gdn_verify.cuh's table of sizes.
#pragma once

#include "engine/cuda/device/cluster.cuh"
#include "engine/cuda/device/quick_silu.cuh"
#include "engine/cuda/gdn/gdn_inputs.cuh"
#include "engine/cuda/gdn/gdn_mix.cuh"
#include "engine/cuda/gdn/gdn_tree.cuh"
#include "engine/cuda/gdn/gdn_verify_products.cuh"

namespace tare::engine::gdn {

constexpr int kTokenPairs = kBlockTokens / 2;

// This thread's channel of all 16 tokens; what is past the last one is anything. All planes are asked for before one is
// looked at, so that a block waits for one trip to L2: 96 registers.
__device__ __forceinline__ void read_tokens(const ProductResult& result, const Channel& channel,
                                            const Incoming& incoming, int count, float (&x)[kBlockTokens]) {
#pragma unroll
  for (float& one : x) one = 0.0F;
  if (!channel.real) return;
  if (incoming.plane_stride == 0) {
#pragma unroll
    for (int token = 0; token < kBlockTokens; ++token) {
      if (token < count) x[token] = __ldcg(incoming.source + static_cast<std::int64_t>(token) * incoming.row_stride);
    }
  } else {
    const bool wide = result.width > kBlockTokens / 2;
    float2 parts[kPlanesAtOnce][kTokenPairs];
    const float* of_plane = incoming.source;
#pragma unroll
    for (int plane = 0; plane < kPlanesAtOnce; ++plane) {
#pragma unroll
      for (int pair = 0; pair < kTokenPairs; ++pair) {
        parts[plane][pair] = {0.0F, 0.0F};
        if (plane < channel.planes && (pair < kTokenPairs / 2 || wide)) {
          parts[plane][pair] = __ldcg(reinterpret_cast<const float2*>(of_plane + pair * kPairStride));
        }
      }
      of_plane += incoming.plane_stride;
    }
#pragma unroll
    for (int pair = 0; pair < kTokenPairs; ++pair) {
      float2 sum = parts[0][pair];
#pragma unroll
      for (int plane = 1; plane < kPlanesAtOnce; ++plane) {
        sum.x += parts[plane][pair].x;
        sum.y += parts[plane][pair].y;
      }
      x[2 * pair] = sum.x;
      x[2 * pair + 1] = sum.y;
    }
#pragma unroll 1
    for (int plane = kPlanesAtOnce; plane < channel.planes; ++plane) {
#pragma unroll
      for (int pair = 0; pair < kTokenPairs; ++pair) {
        if (pair >= kTokenPairs / 2 && !wide) break;
        const float2 more = __ldcg(reinterpret_cast<const float2*>(of_plane + pair * kPairStride));
        x[2 * pair] += more.x;
        x[2 * pair + 1] += more.y;
      }
      of_plane += incoming.plane_stride;
    }
  }
#pragma unroll
  for (float& one : x) one *= result.factor;
}

// The convolution and SiLU of a chain: its inputs before are in registers. Of all 16 rows, so that no branch keeps the
// tokens' chains from running side by side; what is past the last token is anything.
__device__ __forceinline__ void convolve_chain(const float (&x)[kBlockTokens], float4 taps, const Past& past,
                                               bool narrow, float* target, int stride) {
  float kept[kBlockTokens];
#pragma unroll
  for (int i = 0; i < kBlockTokens; ++i) kept[i] = x[i];
  if (narrow) {
#pragma unroll
    for (float& one : kept) one = as_stored(one, true);
  }
  const auto before = [&](int i) { return i < 0 ? past.x[i + kGdnPast] : kept[i]; };
#pragma unroll
  for (int i = 0; i < kBlockTokens; ++i) {
    const float y =
        fmaf(taps.w, x[i], fmaf(taps.z, before(i - 1), fmaf(taps.y, before(i - 2), taps.x * before(i - 3))));
    target[i * stride] = quick_silu(y);
  }
}

// The same of a tree, with the same operations: a node's inputs before it are found in the thread's column `kept` of
// shared memory, the committed ones in its first rows. A node's own waits where its result will be.
template <int kKeptStride>
__device__ __forceinline__ void convolve_nodes(const float (&x)[kBlockTokens], float4 taps, const Past& past,
                                               bool narrow, const uchar4* windows, float* kept, float* target,
                                               int stride) {
#pragma unroll
  for (int i = 0; i < kGdnPast; ++i) kept[i * kKeptStride] = past.x[i];
#pragma unroll
  for (int i = 0; i < kBlockTokens; ++i) {
    kept[(kGdnPast + i) * kKeptStride] = as_stored(x[i], narrow);
    target[i * stride] = x[i];
  }
  constexpr int kTogether = 4;
#pragma unroll 1
  for (int first = 0; first < kBlockTokens; first += kTogether) {
    float y[kTogether];
#pragma unroll
    for (int i = 0; i < kTogether; ++i) {
      const uchar4 window = windows[first + i];
      y[i] = fmaf(taps.w, target[i * stride],
                  fmaf(taps.z, kept[window.x * kKeptStride],
                       fmaf(taps.y, kept[window.y * kKeptStride], taps.x * kept[window.z * kKeptStride])));
    }
#pragma unroll
    for (int i = 0; i < kTogether; ++i) target[i * stride] = quick_silu(y[i]);
    target += kTogether * stride;
  }
}

// Tokens' rows as halves times powers of two, [16 keys, 16 queries]; `inverses` undoes the powers.
struct TokenRows {
  HalfRows<kTokenRows> halves;
  float inverses[kTokenRows];
};
constexpr int kBytesFromPeer =
    kBlockTokens * (2 * kGdnHead * static_cast<int>(sizeof(__half)) + static_cast<int>(sizeof(float)));

// Of numbers that are neither tiny nor huge: one instruction.
__device__ __forceinline__ float quick_rsqrt(float x) {
  float y = 0.0F;
  asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// By the four warps that took in q or k, whose 16 rows lie in `vectors`: l2 norms times `size`, as halves here and at
// the peer; keys are recorded. Rows from `count` on become zero. Half a warp has a token, a lane eight channels.
__device__ __forceinline__ void normalise_halves(const float (*vectors)[kRowStride], TokenRows& tokens, int first_row,
                                                 const std::uint64_t& rows_barrier, int peer, int count, float size,
                                                 float* recorded, int recorded_stride) {
  constexpr int kHalfWarp = kLanes / 2;
  const auto lane = static_cast<int>(threadIdx.x % kHalfWarp);
  const std::uint32_t barrier = peer_address(&rows_barrier, peer);
#pragma unroll 1
  for (auto token = static_cast<int>(threadIdx.x % kGdnHead / kHalfWarp); token < kBlockTokens;
       token += kGdnHead / kHalfWarp) {
    const bool real = token < count;
    float x[8];
    float sum = 0.0F;
#pragma unroll
    for (int quad = 0; quad < 2; ++quad) {
      float4 four{0.0F, 0.0F, 0.0F, 0.0F};
      if (real) four = *reinterpret_cast<const float4*>(vectors[token] + 8 * lane + 4 * quad);
      sum += dot(four, four);
      x[4 * quad] = four.x;
      x[4 * quad + 1] = four.y;
      x[4 * quad + 2] = four.z;
      x[4 * quad + 3] = four.w;
    }
#pragma unroll
    for (int step = kHalfWarp / 2; step > 0; step /= 2) sum += __shfl_xor_sync(~0U, sum, step);
    const float factor = size * quick_rsqrt(sum + kL2NormEps);
    // No element is larger than the row's norm n, and n^2 < 2^(b + 1) of its biased exponent b less the bias.
    const auto biased = static_cast<int>(__float_as_uint(sum * factor * factor) >> 23);
    const int exponent = kTokenExponent - ((biased + 2 - kBias) >> 1);
    const float scale = power_of_two(kBias + exponent);
    const float inverse = power_of_two(kBias - exponent);
    uint2 high[2];
    uint2 low[2];
#pragma unroll
    for (int quad = 0; quad < 2; ++quad) {
      float* const own = x + 4 * quad;
#pragma unroll
      for (int i = 0; i < 4; ++i) own[i] *= factor;
      const HalfQuad four = split_halves({own[0] * scale, own[1] * scale, own[2] * scale, own[3] * scale});
      high[quad] = four.high;
      low[quad] = four.low;
    }
    const auto together = [](const uint2(&two)[2]) {
      return float4{__uint_as_float(two[0].x), __uint_as_float(two[0].y), __uint_as_float(two[1].x),
                    __uint_as_float(two[1].y)};
    };
    auto* const to_high = reinterpret_cast<float4*>(&tokens.halves.high[first_row + token][8 * lane]);
    auto* const to_low = reinterpret_cast<float4*>(&tokens.halves.low[first_row + token][8 * lane]);
    send(peer_address(to_high, peer), together(high), barrier);
    send(peer_address(to_low, peer), together(low), barrier);
    *to_high = together(high);
    *to_low = together(low);
    if (lane == 0) {
      send(peer_address(&tokens.inverses[first_row + token], peer), inverse, barrier);
      tokens.inverses[first_row + token] = inverse;
    }
    if (recorded != nullptr && real) {
      auto* const to_record = reinterpret_cast<float4*>(recorded + token * recorded_stride + 8 * lane);
      to_record[0] = {x[0], x[1], x[2], x[3]};
      to_record[1] = {x[4], x[5], x[6], x[7]};
    }
  }
}

// Planes of z, [plane][token / 2][column][token % 2], on their way while other things are found: what is needed last
// comes last. Lane l has columns 2 l and 2 l + 1 of the slice.
using GatePlanes = float2[kPlanesAtOnce][kTokenPairs][kSliceColumns];
// Column 2 l of token 0, its planes (0: the column does not exist).
struct IncomingZ {
  const float* source;
  int planes;
};
__device__ __forceinline__ IncomingZ incoming_z(const CudaGdnShape& shape, const ProductResult& result,
                                                const Constants& constants, int head, int slice) {
  const auto lane = static_cast<int>(threadIdx.x % kLanes);
  const int column = slice * kSliceColumns + 2 * lane;
  const bool real = column < shape.dv;
  const int row = shape.channels() + head * shape.dv + (real ? column : 0);
  if (!result.planes) return {result.data + row, real ? 1 : 0};
  return {result.data + plane_place(result.width, row, 0), real ? constants.planes[row / 256] : 0};
}
// By two warps, `warp` 0 and 1: of every other pair of tokens.
__device__ __forceinline__ void ask_for_z(const ProductResult& result, const IncomingZ& incoming, int plane_stride,
                                          int warp, const GatePlanes& arrived) {
  if (!result.planes) return;
  const auto lane = static_cast<int>(threadIdx.x % kLanes);
  const float* source = incoming.source + warp * kPairStride;
#pragma unroll 1
  for (int plane = 0; plane < min(incoming.planes, kPlanesAtOnce); ++plane) {
#pragma unroll
    for (int k = 0; k < kTokenPairs / 2; ++k) {
      const int pair = 2 * k + warp;
      if (2 * pair < result.width) copy_async<16>(&arrived[plane][pair][2 * lane].x, source + 2 * k * kPairStride);
    }
    source += plane_stride;
  }
}
// Adds what is not among the planes that were asked for: further planes, in order, or plain rows.
__device__ __forceinline__ void add_other_z(const ProductResult& result, const IncomingZ& incoming, int pair, int count,
                                            float4& sum) {
  if (result.planes) {
    const std::int64_t stride = plane_floats(result.plan, result.width);
#pragma unroll 1
    for (int plane = kPlanesAtOnce; plane < incoming.planes && 2 * pair < result.width; ++plane) {
      const float4 more =
          __ldcg(reinterpret_cast<const float4*>(incoming.source + plane * stride + pair * kPairStride));
      sum = {sum.x + more.x, sum.y + more.y, sum.z + more.z, sum.w + more.w};
    }
    return;
  }
  if (incoming.planes == 0) return;
  const float* const source = incoming.source + 2 * pair * static_cast<std::int64_t>(result.rows);
  if (2 * pair < count) sum.x = source[0], sum.z = source[1];
  if (2 * pair + 1 < count) sum.y = source[result.rows], sum.w = source[result.rows + 1];
}
// Puts silu(z) times the norm's gain of tokens 2 pair and 2 pair + 1 where their first plane was.
__device__ __forceinline__ void finish_z(const ProductResult& result, const IncomingZ& incoming, int pair, int count,
                                         float2 gain, GatePlanes& arrived) {
  const auto lane = static_cast<int>(threadIdx.x % kLanes);
  auto& place = *reinterpret_cast<float4*>(&arrived[0][pair][2 * lane]);
  const int planes = result.planes ? incoming.planes : 0;
  float4 parts[kPlanesAtOnce];  // all read, so that they come together; what is past the last plane is anything
#pragma unroll
  for (int plane = 0; plane < kPlanesAtOnce; ++plane) {
    parts[plane] = *reinterpret_cast<const float4*>(&arrived[plane][pair][2 * lane]);
  }
  float4 sum{0.0F, 0.0F, 0.0F, 0.0F};  // by column, then token
#pragma unroll
  for (int plane = 0; plane < kPlanesAtOnce; ++plane) {
    const bool there = plane < planes;
    sum.x += there ? parts[plane].x : 0.0F;
    sum.y += there ? parts[plane].y : 0.0F;
    sum.z += there ? parts[plane].z : 0.0F;
    sum.w += there ? parts[plane].w : 0.0F;
  }
  if (!result.planes || planes > kPlanesAtOnce) add_other_z(result, incoming, pair, count, sum);
  place = {gain.x * quick_silu(sum.x * result.factor), gain.x * quick_silu(sum.y * result.factor),
           gain.y * quick_silu(sum.z * result.factor), gain.y * quick_silu(sum.w * result.factor)};
}

// Decays of the 16 tokens along their paths, by one warp of which lane n < 16 brings decay and parent of token n: d of
// gdn_chunk.cuh, and e = `scale` times the whole path's. Paths double their length at each of four steps, so a chain
// and a tree take the same time. Lane l has row l % 16, columns 8 (l / 16) and on.
__device__ __forceinline__ void find_decays(float (*decays)[kBlockTokens], float* from_start, float decay, int parent,
                                            float scale) {
  const auto lane = static_cast<int>(threadIdx.x % kLanes);
  const int row = lane % kBlockTokens;
  const int half = lane / kBlockTokens;
  constexpr int kOwn = kBlockTokens / 2;
  float product = __shfl_sync(~0U, decay, row);  // over the nodes from this one up to the ancestor, without it
  int ancestor = __shfl_sync(~0U, parent, row);
  float own[kOwn];
#pragma unroll
  for (int c = 0; c < kOwn; ++c) own[c] = half * kOwn + c == row ? 1.0F : 0.0F;
#pragma unroll 1
  for (int length = 1; length < kBlockTokens; length *= 2) {
    const bool exists = ancestor >= 0;
    const int source = half * kBlockTokens + (exists ? ancestor : row);
    const float factor = exists ? product : 0.0F;
#pragma unroll
    for (float& one : own) one = fmaf(factor, __shfl_sync(~0U, one, source), one);
    const float further = __shfl_sync(~0U, product, source);
    const int next = __shfl_sync(~0U, ancestor, source);
    product *= exists ? further : 1.0F;
    ancestor = exists ? next : ancestor;
  }
  auto* const target = reinterpret_cast<float4*>(&decays[row][half * kOwn]);
  target[0] = {own[0], own[1], own[2], own[3]};
  target[1] = {own[4], own[5], own[6], own[7]};
  if (half == 0) from_start[row] = scale * product;
}

}  // namespace tare::engine::gdn
