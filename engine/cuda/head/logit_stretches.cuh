// Going once over all logits that a head's product left, two tokens of a stretch (logit_chunks.h) a warp: what finds
// the largest of each chunk. The planes of 16 tokens are 20 MB, so what counts is how much is on its way, and that is
// many small thread blocks: one an SM with more loads a thread, there before the product ended, took three times as
// long (docs/method/heads.md).
#pragma once

#include "engine/cuda/device/ptx.cuh"
#include "engine/cuda/head/logit_chunks.h"
#include "engine/cuda/product/product_result.cuh"

namespace tare::engine {

constexpr int kStretchThreads = 256;
constexpr int kStretchWarps = kStretchThreads / 32;
constexpr int kStretchBlocks = 4;  // on an SM at least: more take registers that their loads need, and gained nothing

constexpr int kLaneQuads = 4;    // of two rows and two tokens
constexpr int kQuadStep = 16;    // rows from one quad of a lane to its next
constexpr int kLanesAChunk = 8;  // their quads are the part of a chunk
static_assert(kLanesAChunk * 2 * kLaneQuads == kLogitPartRows);

// Eight logits of each of two tokens; logit i is of row `row` + laid_rows(i).
struct LaneLogits {
  float of[2][2 * kLaneQuads];
  int row;
  __device__ __forceinline__ static constexpr int laid_rows(int i) { return i / 2 * kQuadStep + i % 2; }
};

[[nodiscard]] constexpr int stretch_grid(const LogitCut& cut, int pairs) {
  return (cut.stretches * pairs + kStretchWarps - 1) / kStretchWarps;
}

// Calls visitor.begin(), visitor.add(logits) once or more and visitor.finish(stretch, pair) for the warp's stretch and
// one of the token pairs first_pair .. first_pair + pairs - 1, all lanes together; lane / kLanesAChunk is the chunk of
// the stretch whose logits a lane has. Logits past the rows are whatever lies there. Waits for the preceding grid.
// kQuick: planes, and stretches of one row block.
template <bool kQuick, class Visitor>
__device__ __forceinline__ void go_over_stretch(const ProductResult& result, const LogitCut& cut, int tokens,
                                                int first_pair, int pairs, Visitor& visitor) {
  const int task = static_cast<int>(blockIdx.x) * kStretchWarps + static_cast<int>(threadIdx.x / 32);
  const auto lane = static_cast<int>(threadIdx.x % 32);
  const int stretch = task / pairs;
  const int pair = first_pair + task % pairs;
  // Of the lane's part of the stretch.
  const int row = stretch * cut.stretch_rows() + cut.chunk_rows() * (lane / kLanesAChunk) + 2 * (lane % kLanesAChunk);
  const auto add = [&](const float4(&quads)[kLaneQuads], int first) {
    LaneLogits logits;
    logits.row = first;
#pragma unroll
    for (int i = 0; i < kLaneQuads; ++i) {
      logits.of[0][2 * i] = quads[i].x, logits.of[1][2 * i] = quads[i].y;
      logits.of[0][2 * i + 1] = quads[i].z, logits.of[1][2 * i + 1] = quads[i].w;
    }
    visitor.add(logits);
  };
  if constexpr (kQuick) {
    const float* source = result.data + plane_place(result.width, row, 2 * pair);
    const std::int64_t stride = plane_floats(result.plan, result.width);
    const int planes = stretch < cut.stretches ? result.plan.planes(stretch) : 0;
    ptx::wait_for_preceding_grid();
    if (planes == 0) return;
    float4 quads[kLaneQuads];
#pragma unroll
    for (int i = 0; i < kLaneQuads; ++i) quads[i] = __ldcg(reinterpret_cast<const float4*>(source + 2 * kQuadStep * i));
#pragma unroll 1
    for (int plane = 1; plane < planes; ++plane) {
      source += stride;
      float4 more[kLaneQuads];
#pragma unroll
      for (int i = 0; i < kLaneQuads; ++i)
        more[i] = __ldcg(reinterpret_cast<const float4*>(source + 2 * kQuadStep * i));
#pragma unroll
      for (int i = 0; i < kLaneQuads; ++i)
        quads[i].x += more[i].x, quads[i].y += more[i].y, quads[i].z += more[i].z, quads[i].w += more[i].w;
    }
#pragma unroll
    for (float4& quad : quads)
      quad = {quad.x * result.factor, quad.y * result.factor, quad.z * result.factor, quad.w * result.factor};
    visitor.begin();
    add(quads, row);
  } else {
    ptx::wait_for_preceding_grid();
    if (stretch >= cut.stretches) return;
    visitor.begin();
#pragma unroll 1
    for (int part = 0; part < cut.parts; ++part) {
      float4 quads[kLaneQuads];
      const int first = row + part * kLogitPartRows;
#pragma unroll
      for (int i = 0; i < 2 * kLaneQuads; ++i) {
        const int at = first + LaneLogits::laid_rows(i);
        const float2 two = at < cut.rows ? product_pair(result, at, pair, tokens) : float2{0.0F, 0.0F};
        if (i % 2 == 0) {
          quads[i / 2].x = two.x, quads[i / 2].y = two.y;
        } else {
          quads[i / 2].z = two.x, quads[i / 2].w = two.y;
        }
      }
      add(quads, first);
    }
  }
  visitor.finish(stretch, pair);
}
[[nodiscard]] inline bool is_quick(const ProductResult& result, const LogitCut& cut) {
  return result.planes && cut.parts == 1;
}

// Lane 2 n + i of a warp has the larger, or the sum, of its own and its neighbour's value i: half the exchanges that
// come after.
__device__ __forceinline__ float share_larger(const float (&values)[2]) {
  const bool second = threadIdx.x % 2 != 0;
  const float theirs = __shfl_xor_sync(~0U, second ? values[0] : values[1], 1);
  return fmaxf(second ? values[1] : values[0], theirs);
}
__device__ __forceinline__ float share_sum(const float (&values)[2]) {
  const bool second = threadIdx.x % 2 != 0;
  const float theirs = __shfl_xor_sync(~0U, second ? values[0] : values[1], 1);
  return (second ? values[1] : values[0]) + theirs;
}
// Of token lane % 2, in all lanes of a chunk.
__device__ __forceinline__ float largest_of_chunk(const float (&values)[2]) {
  float largest = share_larger(values);
  largest = fmaxf(largest, __shfl_xor_sync(~0U, largest, 2));
  return fmaxf(largest, __shfl_xor_sync(~0U, largest, 4));
}

}  // namespace tare::engine
