// Merges the parts of a round, gates, writes the operand. A thread block has 64 columns of one token; its four warps
// take every fourth part, so that all loads are on their way at once, and their sums are added in order.
#include "engine/cuda/attention_device.cuh"
#include "engine/cuda/launch.cuh"
#include "engine/cuda/operand.cuh"

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
  const ResultQuad gate_source(arguments.qkv, is_real ? (2 * head + 1) * shape.head_dim + dim : 0,
                               is_real ? token / 2 : 0, tokens);
  const int position = first_position(arguments.positions) + token;
  const int count = arguments.one_part ? 1 : part_count(shape.kv_heads, position);
  ptx::wait_for_preceding_grid();

  float2 sum{0.0F, 0.0F};
  float2 gate{0.0F, 0.0F};
  float weight_sum = 0.0F;
  if (is_real) {
    if (warp == 0) {
      const float4 quad = gate_source.load();
      gate = token % 2 == 0 ? float2{quad.x, quad.z} : float2{quad.y, quad.w};
    }
    const std::int64_t rows = static_cast<std::int64_t>(tokens) * shape.heads;
    const std::int64_t row = static_cast<std::int64_t>(token) * shape.heads + head;
    const float2* ends = arguments.parts.ends + row;
    const float* sums = arguments.parts.sums + row * shape.head_dim + dim;
    float2 together_ends[kTogether];
    float2 together_sums[kTogether];
    const auto load = [&](int first) {
#pragma unroll
      for (int i = 0; i < kTogether; ++i) {
        const int part = first + kWarps * i;
        if (part >= count) break;
        together_ends[i] = ends[part * rows];
        together_sums[i] = *reinterpret_cast<const float2*>(sums + part * rows * shape.head_dim);
      }
    };
    load(warp);
    float largest = -INFINITY;
    if (shape.head_dim % kOperandGroup == 0) {  // one head a warp
#pragma unroll 4
      for (int part = lane; part < count; part += 32) largest = fmaxf(largest, ends[part * rows].x);
      largest = most_of_warp(largest);
    } else {
      for (int part = 0; part < count; ++part) largest = fmaxf(largest, ends[part * rows].x);
    }
    const float reference = reference_score(largest);
    for (int first = warp; first < count; first += kWarps * kTogether) {
      if (first > warp) load(first);
#pragma unroll
      for (int i = 0; i < kTogether; ++i) {
        if (first + kWarps * i >= count) break;
        const float weight = exp2f(together_ends[i].x - reference);
        weight_sum += weight * together_ends[i].y;
        sum.x += weight * together_sums[i].x;
        sum.y += weight * together_sums[i].y;
      }
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
