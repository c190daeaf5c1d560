// The few largest logits of a row by one thread block, exactly, from what a product left and the largest logit of each
// chunk (logit_chunks.h).
//
// Twice the same: of many numbers those that are not below a bound go to shared memory, and each of them counts how
// many are above it, which is its place. The numbers are the largest logits of the chunks, with a bound from a few of
// each warp's; then the logits of the chunks that were found, with the last of these chunks' largest as the bound. Few
// are left either time (of random logits about 55 and 40), so counting costs less than a sort, and the code is short:
// it is run once a round, out of a cold instruction cache.
#pragma once

#include "engine/cuda/device/ptx.cuh"
#include "engine/cuda/head/logit_chunks.h"
#include "engine/cuda/logit_key.cuh"
#include "engine/cuda/product/product_result.cuh"

namespace tare::engine {

constexpr int kSelectThreads = 256;
constexpr int kSelectWarps = kSelectThreads / 32;
static_assert(kSelectWarps == kChunkShares, "a warp looks at one share of the chunks");
constexpr int kMostSurvivors = 256;  // of a bound; more are found one by one

struct SelectSpace {
  LogitKey keys[kMostSurvivors];     // not below the bound
  LogitKey chunks[kMostCandidates];  // with their largest logits, falling; 0 past them
  LogitKey chosen[kMostCandidates];  // the logits, likewise
  LogitKey warp_largest[kSelectWarps];
  std::uint32_t bounds[kSelectWarps];
  int counts[2];  // of keys
  std::uint8_t planes[kMostLogitRowBlocks];
};

// What the selection needs before any logit is there: nothing of it depends on the round.
template <bool kPlanes>
__device__ __forceinline__ void prepare_selection(const ProductResult& result, const LogitCut& cut,
                                                  SelectSpace& space) {
  if (threadIdx.x < 2) space.counts[threadIdx.x] = 0;
  if constexpr (kPlanes) {
#pragma unroll 1
    for (auto block = static_cast<int>(threadIdx.x); block < cut.row_blocks; block += kSelectThreads)
      space.planes[block] = static_cast<std::uint8_t>(result.plan.planes(block));
  }
}

// Shared memory's own addition: a warp's lanes are not brought together first, as few of them come here.
__device__ __forceinline__ int add_shared(int* target, int number) {
  int before = 0;
  asm volatile("atom.shared.add.u32 %0, [%1], %2;"
               : "=r"(before)
               : "r"(ptx::shared_address(target)), "r"(number)
               : "memory");
  return before;
}
// Stores (upper, lower) as a key when upper >= least, and moves the place on, without a branch.
__device__ __forceinline__ void join_key(std::uint32_t& shared_place, std::uint32_t upper, std::uint32_t least,
                                         std::uint32_t lower) {
  asm volatile(
      "{\n\t.reg .pred p;\n\t"
      "setp.ge.u32 p, %1, %2;\n\t"
      "@p st.shared.v2.b32 [%0], {%3, %1};\n\t"
      "@p add.u32 %0, %0, 8;\n\t}"
      : "+r"(shared_place)
      : "r"(upper), "r"(least), "r"(lower)
      : "memory");
}

// Those of values that are not below the bound (0: there is none) join space.keys, unless there is no room; id_of(i):
// of values[i].
template <int kValues, class IdOf>
__device__ __forceinline__ void join_keys(const std::uint32_t (&values)[kValues], std::uint32_t bound,
                                          const IdOf& id_of, int& count, LogitKey* keys) {
  const std::uint32_t least = max(bound, 1U);
  int joining = 0;
#pragma unroll
  for (int i = 0; i < kValues; ++i) joining += values[i] >= least ? 1 : 0;
  if (joining == 0) return;
  const int place = add_shared(&count, joining);
  if (place + joining > kMostSurvivors) return;
  std::uint32_t shared_place = ptx::shared_address(keys + place);
#pragma unroll
  for (int i = 0; i < kValues; ++i) join_key(shared_place, values[i], least, ~static_cast<std::uint32_t>(id_of(i)));
}

// keys[0 .. count - 1], at most kMostSurvivors and all different, falling to ranked[kMostCandidates], 0 past them.
__device__ __forceinline__ void rank_keys(const LogitKey* keys, int count, LogitKey* ranked) {
  const auto warp = static_cast<int>(threadIdx.x / 32);
  const auto lane = static_cast<int>(threadIdx.x % 32);
  const auto key_at = [&](int i) { return i < count ? keys[i] : 0; };
  const LogitKey first = key_at(lane);
  const LogitKey second = key_at(32 + lane);
  // Two at once: one after the other their latencies add up.
#pragma unroll 1
  for (int i = warp; i < count; i += 2 * kSelectWarps) {
    const LogitKey mine[2] = {keys[i], key_at(i + kSelectWarps)};
    int above[2];
#pragma unroll
    for (int n = 0; n < 2; ++n)
      above[n] = __popc(__ballot_sync(~0U, first > mine[n])) + __popc(__ballot_sync(~0U, second > mine[n]));
#pragma unroll 1
    for (int j = 64; j < count; j += 32) {
      const LogitKey key = key_at(j + lane);
#pragma unroll
      for (int n = 0; n < 2; ++n) above[n] += __popc(__ballot_sync(~0U, key > mine[n]));
    }
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      if (lane == 0 && mine[n] != 0 && above[n] < kMostCandidates) ranked[above[n]] = mine[n];
    }
  }
  if (warp == 0 && lane >= count) ranked[lane] = 0;
}

