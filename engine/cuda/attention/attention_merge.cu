// Merges the parts of a round, gates, writes the operand: 64 columns of a token at a time. Parts are added as
// kMergeLanes sums of every kMergeLanes-th part each, and those in order: by the warps of a thread block when there are
// few tokens, else by one warp, with the same bits.
#include "engine/cuda/attention/attention_device.cuh"
#include "engine/cuda/device/launch.cuh"
#include "engine/cuda/product/operand.cuh"

namespace tare::engine {
namespace {

constexpr int kWarps = kMergeLanes;
constexpr int kThreads = 32 * kWarps;
constexpr int kTogether = 5;   // parts of a lane whose loads a warp of a block has on their way
constexpr int kFewTokens = 2;  // merged by blocks

struct LaneSum {
  float2 sum{0.0F, 0.0F};
  float weight_sum = 0.0F;

  __device__ __forceinline__ void add(float2 end, float2 more, float reference) {
    const float weight = exp2f(end.x - reference);
    weight_sum = __fmaf_rn(weight, end.y, weight_sum);
    sum.x = __fmaf_rn(weight, more.x, sum.x);
    sum.y = __fmaf_rn(weight, more.y, sum.y);
  }
  __device__ __forceinline__ void add(const LaneSum& more) {
    sum.x += more.sum.x;
    sum.y += more.sum.y;
    weight_sum += more.weight_sum;
  }
};

// 64 columns of one token: what both forms do before the wait, and the parts.
struct Columns {
  int head = 0;
  bool is_real = false;
  int count = 0;          // parts
  std::int64_t rows = 0;  // of a part
  const float2* ends = nullptr;
  const float* sums = nullptr;
  int head_dim = 0;

