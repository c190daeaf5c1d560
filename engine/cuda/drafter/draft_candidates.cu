// The most likely tokens of each row, exactly, in two kernels and without writing a logit: the first leaves the largest
// logit of each chunk of the vocabulary, and the sum of exponentials; the k largest logits then lie in the k chunks
// with the largest ones, and only those are looked at again.
#include "engine/cuda/device/launch.cuh"
#include "engine/cuda/device/ptx.cuh"
#include "engine/cuda/drafter/drafter_kernels.h"
#include "engine/cuda/head/logit_selection.cuh"
#include "engine/cuda/product/product_result.cuh"

namespace tare::engine {
namespace {

constexpr int kRowBlock = 256;
constexpr float kLog2E = 1.44269504F;

constexpr int kChunkThreads = 256;
constexpr int kChunkWarps = kChunkThreads / 32;
constexpr int kQuads = kRowBlock / 64;  // a lane has two neighbouring rows of 64
constexpr int kPlaneBatch = 2;          // planes of 248320x5120 over 264 blocks

// A lane's share of one row of logits.
struct RowSum {
  float largest = -INFINITY;
  float sum = 0.0F;  // NaN when a logit is not finite

  __device__ __forceinline__ void add(const float (&logits)[2 * kQuads], int first_id, int vocab, float factor) {
    float most = largest;
    float zeros = 0.0F;  // NaN when one is not finite
#pragma unroll
    for (int i = 0; i < 2 * kQuads; ++i) {
      if (first_id + i / 2 * 64 + i % 2 >= vocab) continue;
      most = fmaxf(most, logits[i]);
      zeros = fmaf(logits[i], 0.0F, zeros);
    }
    sum += zeros;
    if (most == -INFINITY) return;
    sum *= exp2f((largest - most) * factor);
#pragma unroll
    for (int i = 0; i < 2 * kQuads; ++i) {
      if (first_id + i / 2 * 64 + i % 2 < vocab) sum += exp2f((logits[i] - most) * factor);
    }
    largest = most;
  }
  __device__ __forceinline__ void merge(float factor) {
    float most = largest;
    for (int step = 16; step > 0; step /= 2) most = fmaxf(most, __shfl_xor_sync(~0U, most, step));
    if (largest != -INFINITY) sum *= exp2f((largest - most) * factor);
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(~0U, sum, step);
    largest = most;
  }
};

// A warp has one chunk of two rows of the block.
__global__ void __launch_bounds__(kChunkThreads)
    draft_chunks_kernel(const __grid_constant__ ProductResult head, int tokens,
                        const __grid_constant__ DraftRows rows_of, const DraftControl* control,
                        const __grid_constant__ DraftChunks chunks) {
  ptx::launch_dependents();
  const int first_row = rows_of.of_last_feature ? control->features - 1 : rows_of.first;
  const int pairs = rows_of.pairs();
  const int task = static_cast<int>(blockIdx.x) * kChunkWarps + static_cast<int>(threadIdx.x) / 32;
  const auto lane = static_cast<int>(threadIdx.x % 32);
  const int pair = first_row / 2 + task % pairs;
  const int chunk = task / pairs;
  const int chunk_rows = logit_chunk_rows(head.rows);
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
      product_quads<kPlaneBatch, 64>(head, plane_count, first_id, pair, quads);
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
        const float2 two = id < end ? product_pair(head, id, pair, tokens) : float2{0.0F, 0.0F};
        logits[0][i] = two.x;
        logits[1][i] = two.y;
      }
    }
    rows[0].add(logits[0], first_id, end, factor);
    rows[1].add(logits[1], first_id, end, factor);
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    rows[i].merge(factor);
    const int nth = 2 * pair + i - first_row;
    if (lane != 0 || nth < 0 || nth >= rows_of.count) continue;
    const int row = rows_of.out + nth;
    chunks.largest[row * kMostLogitChunks + chunk] = rows[i].largest;
    chunks.sums[row * kMostLogitChunks + chunk] = rows[i].sum;
  }
}

__global__ void __launch_bounds__(kSelectThreads)
    draft_candidates_kernel(const __grid_constant__ ProductResult head, const __grid_constant__ DraftRows rows_of,
                            const DraftControl* control, const __grid_constant__ DraftChunks chunks,
                            const __grid_constant__ DraftChain chain, volatile DraftOutcome* outcome) {
  __shared__ SelectSpace select;
  __shared__ float warp_sums[kSelectWarps];
  const auto thread = static_cast<int>(threadIdx.x);
  const int row = rows_of.out + static_cast<int>(blockIdx.x);
  const int token = (rows_of.of_last_feature ? control->features - 1 : rows_of.first) + static_cast<int>(blockIdx.x);
  const int candidates = control->candidates;
  const float inverse_temperature = control->inverse_temperature;
  ptx::wait_for_preceding_grid();

  const bool real = thread < logit_chunks(head.rows);
  const float chunk_largest = real ? chunks.largest[row * kMostLogitChunks + thread] : -INFINITY;
  const float chunk_sum = real ? chunks.sums[row * kMostLogitChunks + thread] : 0.0F;
  select_candidates(head, token, chunks.largest + row * kMostLogitChunks, candidates, select);
  const LogitKey chosen = select.keys[thread % 32];
  const float largest = logit_of(select.keys[0]);
  float sum = real ? chunk_sum * exp2f((chunk_largest - largest) * inverse_temperature * kLog2E) : 0.0F;
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(~0U, sum, step);
  if (thread % 32 == 0) warp_sums[thread / 32] = sum;
  __syncthreads();
  if (thread >= candidates) return;
  float total = 0.0F;
  for (const float of_warp : warp_sums) total += of_warp;
  outcome->tokens[row][thread] = id_of(chosen);
  outcome->log_probabilities[row][thread] = (logit_of(chosen) - largest) * inverse_temperature - logf(total);
  if (thread != 0) return;
  outcome->fault[row] = isfinite(total) ? 0 : 1;
  if (chain.best == nullptr) return;
  const int best = max(id_of(chosen), 0);  // of rows that are not finite there is none
  *chain.best = chain.ids == nullptr ? best : chain.ids[best];
}

}  // namespace

void launch_draft_chunks(const ProductResult& head, int tokens, const DraftRows& rows, const DraftControl* control,
                         const DraftChunks& chunks, const CudaLaunch& launch) {
  const int tasks = logit_chunks(head.rows) * rows.pairs();
  launch_kernel("draft_chunks", draft_chunks_kernel,
                {.blocks = (tasks + kChunkWarps - 1) / kChunkWarps, .threads = kChunkThreads}, launch, head, tokens,
                rows, control, chunks);
}

void launch_draft_candidates(const ProductResult& head, const DraftRows& rows, const DraftControl* control,
                             const DraftChunks& chunks, const DraftChain& chain, DraftOutcome* outcome,
                             const CudaLaunch& launch) {
  launch_kernel("draft_candidates", draft_candidates_kernel, {.blocks = rows.count, .threads = kSelectThreads}, launch,
                head, rows, control, chunks, chain, outcome);
}

}  // namespace tare::engine
