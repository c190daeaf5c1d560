// The few largest logits of a row by one thread block, from what a product left and the largest logit of each chunk.
#pragma once

#include "engine/cuda/head/logit_chunks.h"
#include "engine/cuda/logit_key.cuh"
#include "engine/cuda/product/product_result.cuh"

namespace tare::engine {

constexpr int kSelectThreads = kMostLogitChunks;
constexpr int kSelectWarps = kSelectThreads / 32;
static_assert(kSelectWarps == kMostCandidates, "a warp looks at one chunk");

struct SelectSpace {
  LogitKey keys[kSelectThreads];
  int count;
};

// Step of a sorting network: the larger of two keys goes where `larger` says.
__device__ __forceinline__ LogitKey keep_key(LogitKey mine, LogitKey other, bool larger) {
  return (mine > other) == larger ? mine : other;
}
__device__ __forceinline__ LogitKey sort_lanes(LogitKey key) {  // falling
  const auto lane = static_cast<int>(threadIdx.x % 32);
#pragma unroll 1
  for (int size = 2; size <= 32; size *= 2) {
#pragma unroll 1
    for (int stride = size / 2; stride > 0; stride /= 2) {
      const bool larger = ((lane & size) == 0) == ((lane & stride) == 0);
      key = keep_key(key, __shfl_xor_sync(~0U, key, stride), larger);
    }
  }
  return key;
}
// The 32 largest of two falling rows of lanes, falling.
__device__ __forceinline__ LogitKey merge_lanes(LogitKey mine, LogitKey more) {
  const auto lane = static_cast<int>(threadIdx.x % 32);
  const LogitKey reversed = __shfl_sync(~0U, more, 31 - lane);
  LogitKey key = mine > reversed ? mine : reversed;
#pragma unroll 1
  for (int stride = 16; stride > 0; stride /= 2) {
    key = keep_key(key, __shfl_xor_sync(~0U, key, stride), (lane & stride) == 0);
  }
  return key;
}

// The 32 largest of one key a thread, falling, to keys[0..31]. Nobody may still be reading keys.
__device__ __forceinline__ void largest_of_block(LogitKey key, LogitKey* keys) {
  const auto warp = static_cast<int>(threadIdx.x / 32);
  const auto lane = static_cast<int>(threadIdx.x % 32);
  key = sort_lanes(key);
  keys[threadIdx.x] = key;
  for (int step = kSelectWarps / 2; step > 0; step /= 2) {
    __syncthreads();
    if (warp >= step) continue;
    key = merge_lanes(key, keys[(warp + step) * 32 + lane]);
    keys[threadIdx.x] = key;
  }
  __syncthreads();
}

// Rows [begin, end) of a chunk, a warp's lanes side by side: look(first row of 32, logit of the lane's row or -inf).
template <class Look>
__device__ __forceinline__ void look_at_chunk(const ProductResult& result, int token, int begin, int end,
                                              const Look& look) {
  constexpr int kRowBlock = 256;
  constexpr int kVectors = kRowBlock / 32;
  constexpr int kPlanesAtOnce = 2;  // of 248320x5120 over 264 blocks
  const auto lane = static_cast<int>(threadIdx.x % 32);
  for (int first = begin; first < end; first += kRowBlock) {
    float logits[kVectors];
    OneFloat sums[kVectors];
    if (result.planes) {  // which have whole row blocks
      // Once for all rows: how many planes there are takes divisions, and took most of the time.
      sum_planes<kPlanesAtOnce>(result.data + plane_place(result.width, first + lane, token), 2 * 32,
                                plane_floats(result.plan, result.width), result.plan.planes(first / kRowBlock), sums);
    } else {
      const float* source = result.data + static_cast<std::int64_t>(token) * result.rows + first + lane;
#pragma unroll
      for (int i = 0; i < kVectors; ++i) sums[i].x = first + 32 * i + lane < end ? source[32 * i] : 0.0F;
    }
#pragma unroll
    for (int i = 0; i < kVectors; ++i) logits[i] = first + 32 * i + lane < end ? sums[i].x * result.factor : -INFINITY;
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      if (first + 32 * i < end) look(first + 32 * i, logits[i]);
    }
  }
}

// The largest `candidates` (at most kMostCandidates) logits of `token`, falling, to space.keys[0..31] (0 where there
// are fewer), from the largest of each chunk. By kSelectThreads threads; ends with a barrier.
__device__ __forceinline__ void select_candidates(const ProductResult& result, int token, const float* largest,
                                                  int candidates, SelectSpace& space) {
  const auto thread = static_cast<int>(threadIdx.x);
  const int warp = thread / 32;
  const auto lane = static_cast<int>(threadIdx.x % 32);
  const int chunk_rows = logit_chunk_rows(result.rows);
  const int chunk_count = logit_chunks(result.rows);
  if (thread == 0) space.count = 0;
  // Of equal chunks the first: its logits have the lower ids.
  largest_of_block(thread < chunk_count ? make_logit_key(largest[thread], thread) : 0, space.keys);
  const LogitKey chunk = space.keys[warp];
  const LogitKey last = space.keys[candidates - 1];
  const float least = last == 0 ? -INFINITY : logit_of(last);  // no candidate is below
  const bool looks = warp < candidates && chunk != 0;
  const int begin = looks ? id_of(chunk) * chunk_rows : 0;
  const int end = looks ? min(begin + chunk_rows, result.rows) : 0;
  __syncthreads();  // all have read the chunks' keys; candidates come in their place
  look_at_chunk(result, token, begin, end, [&](int first, float logit) {
    const bool chosen = first + lane < end && logit >= least;
    const unsigned all = __ballot_sync(~0U, chosen);
    if (all == 0) return;
    int place = 0;
    if (lane == 0) place = atomicAdd(&space.count, __popc(all));
    place = __shfl_sync(~0U, place, 0) + __popc(all & ((1U << lane) - 1U));
    if (chosen && place < kSelectThreads) space.keys[place] = make_logit_key(logit, first + lane);
  });
  __syncthreads();
  const int count = space.count;
  if (count <= 64) {
    if (warp == 0) {
      LogitKey key = sort_lanes(lane < count ? space.keys[lane] : 0);
      if (count > 32) key = merge_lanes(key, sort_lanes(32 + lane < count ? space.keys[32 + lane] : 0));
      space.keys[lane] = key;
    }
    __syncthreads();
    return;
  }
  LogitKey mine = 0;
  if (count <= kSelectThreads) {
    mine = thread < count ? space.keys[thread] : 0;
  } else {  // more than there is room for: each warp keeps its chunk's
    look_at_chunk(result, token, begin, end, [&](int first, float logit) {
      const LogitKey key = first + lane < end && logit >= least ? make_logit_key(logit, first + lane) : 0;
      if (__any_sync(~0U, key != 0)) mine = merge_lanes(mine, sort_lanes(key));
    });
  }
  __syncthreads();
  largest_of_block(mine, space.keys);
}

}  // namespace tare::engine