  __device__ __forceinline__ Columns(const AttentionMergeArguments& arguments, int group, int token) {
    const CudaAttentionShape& shape = arguments.shape;
    const int column = group * kOperandGroup + 2 * (static_cast<int>(threadIdx.x) % 32);
    head = column / shape.head_dim;  // head_dim is even: both columns of a lane belong to one head
    head_dim = shape.head_dim;
    is_real = token < arguments.positions.tokens && head < shape.heads;
    if (!is_real) return;
    count = arguments.one_part ? 1 : part_count(shape.kv_heads, last_place(arguments.positions, token));
    rows = static_cast<std::int64_t>(arguments.positions.tokens) * shape.heads;
    const std::int64_t row = static_cast<std::int64_t>(token) * shape.heads + head;
    ends = arguments.parts.ends + row;
    sums = arguments.parts.sums + row * shape.head_dim + column % shape.head_dim;
  }
  [[nodiscard]] __device__ __forceinline__ ResultQuad gates(const AttentionMergeArguments& arguments, int group,
                                                            int token) const {
    const int dim = (group * kOperandGroup + 2 * (static_cast<int>(threadIdx.x) % 32)) % head_dim;
    return {arguments.qkv, is_real ? (2 * head + 1) * head_dim + dim : 0, is_real ? token / 2 : 0,
            arguments.positions.tokens};
  }
  [[nodiscard]] __device__ __forceinline__ float2 end(int part) const { return ends[part * rows]; }
  [[nodiscard]] __device__ __forceinline__ float2 sum(int part) const {
    return *reinterpret_cast<const float2*>(sums + part * rows * head_dim);
  }
  [[nodiscard]] __device__ __forceinline__ float reference() const {
    float largest = -INFINITY;
    if (head_dim % kOperandGroup == 0) {  // one head a warp
#pragma unroll 4
      for (int part = static_cast<int>(threadIdx.x) % 32; part < count; part += 32) {
        largest = fmaxf(largest, end(part).x);
      }
      largest = most_of_warp(largest);
    } else {
      for (int part = 0; part < count; ++part) largest = fmaxf(largest, end(part).x);
    }
    return reference_score(largest);
  }
  __device__ __forceinline__ void store(const AttentionMergeArguments& arguments, int group, int token,
                                        const LaneSum& total, const float4& gates) const {
    float2 mixed{0.0F, 0.0F};
    if (is_real) {
      const float2 gate = token % 2 == 0 ? float2{gates.x, gates.z} : float2{gates.y, gates.w};
      mixed = {total.sum.x / total.weight_sum * sigmoid(gate.x), total.sum.y / total.weight_sum * sigmoid(gate.y)};
    }
    store_group(arguments.out, group, token, mixed);
  }
};

__global__ void __launch_bounds__(kThreads)
    attention_merge_by_blocks(const __grid_constant__ AttentionMergeArguments arguments, int groups) {
  __shared__ LaneSum shared_sums[kWarps][32];
  ptx::launch_dependents();
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int group = static_cast<int>(blockIdx.x) % groups;
  const int token = static_cast<int>(blockIdx.x) / groups;
  const Columns columns(arguments, group, token);
  const ResultQuad gate_source = columns.gates(arguments, group, token);
  ptx::wait_for_preceding_grid();

  float4 gates{0.0F, 0.0F, 0.0F, 0.0F};
  LaneSum mine;
  if (columns.is_real) {
    if (warp == 0) gates = gate_source.load();
    float2 ends[kTogether];
    float2 sums[kTogether];
    const auto load = [&](int first) {
#pragma unroll
      for (int i = 0; i < kTogether; ++i) {
        const int part = first + kWarps * i;
        if (part >= columns.count) break;
        ends[i] = columns.end(part);
        sums[i] = columns.sum(part);
      }
    };
    load(warp);
    const float reference = columns.reference();
    for (int first = warp; first < columns.count; first += kWarps * kTogether) {
      if (first > warp) load(first);
#pragma unroll
      for (int i = 0; i < kTogether; ++i) {
        if (first + kWarps * i >= columns.count) break;
        mine.add(ends[i], sums[i], reference);
      }
    }
  }
  shared_sums[warp][lane] = mine;
  __syncthreads();
  if (warp > 0) return;
  for (int i = 1; i < kWarps; ++i) mine.add(shared_sums[i][lane]);
  columns.store(arguments, group, token, mine, gates);
}

__global__ void __launch_bounds__(kThreads)
    attention_merge_by_warps(const __grid_constant__ AttentionMergeArguments arguments, int groups) {
  ptx::launch_dependents();
  const int item = static_cast<int>(blockIdx.x) * kWarps + static_cast<int>(threadIdx.x) / 32;
  const int group = item % groups;
  const int token = item / groups;
  const Columns columns(arguments, group, token);
  const ResultQuad gate_source = columns.gates(arguments, group, token);
  ptx::wait_for_preceding_grid();

  if (token >= arguments.out.width) return;
  float4 gates{0.0F, 0.0F, 0.0F, 0.0F};
  LaneSum lanes[kMergeLanes];
  if (columns.is_real) {
    gates = gate_source.load();
    float2 ends[kMergeLanes];
    float2 sums[kMergeLanes];
    const auto load = [&](int first) {
#pragma unroll
      for (int i = 0; i < kMergeLanes; ++i) {
        if (first + i >= columns.count) break;
        ends[i] = columns.end(first + i);
        sums[i] = columns.sum(first + i);
      }
    };
    load(0);
    const float reference = columns.reference();
    for (int first = 0; first < columns.count; first += kMergeLanes) {
      if (first > 0) load(first);
#pragma unroll
      for (int i = 0; i < kMergeLanes; ++i) {
        if (first + i >= columns.count) break;
        lanes[i].add(ends[i], sums[i], reference);
      }
    }
  }
#pragma unroll
  for (int i = 1; i < kMergeLanes; ++i) lanes[0].add(lanes[i]);
  columns.store(arguments, group, token, lanes[0], gates);
}

}  // namespace

void launch_attention_merge(const AttentionMergeArguments& arguments, const CudaLaunch& launch) {
  const Operand& out = arguments.out;
  const bool rows = out.layout == OperandLayout::kFP32Rows || out.layout == OperandLayout::kBF16Rows;
  const auto groups =
      static_cast<int>(rows ? (out.columns + kOperandGroup - 1) / kOperandGroup : operand_blocks(out.columns));
  if (arguments.positions.tokens <= kFewTokens) {
    launch_kernel("attention_merge", attention_merge_by_blocks, {.blocks = groups * out.width, .threads = kThreads},
                  launch, arguments, groups);
  } else {
    launch_kernel("attention_merge", attention_merge_by_warps,
                  {.blocks = (groups * out.width + kWarps - 1) / kWarps, .threads = kThreads}, launch, arguments,
                  groups);
  }
}

}  // namespace tare::engine
