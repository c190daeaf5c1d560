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
constexpr int kBatch = 16;     // parts whose loads a warp alone has on their way; a multiple of kMergeLanes
// Three blocks fit in an SM, and one beside a block of the tiles of a verify (attention_tiles_shape.cuh), so that all
// wait there when the parts come.
constexpr int kBlocksASM = 3;

struct LaneSum {
  float2 sum{0.0F, 0.0F};
  float weight_sum = 0.0F;

  __device__ __forceinline__ void add(float2 end, float2 more, float reference) {
    const float weight = exp2f(end.x - reference);
    weight_sum = __fmaf_rn(weight, end.y, weight_sum);
    add(weight, more);
  }
  __device__ __forceinline__ void add(float weight, float2 more) {
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
  int count = 0;   // parts
  int rows = 0;    // of a part
  int stride = 0;  // numbers of a part
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
    rows = arguments.positions.tokens * shape.heads;
    stride = rows * head_dim;
    const std::int64_t row = static_cast<std::int64_t>(token) * shape.heads + head;
    ends = arguments.parts.ends + row;
    sums = arguments.parts.sums + row * shape.head_dim + column % shape.head_dim;
  }
  // What the lane's two columns are multiplied by. Before the wait: the launch before lets this one start only when the
  // product has ended.
  [[nodiscard]] __device__ __forceinline__ float2 gates(const AttentionMergeArguments& arguments, int group,
                                                        int token) const {
    if (!is_real) return {0.0F, 0.0F};
    const int dim = (group * kOperandGroup + 2 * (static_cast<int>(threadIdx.x) % 32)) % head_dim;
    const float4 quad =
        ResultQuad(arguments.qkv, (2 * head + 1) * head_dim + dim, token / 2, arguments.positions.tokens).load();
    const float2 gate = token % 2 == 0 ? float2{quad.x, quad.z} : float2{quad.y, quad.w};
    return {sigmoid(gate.x), sigmoid(gate.y)};
  }
  [[nodiscard]] __device__ __forceinline__ float2 end(int part) const {
    return ends[static_cast<std::int64_t>(part) * rows];
  }
  [[nodiscard]] __device__ __forceinline__ float2 sum(int part) const {
    return *reinterpret_cast<const float2*>(sums + static_cast<std::int64_t>(part) * stride);
  }
  [[nodiscard]] __device__ __forceinline__ float reference() const {
    float largest = -INFINITY;
    if (head_dim % kOperandGroup == 0) {  // one head a warp
#pragma unroll 1
      for (int part = static_cast<int>(threadIdx.x) % 32; part < count; part += 32) {
        largest = fmaxf(largest, end(part).x);
      }
      largest = most_of_warp(largest);
    } else {
#pragma unroll 4
      for (int part = 0; part < count; ++part) largest = fmaxf(largest, end(part).x);
    }
    return reference_score(largest);
  }
  __device__ __forceinline__ void store(const AttentionMergeArguments& arguments, int group, int token,
                                        const LaneSum& total, float2 gates) const {
    float2 mixed{0.0F, 0.0F};
    if (is_real) mixed = {total.sum.x / total.weight_sum * gates.x, total.sum.y / total.weight_sum * gates.y};
    store_group(arguments.out, group, token, mixed);
  }
};

// Before the wait, not after it.
__device__ __forceinline__ void have_gates(float2 gates) {
  ptx::have_computed(static_cast<std::int64_t>(__float_as_uint(gates.x)) << 32 | __float_as_uint(gates.y));
}

__global__ void __launch_bounds__(kThreads)
    attention_merge_by_blocks(const __grid_constant__ AttentionMergeArguments arguments, int groups) {
  __shared__ LaneSum shared_sums[kWarps][32];
  ptx::launch_dependents();
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int group = static_cast<int>(blockIdx.x) % groups;
  const int token = static_cast<int>(blockIdx.x) / groups;
  const Columns columns(arguments, group, token);
  float2 gates{0.0F, 0.0F};
  if (warp == 0) gates = columns.gates(arguments, group, token);
  have_gates(gates);
  ptx::wait_for_preceding_grid();

  LaneSum mine;
  if (columns.is_real) {
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

// Adds all parts to `lanes`: parts that are not there are zeros of weight 0, so that no branch stands between loads or
// sums. With one head a warp, a lane finds the weight of every 32nd part and the others ask it; weight sum i of `lanes`
// is found by every kMergeLanes-th lane.
template <bool kOneHead>
__device__ __forceinline__ void add_parts(const Columns& columns, LaneSum (&lanes)[kMergeLanes]) {
  constexpr float2 kNone{-INFINITY, 0.0F};
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const auto end_or_none = [&](int part) { return part < columns.count ? columns.end(part) : kNone; };
  const float* source = columns.sums;
  float2 sums[kBatch];
  const auto load = [&](int first) {
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      sums[i] = {0.0F, 0.0F};
      if (first + i < columns.count) sums[i] = *reinterpret_cast<const float2*>(source);
      source += columns.stride;  // not a product a part: operations before any load is on its way
    }
  };
  float weight_sum = 0.0F;
  float2 own = kOneHead ? end_or_none(lane) : kNone;
  load(0);
  const float reference = kOneHead && columns.count <= 32 ? reference_score(most_of_warp(own.x)) : columns.reference();
#pragma unroll 1
  for (int first = 0; first < columns.count; first += kBatch) {
    if (first > 0) {
      load(first);
      if (kOneHead && first % 32 == 0) own = end_or_none(first + lane);
    }
    if constexpr (kOneHead) {
      const float weight = exp2f(own.x - reference);
#pragma unroll
      for (int i = 0; i < kBatch; i += kMergeLanes) {
        const int of = first % 32 + i + lane % kMergeLanes;
        weight_sum = __fmaf_rn(__shfl_sync(~0U, weight, of), __shfl_sync(~0U, own.y, of), weight_sum);
      }
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
        lanes[i % kMergeLanes].add(__shfl_sync(~0U, weight, first % 32 + i), sums[i]);
      }
    } else {
#pragma unroll
      for (int i = 0; i < kBatch; ++i) lanes[i % kMergeLanes].add(end_or_none(first + i), sums[i], reference);
    }
  }
  if constexpr (kOneHead) {
#pragma unroll
    for (int i = 0; i < kMergeLanes; ++i) lanes[i].weight_sum = __shfl_sync(~0U, weight_sum, i);
  }
}

template <bool kOneHead>
__global__ void __launch_bounds__(kThreads, kBlocksASM)
    attention_merge_by_warps(const __grid_constant__ AttentionMergeArguments arguments, int groups) {
  ptx::launch_dependents();
  const int item = static_cast<int>(blockIdx.x) * kWarps + static_cast<int>(threadIdx.x) / 32;
  const int group = item % groups;
  const int token = item / groups;
  const Columns columns(arguments, group, token);
  const float2 gates = columns.gates(arguments, group, token);
  have_gates(gates);
  ptx::wait_for_preceding_grid();

  if (token >= arguments.out.width) return;
  LaneSum lanes[kMergeLanes];
  if (columns.is_real) add_parts<kOneHead>(columns, lanes);
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
    const bool one_head = arguments.shape.head_dim % kOperandGroup == 0;
    launch_kernel("attention_merge", one_head ? attention_merge_by_warps<true> : attention_merge_by_warps<false>,
                  {.blocks = (groups * out.width + kWarps - 1) / kWarps, .threads = kThreads}, launch, arguments,
                  groups);
  }
}

}  // namespace tare::engine
