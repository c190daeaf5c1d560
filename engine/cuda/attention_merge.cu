// Merges the parts of a round, gates, writes the operand. A thread block has 64 columns of one token; its four warps
// take every fourth part, so that all loads are on their way at once, and their sums are added in order.
#include "engine/cuda/attention_device.cuh"
#include "engine/cuda/launch.cuh"
#include "engine/cuda/operand.cuh"
#include "engine/cuda/product_result.cuh"

namespace tare::engine {
namespace {

constexpr int kWarps = 4;
constexpr int kThreads = 32 * kWarps;
constexpr int kTogether = 8;  // parts whose loads a warp has on their way

__global__ void __launch_bounds__(kThreads)
    attention_merge_kernel(const __grid_constant__ AttentionMergeArguments arguments, int groups) {
  __shared__ float2 shared_sums[kWarps][32];
  __shared__ float shared_weights[kWarps][32];
  ptx::launch_dependents();
  const CudaAttentionShape& shape = arguments.shape;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int group = static_cast<int>(blockIdx.x) % groups;
  const int token = static_cast<int>(blockIdx.x) / groups;
  const int tokens = arguments.positions.tokens;
  const int column = group * kOperandGroup + 2 * lane;  // head_dim is even: both columns belong to one head
  const int head = column / shape.head_dim;
  const int dim = column % shape.head_dim;
  const bool is_real = token < tokens && head < shape.heads;
  ptx::wait_for_preceding_grid();

  float2 sum{0.0F, 0.0F};
  float2 gate{0.0F, 0.0F};
  float weight_sum = 0.0F;
  if (is_real) {
    if (warp == 0) {
      const int row = (2 * head + 1) * shape.head_dim + dim;
      gate = {product_value(arguments.qkv, row, token), product_value(arguments.qkv, row + 1, token)};
    }
    const int position = first_position(arguments.positions) + token;
    const int count = arguments.one_part ? 1 : part_count(shape.kv_heads, position);
    const std::int64_t rows = static_cast<std::int64_t>(tokens) * shape.heads;
    const std::int64_t row = static_cast<std::int64_t>(token) * shape.heads + head;
    const float2* ends = arguments.parts.ends + row;
    float largest = -INFINITY;
    if (shape.head_dim % kOperandGroup == 0) {  // one head a warp
      for (int part = lane; part < count; part += 32) largest = fmaxf(largest, ends[part * rows].x);
      largest = most_of_warp(largest);
    } else {
      for (int part = 0; part < count; ++part) largest = fmaxf(largest, ends[part * rows].x);
    }
    const float reference = reference_score(largest);
    const float* sums = arguments.parts.sums + row * shape.head_dim + dim;
#pragma unroll kTogether
    for (int part = warp; part < count; part += kWarps) {
      const float2 end = ends[part * rows];
      const float2 more = *reinterpret_cast<const float2*>(sums + part * rows * shape.head_dim);
      const float weight = exp2f(end.x - reference);
      weight_sum += weight * end.y;
      sum.x += weight * more.x;
      sum.y += weight * more.y;
    }
  }
  shared_sums[warp][lane] = sum;
  shared_weights[warp][lane] = weight_sum;
  __syncthreads();
  if (warp > 0) return;
  for (int i = 1; i < kWarps; ++i) {
    sum.x += shared_sums[i][lane].x;
    sum.y += shared_sums[i][lane].y;
    weight_sum += shared_weights[i][lane];
  }
  float2 mixed{0.0F, 0.0F};
  if (is_real) {
    mixed.x = sum.x / weight_sum * sigmoid(gate.x);
    mixed.y = sum.y / weight_sum * sigmoid(gate.y);
  }
  store_group(arguments.out, group, token, mixed);
}

}  // namespace

void launch_attention_merge(const AttentionMergeArguments& arguments, const CudaLaunch& launch) {
  const Operand& out = arguments.out;
  const bool rows = out.layout == OperandLayout::kFP32Rows || out.layout == OperandLayout::kBF16Rows;
  const auto groups =
      static_cast<int>(rows ? (out.columns + kOperandGroup - 1) / kOperandGroup : operand_blocks(out.columns));
  launch_kernel("attention_merge", attention_merge_kernel, {.blocks = groups * out.width, .threads = kThreads}, launch,
                arguments, groups);
}

}  // namespace tare::engine