// The same for any number of keys, one after the other: key_of(i) for i < count.
template <class KeyOf>
__device__ __noinline__ void find_one_by_one(int count, const KeyOf& key_of, LogitKey* ranked, LogitKey* warp_largest) {
  LogitKey last = ~LogitKey{0};
#pragma unroll 1
  for (int nth = 0; nth < kMostCandidates; ++nth) {
    LogitKey largest = 0;
#pragma unroll 1
    for (auto i = static_cast<int>(threadIdx.x); i < count; i += kSelectThreads) {
      const LogitKey key = key_of(i);
      if (key < last && key > largest) largest = key;
    }
#pragma unroll 1
    for (int step = 16; step > 0; step /= 2) {
      const LogitKey other = __shfl_xor_sync(~0U, largest, step);
      if (other > largest) largest = other;
    }
    if (threadIdx.x % 32 == 0) warp_largest[threadIdx.x / 32] = largest;
    __syncthreads();
#pragma unroll 1
    for (int i = 0; i < kSelectWarps; ++i) {
      if (warp_largest[i] > largest) largest = warp_largest[i];
    }
    if (threadIdx.x == 0) ranked[nth] = largest;
    last = largest;
    __syncthreads();
  }
}

// The chunks with the largest logits, to space.chunks.
__device__ __forceinline__ void select_chunks(const std::uint32_t* largest, const LogitCut& cut, int candidates,
                                              SelectSpace& space) {
  constexpr int kVectors = kChunksAShare / 32 / 4;
  const auto warp = static_cast<int>(threadIdx.x / 32);
  const auto lane = static_cast<int>(threadIdx.x % 32);
  const int first_chunk = lane * 4 * kChunkShares + warp;
  const auto chunk_of = [&](int i) { return first_chunk + (i / 4 * 32 * 4 + i % 4) * kChunkShares; };
  std::uint32_t values[4 * kVectors];
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    const uint4 four = __ldcg(reinterpret_cast<const uint4*>(largest + warp * kChunksAShare) + i * 32 + lane);
    values[4 * i] = four.x, values[4 * i + 1] = four.y, values[4 * i + 2] = four.z, values[4 * i + 3] = four.w;
  }
  std::uint32_t most = 0;
#pragma unroll
  for (int i = 0; i < 4 * kVectors; ++i) {
    if (chunk_of(i) >= cut.chunks) values[i] = 0;
    most = max(most, values[i]);
  }
  // Of each warp as many lanes' largest as make, all warps together, the number of candidates: so many chunks are not
  // below the least of them. Equal ones count once, which makes it less and keeps that true.
  std::uint32_t bound = 0;
#pragma unroll 1
  for (int i = 0; i < candidates; i += kSelectWarps) {
    bound = __reduce_max_sync(~0U, most);
    if (most == bound) most = 0;
  }
  if (lane == 0) space.bounds[warp] = bound;
  __syncthreads();
  bound = __reduce_min_sync(~0U, space.bounds[lane % kSelectWarps]);
  join_keys(values, bound, chunk_of, space.counts[0], space.keys);
  __syncthreads();
  const int count = space.counts[0];
  if (count <= kMostSurvivors) {
    rank_keys(space.keys, count, space.chunks);
  } else {
    const auto key_of = [&](int i) {
      return static_cast<LogitKey>(largest[logit_chunk_place(i)]) << 32 | ~static_cast<std::uint32_t>(i);
    };
    find_one_by_one(cut.chunks, key_of, space.chunks, space.warp_largest);
  }
  __syncthreads();
}

