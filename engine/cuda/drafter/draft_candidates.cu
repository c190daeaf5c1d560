// The most likely tokens of each row, exactly, in two kernels and without writing a logit: the first leaves the largest
// logit of each chunk of the vocabulary, and the sum of exponentials; the k largest logits then lie in the k chunks
// with the largest ones, and only those are looked at again.
#include "engine/cuda/device/launch.cuh"
#include "engine/cuda/device/ptx.cuh"
#include "engine/cuda/drafter/drafter_kernels.h"
#include "engine/cuda/head/logit_selection.cuh"
#include "engine/cuda/head/logit_stretches.cuh"

namespace tare::engine {
namespace {

constexpr float kLog2E = 1.44269504F;

// A lane's share of two rows' logits in a stretch, and what becomes of it.
struct RowSums {
  const LogitCut& cut;
  const DraftRows& rows;
  int first_row;  // token of the first of them
  float factor;
  const DraftChunks& chunks;
  float largest[2];
  float sums[2];  // of 2^((logit - largest) factor); NaN when a logit is not finite

  __device__ __forceinline__ void begin() {
#pragma unroll
    for (int i = 0; i < 2; ++i) largest[i] = -INFINITY, sums[i] = 0.0F;
  }
  __device__ __forceinline__ void add(const LaneLogits& logits) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      float most = largest[i];
      float zeros = 0.0F;  // NaN when one is not finite
#pragma unroll
      for (int n = 0; n < 2 * kLaneQuads; ++n) {
        if (logits.row + LaneLogits::laid_rows(n) >= cut.rows) continue;
        most = fmaxf(most, logits.of[i][n]);
        zeros = fmaf(logits.of[i][n], 0.0F, zeros);
      }
      sums[i] = sums[i] * exp2f((largest[i] - (most == -INFINITY ? 0.0F : most)) * factor) + zeros;
      if (most == -INFINITY) continue;
#pragma unroll
      for (int n = 0; n < 2 * kLaneQuads; ++n) {
        if (logits.row + LaneLogits::laid_rows(n) < cut.rows) sums[i] += exp2f((logits.of[i][n] - most) * factor);
      }
      largest[i] = most;
    }
  }
  __device__ __forceinline__ void finish(int stretch, int pair) {
    const auto lane = static_cast<int>(threadIdx.x % 32);
    const float of_chunk = largest_of_chunk(largest);
    float of_stretch = fmaxf(of_chunk, __shfl_xor_sync(~0U, of_chunk, 8));
    of_stretch = fmaxf(of_stretch, __shfl_xor_sync(~0U, of_stretch, 16));
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float most = __shfl_sync(~0U, of_stretch, i);
      if (largest[i] != -INFINITY) sums[i] *= exp2f((largest[i] - most) * factor);
    }
    float sum = share_sum(sums);
#pragma unroll
    for (int step = 2; step < 32; step *= 2) sum += __shfl_xor_sync(~0U, sum, step);
    const int nth = 2 * pair + lane % 2 - first_row;
    if (nth < 0 || nth >= rows.count) return;
    const int row = rows.out + nth;
    const int chunk = stretch * kChunksAStretch + lane / kLanesAChunk;
    if (lane % kLanesAChunk < 2 && chunk < cut.chunks)
      chunks.largest[row * kMostLogitChunks + logit_chunk_place(chunk)] = ordered_logit(of_chunk);
    if (lane < 2) chunks.ends[row * kMostLogitStretches + stretch] = {of_stretch, sum};
  }
};

template <bool kQuick>
__global__ void __launch_bounds__(kStretchThreads, kStretchBlocks)
    draft_chunks_kernel(const __grid_constant__ ProductResult head, const __grid_constant__ LogitCut cut, int tokens,
                        const __grid_constant__ DraftRows rows, const DraftControl* control,
                        const __grid_constant__ DraftChunks chunks) {
  ptx::launch_dependents();
  const int first_row = rows.of_last_feature ? control->features - 1 : rows.first;
  RowSums sums{.cut = cut,
               .rows = rows,
               .first_row = first_row,
               .factor = control->inverse_temperature * kLog2E,
               .chunks = chunks,
               .largest = {},
               .sums = {}};
  go_over_stretch<kQuick>(head, cut, tokens, first_row / 2, rows.pairs(), sums);
}

template <bool kPlanes>
__global__ void __launch_bounds__(kSelectThreads)
    draft_candidates_kernel(const __grid_constant__ ProductResult head, const __grid_constant__ LogitCut cut,
                            const __grid_constant__ DraftRows rows_of, const DraftControl* control,
                            const __grid_constant__ DraftChunks chunks, const __grid_constant__ DraftChain chain,
                            volatile DraftOutcome* outcome) {
  constexpr int kEnds = kMostLogitStretches / kSelectThreads;  // of a thread
  __shared__ SelectSpace select;
  __shared__ float warp_sums[kSelectWarps];
  const auto thread = static_cast<int>(threadIdx.x);
  const int row = rows_of.out + static_cast<int>(blockIdx.x);
  const int token = (rows_of.of_last_feature ? control->features - 1 : rows_of.first) + static_cast<int>(blockIdx.x);
  const int candidates = control->candidates;
  const float inverse_temperature = control->inverse_temperature;
  prepare_selection<kPlanes>(head, cut, select);
  ptx::wait_for_preceding_grid();

  float2 ends[kEnds];
#pragma unroll
  for (int i = 0; i < kEnds; ++i) {
    const int stretch = thread + i * kSelectThreads;
    ends[i] = {-INFINITY, 0.0F};
    if (stretch < cut.stretches) ends[i] = __ldcg(chunks.ends + row * kMostLogitStretches + stretch);
  }
  select_candidates<kPlanes>(head, cut, token, chunks.largest + row * kMostLogitChunks, candidates, select);
  const LogitKey chosen = select.chosen[thread % 32];
  const float largest = logit_of(select.chosen[0]);
  float sum = 0.0F;
#pragma unroll
  for (int i = 0; i < kEnds; ++i) {
    if (thread + i * kSelectThreads < cut.stretches)
      sum += ends[i].y * exp2f((ends[i].x - largest) * inverse_temperature * kLog2E);
  }
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
  const LogitCut cut = cut_of(head);
  launch_kernel("draft_chunks", is_quick(head, cut) ? draft_chunks_kernel<true> : draft_chunks_kernel<false>,
                {.blocks = stretch_grid(cut, rows.pairs()), .threads = kStretchThreads}, launch, head, cut, tokens,
                rows, control, chunks);
}

void launch_draft_candidates(const ProductResult& head, const DraftRows& rows, const DraftControl* control,
                             const DraftChunks& chunks, const DraftChain& chain, DraftOutcome* outcome,
                             const CudaLaunch& launch) {
  launch_kernel("draft_candidates", head.planes ? draft_candidates_kernel<true> : draft_candidates_kernel<false>,
                {.blocks = rows.count, .threads = kSelectThreads}, launch, head, cut_of(head), rows, control, chunks,
                chain, outcome);
}

}  // namespace tare::engine
