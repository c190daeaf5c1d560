// Attention in FP32 arithmetic: any cache format, any head dimension, any device. A thread block has one part of one
// query row; 64 positions at a time, scores by warps, then every thread sums its dims. Simple and exact, not fast: the
// positions of a tree's path are looked up one by one, so that they come in the order of a chain.
//
// Keys and Values read a head's run: load(head_dim, slot, dim) is the number as FP32. kTogether: positions whose
// numbers are on their way at once.
#include "base/error.h"
#include "engine/cuda/attention/attention_blocks.cuh"
#include "engine/cuda/attention/attention_device.cuh"
#include "engine/cuda/device/launch.cuh"

namespace tare::engine {
namespace {

constexpr int kWarps = 4;
constexpr int kThreads = 32 * kWarps;
constexpr int kDims = (kMostHeadDim + kThreads - 1) / kThreads;  // of a thread, in the sum of values
constexpr int kLaneDims = (kMostHeadDim + 31) / 32;              // of a lane, in a score
constexpr int kWarpPositions = kTilePositions / kWarps;

template <class Keys, class Values>
__global__ void __launch_bounds__(kThreads)
    attention_plain_kernel(const __grid_constant__ AttentionPlainArguments arguments) {
  __shared__ float scores[kTilePositions];
  __shared__ int path[kMostRoundTokens];  // nodes by their depth
  const int filling = arguments.fill.blocks;
  if (static_cast<int>(blockIdx.x) < filling) {
    fill_l2(arguments.fill, static_cast<int>(blockIdx.x));
    ptx::wait_for_preceding_grid();
    return;
  }
  const CudaAttentionShape& shape = arguments.shape;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int tokens = arguments.positions.tokens;
  const std::int64_t row = (static_cast<std::int64_t>(blockIdx.x) - filling) % (tokens * shape.heads);
  const int part = static_cast<int>((static_cast<std::int64_t>(blockIdx.x) - filling) / (tokens * shape.heads));
  const int head = static_cast<int>(row % shape.heads);
  const int token = static_cast<int>(row / shape.heads);
  ptx::wait_for_preceding_grid();
  ptx::launch_dependents();  // not before: the merge reads the gates before its own wait
  const RoundControl* const control = arguments.positions.control;
  const int first = first_position(arguments.positions);
  const int position = last_place(arguments.positions, token);
  if (control != nullptr && warp == 0) {
    const std::uint32_t ancestors = control->ancestors[token];
    if ((ancestors >> lane & 1U) != 0) path[__popc(ancestors & ((1U << lane) - 1U))] = lane;
  }
  __syncthreads();
  const auto slot_of = [&](int at) { return control == nullptr || at < first ? at : first + path[at - first]; };
  const int part_size = arguments.one_part ? position + 1 : part_positions(shape.kv_heads, position);
  const int begin = part * part_size;
  const int end = min(begin + part_size, position + 1);
  if (begin >= end) return;

  const int kv_head = head / (shape.heads / shape.kv_heads);
  const Keys keys(arguments, kv_head);
  const Values values(arguments, kv_head);
  float query[kLaneDims];
#pragma unroll
  for (int i = 0; i < kLaneDims; ++i) {
    const int dim = lane + 32 * i;
    query[i] = dim < shape.head_dim ? arguments.queries[row * shape.head_dim + dim] : 0.0F;
  }
  float sums[kDims] = {};
  float largest = -INFINITY;
  float weight_sum = 0.0F;
  for (int tile = begin; tile < end; tile += kTilePositions) {
    const int count = min(kTilePositions, end - tile);
#pragma unroll(Keys::kTogether)
    for (int i = 0; i < kWarpPositions; ++i) {
      const int at = warp + kWarps * i;
      float dot = 0.0F;
      if (at < count) {
#pragma unroll
        for (int j = 0; j < kLaneDims; ++j) {
          const int dim = lane + 32 * j;
          if (dim >= shape.head_dim) break;
          dot += query[j] * keys.load(shape.head_dim, slot_of(tile + at), dim);
        }
      }
      dot = sum_of_warp(dot);
      if (lane == 0) scores[at] = at < count ? dot : -INFINITY;
    }
    __syncthreads();
    const float new_largest = fmaxf(largest, most_of_warp(fmaxf(scores[lane], scores[lane + 32])));
    const float reference = reference_score(new_largest);
    const float keep = exp2f(largest - reference);
    largest = new_largest;
    const float weights = exp2f(scores[lane] - reference) + exp2f(scores[lane + 32] - reference);
    weight_sum = weight_sum * keep + sum_of_warp(weights);
#pragma unroll
    for (int i = 0; i < kDims; ++i) {
      const int dim = static_cast<int>(threadIdx.x) + kThreads * i;
      if (dim >= shape.head_dim) break;
      float sum = sums[i] * keep;
#pragma unroll(Values::kTogether)
      for (int at = 0; at < count; ++at) {
        sum += exp2f(scores[at] - reference) * values.load(shape.head_dim, slot_of(tile + at), dim);
      }
      sums[i] = sum;
    }
    __syncthreads();
  }
  const std::int64_t place = static_cast<std::int64_t>(part) * tokens * shape.heads + row;
#pragma unroll
  for (int i = 0; i < kDims; ++i) {
    const int dim = static_cast<int>(threadIdx.x) + kThreads * i;
    if (dim < shape.head_dim) arguments.parts.sums[place * shape.head_dim + dim] = sums[i];
  }
  if (threadIdx.x == 0) arguments.parts.ends[place] = {largest, weight_sum};
}

template <class Keys, class Values>
void launch_plain(int parts, const AttentionPlainArguments& arguments, const CudaLaunch& launch) {
  const int rows = arguments.positions.tokens * arguments.shape.heads;
  launch_kernel("attention_plain", attention_plain_kernel<Keys, Values>,
                {.blocks = parts * rows + arguments.fill.blocks, .threads = kThreads}, launch, arguments);
}

template <CacheFormat kFormat>
struct PlainKeys {
  static constexpr int kTogether = 4;
  const std::byte* run;
  __device__ __forceinline__ PlainKeys(const AttentionPlainArguments& arguments, int kv_head)
      : run(arguments.keys + kv_head * (arguments.slots * arguments.shape.head_dim) * element_bytes(kFormat)) {}
  [[nodiscard]] __device__ __forceinline__ float load(int head_dim, int slot, int dim) const {
    return load_cached(kFormat, run + key_place(kFormat, head_dim, slot, dim));
  }
};
template <CacheFormat kFormat>
struct PlainValues {
  static constexpr int kTogether = 8;
  const std::byte* run;
  __device__ __forceinline__ PlainValues(const AttentionPlainArguments& arguments, int kv_head)
      : run(arguments.values + kv_head * (arguments.slots * arguments.shape.head_dim) * element_bytes(kFormat)) {}
  [[nodiscard]] __device__ __forceinline__ float load(int head_dim, int slot, int dim) const {
    return load_cached(kFormat, run + value_place(kFormat, head_dim, slot, dim));
  }
};

// Where keys or values have scales the formats are asked for as it reads: every pair compiled would be sixteen kernels.
struct AnyKeys {
  static constexpr int kTogether = 1;  // more is code that takes ptxas longer than all kernels above
  CacheFormat format;
  const std::byte* run;
  __device__ __forceinline__ AnyKeys(const AttentionPlainArguments& arguments, int kv_head)
      : format(arguments.key_format),
        run(arguments.keys + kv_head * arguments.slots * cache_row_bytes(format, arguments.shape.head_dim)) {}
  [[nodiscard]] __device__ __forceinline__ float load(int head_dim, int slot, int dim) const {
    return load_key(format, run, head_dim, slot, dim);
  }
};
struct AnyValues {
  static constexpr int kTogether = 2;
  CacheFormat format;
  const std::byte* run;
  __device__ __forceinline__ AnyValues(const AttentionPlainArguments& arguments, int kv_head)
      : format(arguments.value_format),
        run(arguments.values + kv_head * arguments.slots * cache_row_bytes(format, arguments.shape.head_dim)) {}
  [[nodiscard]] __device__ __forceinline__ float load(int head_dim, int slot, int dim) const {
    return load_value(format, run, head_dim, slot, dim);
  }
};

template <CacheFormat kKey>
auto launch_of(CacheFormat value) {
  switch (value) {
    case CacheFormat::kFP32:
      return launch_plain<PlainKeys<kKey>, PlainValues<CacheFormat::kFP32>>;
    case CacheFormat::kBF16:
      return launch_plain<PlainKeys<kKey>, PlainValues<CacheFormat::kBF16>>;
    case CacheFormat::kFP8:
      return launch_plain<PlainKeys<kKey>, PlainValues<CacheFormat::kFP8>>;
    case CacheFormat::kInt8:
    case CacheFormat::kNVFP4:
      break;
  }
  throw internal_error("a cache format without a kernel");
}
auto launch_of(CacheFormat key, CacheFormat value) {
  switch (key) {
    case CacheFormat::kFP32:
      return launch_of<CacheFormat::kFP32>(value);
    case CacheFormat::kBF16:
      return launch_of<CacheFormat::kBF16>(value);
    case CacheFormat::kFP8:
      return launch_of<CacheFormat::kFP8>(value);
    case CacheFormat::kInt8:
    case CacheFormat::kNVFP4:
      break;
  }
  throw internal_error("a cache format without a kernel");
}

}  // namespace

void launch_attention_plain(int parts, const AttentionPlainArguments& arguments, const CudaLaunch& launch) {
  if (has_scales(arguments.key_format) || has_scales(arguments.value_format))
    return launch_plain<AnyKeys, AnyValues>(parts, arguments, launch);
  launch_of(arguments.key_format, arguments.value_format)(parts, arguments, launch);
}

}  // namespace tare::engine