// The largest `candidates` (at most kMostCandidates) logits of `token`, falling, to space.chosen (0 where there are
// fewer), from the largest of each chunk, ordered_logit, as logit_chunk_place says. By kSelectThreads threads after
// prepare_selection; ends with a barrier. A logit that is no number is none.
template <bool kPlanes>
__device__ __forceinline__ void select_candidates(const ProductResult& result, const LogitCut& cut, int token,
                                                  const std::uint32_t* largest, int candidates, SelectSpace& space) {
  constexpr int kSlots = kMostCandidates / kSelectWarps;  // chunks of a warp
  constexpr int kRows = kLogitPartRows / 32;              // of a lane, 32 apart
  constexpr int kLogits = kSlots * kRows;
  const auto warp = static_cast<int>(threadIdx.x / 32);
  const auto lane = static_cast<int>(threadIdx.x % 32);
  const int chunk_rows = cut.chunk_rows();
  select_chunks(largest, cut, candidates, space);
  const auto bound = static_cast<std::uint32_t>(space.chunks[candidates - 1] >> 32);
  const std::int64_t stride = kPlanes ? plane_floats(result.plan, result.width) : 0;
  const int row_block_floats = result.width * kLogitRowBlock;
  const int of_token = token / 2 * 2 * kLogitRowBlock + token % 2;
#pragma unroll 1
  for (int part = 0; part < chunk_rows; part += kLogitPartRows) {
    int rows[kSlots];
    float sums[kLogits];
    const float* sources[kSlots];
    int planes[kSlots];  // none where there is no chunk
    int most_planes = 0;
#pragma unroll
    for (int i = 0; i < kSlots; ++i) {
      const int nth = warp + kSelectWarps * i;
      const LogitKey chunk = nth < candidates ? space.chunks[nth] : 0;
      rows[i] = id_of(chunk) * chunk_rows + part;
      const int row_block = rows[i] / kLogitRowBlock;
      if (chunk == 0 || rows[i] >= cut.rows) rows[i] = cut.rows;
      rows[i] += lane;
      planes[i] = kPlanes && rows[i] - lane < cut.rows ? space.planes[row_block] : 0;
      most_planes = max(most_planes, planes[i]);
      // A plane is less than 2^31 numbers.
      sources[i] = result.data + (kPlanes ? row_block * row_block_floats + (rows[i] % kLogitRowBlock) * 2 + of_token
                                          : token * cut.rows + rows[i]);
#pragma unroll
      for (int j = 0; j < kRows; ++j) {
        sums[kRows * i + j] = 0.0F;
        if (!kPlanes && rows[i] + 32 * j < cut.rows) sums[kRows * i + j] = __ldcg(sources[i] + 32 * j);
      }
    }
    constexpr int kBatch = 2;
#pragma unroll 1
    for (int first = 0; first < most_planes; first += kBatch) {
      float batch[kBatch][kLogits];
#pragma unroll
      for (int plane = 0; plane < kBatch; ++plane) {
#pragma unroll
        for (int i = 0; i < kSlots; ++i) {
#pragma unroll
          for (int j = 0; j < kRows; ++j) {
            batch[plane][kRows * i + j] = 0.0F;
            if (first + plane < planes[i]) batch[plane][kRows * i + j] = __ldcg(sources[i] + 2 * 32 * j);
          }
          sources[i] += stride;
        }
      }
#pragma unroll
      for (auto& plane : batch) {
#pragma unroll
        for (int i = 0; i < kLogits; ++i) sums[i] += plane[i];
      }
    }
    const auto row_of = [&](int i) { return rows[i / kRows] + i % kRows * 32; };
    std::uint32_t values[kLogits];
#pragma unroll
    for (int i = 0; i < kLogits; ++i) {
      const float logit = sums[i] * result.factor;
      values[i] = row_of(i) < cut.rows && logit == logit ? ordered_logit(logit) : 0;
    }
    join_keys(values, bound, row_of, space.counts[1], space.keys);
  }
  __syncthreads();
  const int count = space.counts[1];
  if (count <= kMostSurvivors) {
    rank_keys(space.keys, count, space.chosen);
  } else {
    const auto key_of = [&](int i) -> LogitKey {
      const LogitKey chunk = space.chunks[i / chunk_rows];
      const int row = id_of(chunk) * chunk_rows + i % chunk_rows;
      if (chunk == 0 || row >= cut.rows) return 0;
      const float logit = product_value(result, row, token);
      return logit == logit ? make_logit_key(logit, row) : 0;
    };
    find_one_by_one(candidates * chunk_rows, key_of, space.chosen, space.warp_largest);
  }
  __syncthreads();
}

}  // namespace tare::engine
