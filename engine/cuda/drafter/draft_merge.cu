// Merges the parts of a draft's attention and writes the operand of the output projection: 64 columns of a token a
// warp.
#include "engine/cuda/attention/attention_device.cuh"
#include "engine/cuda/device/launch.cuh"
#include "engine/cuda/drafter/drafter_kernels.h"
#include "engine/cuda/product/operand.cuh"

namespace tare::engine {
namespace {

constexpr int kThreads = 128;
constexpr int kWarps = kThreads / 32;
constexpr int kTogether = 32;  // parts whose loads are on their way at once: a lane has the ends of each

__global__ void __launch_bounds__(kThreads)
    draft_merge_kernel(const __grid_constant__ DraftAttentionArguments arguments, const __grid_constant__ Operand out,
                       int groups) {
  ptx::launch_dependents();
  const DrafterShape& shape = arguments.shape;
  const auto lane = static_cast<int>(threadIdx.x % 32);
  const float2 no_end{-INFINITY, 0.0F};
  const int item = static_cast<int>(blockIdx.x) * kWarps + static_cast<int>(threadIdx.x) / 32;
  const int group = item % groups;
  const int token = item / groups;
  const int column = group * kOperandGroup + 2 * (static_cast<int>(threadIdx.x) % 32);
  const int head = column / shape.head_dim;  // head_dim is even: both columns of a lane belong to one head
  const bool real = token < arguments.block && head < shape.heads;
  const DraftSpan span{.frontier = arguments.control->frontier,
                       .block = arguments.block,
                       .window = static_cast<int>(arguments.mask.window),
                       .causal = arguments.mask.causal,
                       .most_parts = arguments.most_parts};
  const int parts = arguments.most_parts == 1 ? 1 : span.parts();
  const std::int64_t rows = static_cast<std::int64_t>(arguments.block) * shape.heads;
  const std::int64_t row = real ? static_cast<std::int64_t>(token) * shape.heads + head : 0;
  const float2* ends = arguments.parts.ends + row;
  const float* sums = arguments.parts.sums + row * shape.head_dim + column % shape.head_dim;
  const std::int64_t stride = rows * shape.head_dim;
  ptx::wait_for_preceding_grid();

  if (token >= out.width) return;
  float2 mixed{0.0F, 0.0F};
  if (token < arguments.block) {
    // Where there are several parts a warp's columns are of one head, and a lane has the ends of one part in 32.
    float2 end = no_end;
    float2 sum[kTogether];
    const auto load = [&](int first) {
      const int part = parts == 1 ? 0 : first + lane;
      end = real && part < parts ? ends[part * rows] : no_end;
#pragma unroll
      for (int i = 0; i < kTogether; ++i) {
        sum[i] = {0.0F, 0.0F};
        if (real && first + i < parts) sum[i] = *reinterpret_cast<const float2*>(sums + (first + i) * stride);
      }
    };
    load(0);
    float largest = end.x;
#pragma unroll 1
    for (int part = kTogether + lane; real && part < parts; part += kTogether)
      largest = fmaxf(largest, ends[part * rows].x);
    if (parts > 1) largest = most_of_warp(largest);
    const float reference = reference_score(largest);
    float weight_sum = 0.0F;
#pragma unroll 1
    for (int first = 0;;) {
      const float weight = exp2f(end.x - reference);
#pragma unroll
      for (int i = 0; i < kTogether; ++i) {
        if (first + i >= parts) break;
        const float of_part = parts == 1 ? weight : __shfl_sync(~0U, weight, i);
        weight_sum = __fmaf_rn(of_part, parts == 1 ? end.y : __shfl_sync(~0U, end.y, i), weight_sum);
        mixed.x = __fmaf_rn(of_part, sum[i].x, mixed.x);
        mixed.y = __fmaf_rn(of_part, sum[i].y, mixed.y);
      }
      first += kTogether;
      if (first >= parts) break;
      load(first);
    }
    if (real) mixed = {mixed.x / weight_sum, mixed.y / weight_sum};
  }
  store_group(out, group, token, mixed);
}

}  // namespace

void launch_draft_merge(const DraftAttentionArguments& arguments, const Operand& out, const CudaLaunch& launch) {
  const auto groups = static_cast<int>(operand_blocks(out.columns));
  launch_kernel("draft_merge", draft_merge_kernel,
                {.blocks = (groups * out.width + kWarps - 1) / kWarps, .threads = kThreads}, launch, arguments, out,
                groups);
}

}  // namespace tare::engine
