// The most likely tokens of each row, exactly, in two kernels and without writing a logit: the first leaves the largest
// logit of each chunk of the vocabulary, and the sum of exponentials; the k largest logits then lie in the k chunks
// with the largest ones, and only those are looked at again.
#include "engine/cuda/device/launch.cuh"
#include "engine/cuda/device/ptx.cuh"
#include "engine/cuda/drafter/drafter_kernels.h"
#include "engine/cuda/product/product_result.cuh"

namespace tare::engine {
namespace {

using Key = unsigned long long;

constexpr int kRowBlock = 256;
constexpr float kLog2E = 1.44269504F;

constexpr int kChunkThreads = 256;
constexpr int kChunkWarps = kChunkThreads / 32;
constexpr int kQuads = kRowBlock / 64;  // a lane has two neighbouring rows of 64
constexpr int kPlaneBatch = 2;          // planes of 248320x5120 over 264 blocks

constexpr int kSelectThreads = kMostDraftChunks;
constexpr int kVectors = kRowBlock / 32;

// Orders like the logit, ties by the lower id; never 0 for a number.
__device__ __forceinline__ Key make_key(float logit, int id) {
  const std::uint32_t bits = __float_as_uint(logit == 0.0F ? 0.0F : logit);  // -0 ties with 0
  const std::uint32_t ordered = (bits & 0x8000'0000U) != 0 ? ~bits : bits | 0x8000'0000U;
  return (static_cast<Key>(ordered) << 32) | ~static_cast<std::uint32_t>(id);
}
__device__ __forceinline__ int id_of(Key key) {
  return static_cast<int>(~static_cast<std::uint32_t>(key & 0xFFFF'FFFFULL));
}
__device__ __forceinline__ float logit_of(Key key) {
  const auto ordered = static_cast<std::uint32_t>(key >> 32);
  return __uint_as_float((ordered & 0x8000'0000U) != 0 ? ordered & 0x7FFF'FFFFU : ~ordered);
}

// A lane's share of one row of logits.
struct RowSum {
  Key best = 0;
  float largest = -INFINITY;
  float sum = 0.0F;  // NaN when a logit is not finite

  __device__ __forceinline__ void add(const float (&logits)[2 * kQuads], int first_id, int vocab, float factor) {
    float most = largest;
    bool finite = true;
#pragma unroll
    for (int i = 0; i < 2 * kQuads; ++i) {
      const int id = first_id + i / 2 * 64 + i % 2;
      if (id >= vocab) continue;
      finite = finite && isfinite(logits[i]);
      const Key key = make_key(logits[i], id);
      if (key > best) best = key;
      most = fmaxf(most, logits[i]);
    }
    if (!finite) sum = NAN;
    if (most == -INFINITY) return;
    sum *= exp2f((largest - most) * factor);
#pragma unroll
    for (int i = 0; i < 2 * kQuads; ++i) {
      if (first_id + i / 2 * 64 + i % 2 < vocab) sum += exp2f((logits[i] - most) * factor);
    }
    largest = most;
  }
  __device__ __forceinline__ void merge_lanes(float factor) {
    float most = largest;
    for (int step = 16; step > 0; step /= 2) {
      most = fmaxf(most, __shfl_xor_sync(~0U, most, step));
      const Key other = __shfl_xor_sync(~0U, best, step);
      if (other > best) best = other;
    }
    if (largest != -INFINITY) sum *= exp2f((largest - most) * factor);
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(~0U, sum, step);
  }
};

// A warp has one chunk of two rows of the block.
__global__ void __launch_bounds__(kChunkThreads)
    draft_chunks_kernel(const __grid_constant__ ProductResult head, int block, const DraftControl* control,
                        const __grid_constant__ DraftChunks chunks, int chunk_rows) {
  ptx::launch_dependents();
  const int pairs = (block + 1) / 2;
  const int task = static_cast<int>(blockIdx.x) * kChunkWarps + static_cast<int>(threadIdx.x) / 32;
  const auto lane = static_cast<int>(threadIdx.x % 32);
  const int pair = task % pairs;
  const int chunk = task / pairs;
  const int begin = chunk * chunk_rows;
  const int end = min(begin + chunk_rows, head.rows);
  const float factor = control->inverse_temperature * kLog2E;
  ptx::wait_for_preceding_grid();
  if (begin >= end) return;

  RowSum rows[2];
  for (int first = begin; first < end; first += kRowBlock) {
    float logits[2][2 * kQuads];
    const int first_id = first + 2 * lane;
    if (head.planes) {
      const int plane_count = head.plan.planes(first / kRowBlock);
      float4 quads[kQuads];
#pragma unroll
      for (int i = 0; i < kQuads; ++i) {
        quads[i] = product_quad<kPlaneBatch>(head, plane_count, first_id + 64 * i, pair);
      }
#pragma unroll
      for (int i = 0; i < kQuads; ++i) {
        logits[0][2 * i] = quads[i].x;
        logits[1][2 * i] = quads[i].y;
        logits[0][2 * i + 1] = quads[i].z;
        logits[1][2 * i + 1] = quads[i].w;
      }
    } else {
      for (int i = 0; i < 2 * kQuads; ++i) {
        const int id = first_id + i / 2 * 64 + i % 2;
        const float2 two = id < end ? product_pair(head, id, pair, block) : float2{0.0F, 0.0F};
        logits[0][i] = two.x;
        logits[1][i] = two.y;
      }
    }
    rows[0].add(logits[0], first_id, end, factor);
    rows[1].add(logits[1], first_id, end, factor);
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    rows[i].merge_lanes(factor);
    const int row = 2 * pair + i;
    if (lane != 0 || row < 1 || row >= block) continue;
    chunks.best[row * kMostDraftChunks + chunk] = rows[i].best;
    chunks.sums[row * kMostDraftChunks + chunk] = rows[i].sum;
  }
}

// Step of a sorting network: the larger of two keys goes where `larger` says.
__device__ __forceinline__ Key keep_key(Key mine, Key other, bool larger) {
  return (mine > other) == larger ? mine : other;
}
__device__ __forceinline__ Key sort_lanes(Key key) {  // falling
  const auto lane = static_cast<int>(threadIdx.x % 32);
#pragma unroll
  for (int size = 2; size <= 32; size *= 2) {
#pragma unroll
    for (int stride = size / 2; stride > 0; stride /= 2) {
      const bool larger = ((lane & size) == 0) == ((lane & stride) == 0);
      key = keep_key(key, __shfl_xor_sync(~0U, key, stride), larger);
    }
  }
  return key;
}
// The 32 largest of two falling rows of lanes, falling.
__device__ __forceinline__ Key merge_lanes(Key mine, Key more) {
  const auto lane = static_cast<int>(threadIdx.x % 32);
  const Key reversed = __shfl_sync(~0U, more, 31 - lane);
  Key key = mine > reversed ? mine : reversed;
#pragma unroll
  for (int stride = 16; stride > 0; stride /= 2) {
    key = keep_key(key, __shfl_xor_sync(~0U, key, stride), (lane & stride) == 0);
  }
  return key;
}
// One key a thread, falling; `keys` is shared memory for all of them. Ends with a barrier after its last use of it.
__device__ __forceinline__ Key sort_block(Key key, Key* keys) {
  const auto thread = static_cast<int>(threadIdx.x);
  for (int size = 2; size <= kSelectThreads; size *= 2) {
    for (int stride = size / 2; stride > 0; stride /= 2) {
      const bool larger = ((thread & size) == 0) == ((thread & stride) == 0);
      if (stride < 32) {
        key = keep_key(key, __shfl_xor_sync(~0U, key, stride), larger);
        continue;
      }
      keys[thread] = key;
      __syncthreads();
      const Key other = keys[thread ^ stride];
      __syncthreads();
      key = keep_key(key, other, larger);
    }
  }
  return key;
}

// A warp's look at one chunk: its 32 largest keys that are no less than `least`, falling; 0 where there are none.
__device__ __forceinline__ Key select_of_chunk(const ProductResult& head, int row, int begin, int end, Key least) {
  const auto lane = static_cast<int>(threadIdx.x % 32);
  Key list = 0;
  for (int first = begin; first < end; first += kRowBlock) {
    Key keys[kVectors];
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      const int id = first + 32 * i + lane;
      keys[i] = id < end ? make_key(product_value(head, id, row), id) : 0;
    }
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      const Key key = keys[i] >= least ? keys[i] : 0;
      if (__any_sync(~0U, key != 0)) list = merge_lanes(list, sort_lanes(key));
    }
  }
  return list;
}

__global__ void __launch_bounds__(kSelectThreads)
    draft_candidates_kernel(const __grid_constant__ ProductResult head, const DraftControl* control,
                            const __grid_constant__ DraftChunks chunks, int chunk_rows, int chunk_count,
                            volatile DraftOutcome* outcome) {
  constexpr int kWarps = kSelectThreads / 32;
  __shared__ Key keys[kSelectThreads];
  __shared__ float warp_sums[kWarps];
  const auto thread = static_cast<int>(threadIdx.x);
  const int warp = thread / 32;
  const int row = static_cast<int>(blockIdx.x) + 1;
  const int candidates = control->candidates;
  const float inverse_temperature = control->inverse_temperature;
  ptx::wait_for_preceding_grid();

  const bool real = thread < chunk_count;
  const Key best = real ? chunks.best[row * kMostDraftChunks + thread] : 0;
  const float chunk_sum = real ? chunks.sums[row * kMostDraftChunks + thread] : 0.0F;
  const Key sorted = sort_block(best, keys);
  keys[thread] = sorted;
  __syncthreads();
  const float largest = logit_of(keys[0]);
  const Key least = keys[candidates - 1];  // 0 where there are fewer chunks
  const Key of_warp = keys[warp];

  float sum = real ? chunk_sum * exp2f((logit_of(best) - largest) * inverse_temperature * kLog2E) : 0.0F;
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(~0U, sum, step);
  if (thread % 32 == 0) warp_sums[warp] = sum;

  Key list = 0;
  if (warp < candidates && of_warp != 0) {
    const int begin = id_of(of_warp) / chunk_rows * chunk_rows;
    list = select_of_chunk(head, row, begin, min(begin + chunk_rows, head.rows), least);
  }
  __syncthreads();  // all have read keys and written warp_sums
  const Key chosen = sort_block(list, keys);
  if (thread >= candidates) return;
  float total = 0.0F;
  for (int i = 0; i < kWarps; ++i) total += warp_sums[i];
  outcome->tokens[row][thread] = id_of(chosen);
  outcome->log_probabilities[row][thread] = (logit_of(chosen) - largest) * inverse_temperature - logf(total);
  if (thread == 0) outcome->fault[row] = isfinite(total) ? 0 : 1;
}

}  // namespace

void launch_draft_chunks(const ProductResult& head, int block, const DraftControl* control, const DraftChunks& chunks,
                         const CudaLaunch& launch) {
  const int tasks = draft_chunks(head.rows) * ((block + 1) / 2);
  launch_kernel("draft_chunks", draft_chunks_kernel,
                {.blocks = (tasks + kChunkWarps - 1) / kChunkWarps, .threads = kChunkThreads}, launch, head, block,
                control, chunks, draft_chunk_rows(head.rows));
}

void launch_draft_candidates(const ProductResult& head, int block, const DraftControl* control,
                             const DraftChunks& chunks, DraftOutcome* outcome, const CudaLaunch& launch) {
  launch_kernel("draft_candidates", draft_candidates_kernel, {.blocks = block - 1, .threads = kSelectThreads}, launch,
                head, control, chunks, draft_chunk_rows(head.rows), draft_chunks(head.rows), outcome);
}

}  // namespace tare::engine
