// Attention in FP32 arithmetic: any cache format, any head dimension, any device. A thread block has one part of one
// query row; 64 positions at a time, scores by warps, then every thread sums its dims. Simple and exact, not fast: the
// positions of a tree's path are looked up one by one, so that they come in the order of a chain.
#include "base/error.h"
#include "engine/cuda/attention/attention_device.cuh"
#include "engine/cuda/device/launch.cuh"

namespace tare::engine {
namespace {

constexpr int kWarps = 4;
constexpr int kThreads = 32 * kWarps;
constexpr int kDims = (kMostHeadDim + kThreads - 1) / kThreads;  // of a thread, in the sum of values
constexpr int kLaneDims = (kMostHeadDim + 31) / 32;              // of a lane, in a score
constexpr int kWarpPositions = kTilePositions / kWarps;

template <CacheFormat kKey, CacheFormat kValue>
__global__ void __launch_bounds__(kThreads)
    attention_plain_kernel(const __grid_constant__ AttentionPlainArguments arguments) {
  __shared__ float scores[kTilePositions];
  __shared__ int path[kMostRoundTokens];  // nodes by their depth
  ptx::launch_dependents();
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
  const std::int64_t run = arguments.slots * shape.head_dim;
  const std::byte* keys = arguments.keys + kv_head * run * element_bytes(kKey);
  const std::byte* values = arguments.values + kv_head * run * element_bytes(kValue);
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
#pragma unroll 4
    for (int i = 0; i < kWarpPositions; ++i) {
      const int at = warp + kWarps * i;
      float dot = 0.0F;
      if (at < count) {
#pragma unroll
        for (int j = 0; j < kLaneDims; ++j) {
          const int dim = lane + 32 * j;
          if (dim >= shape.head_dim) break;
          dot += query[j] * load_cached(kKey, keys + key_place(kKey, shape.head_dim, slot_of(tile + at), dim));
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
#pragma unroll 8
      for (int at = 0; at < count; ++at) {
        sum += exp2f(scores[at] - reference) *
               load_cached(kValue, values + value_place(kValue, shape.head_dim, slot_of(tile + at), dim));
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

template <CacheFormat kKey>
auto plain_kernel(CacheFormat value) {
  switch (value) {
    case CacheFormat::kFP32:
      return attention_plain_kernel<kKey, CacheFormat::kFP32>;
    case CacheFormat::kBF16:
      return attention_plain_kernel<kKey, CacheFormat::kBF16>;
    case CacheFormat::kFP8:
      return attention_plain_kernel<kKey, CacheFormat::kFP8>;
    case CacheFormat::kInt8:
    case CacheFormat::kNVFP4:
      break;
  }
  throw internal_error("a cache format without a kernel");
}
auto plain_kernel(CacheFormat key, CacheFormat value) {
  switch (key) {
    case CacheFormat::kFP32:
      return plain_kernel<CacheFormat::kFP32>(value);
    case CacheFormat::kBF16:
      return plain_kernel<CacheFormat::kBF16>(value);
    case CacheFormat::kFP8:
      return plain_kernel<CacheFormat::kFP8>(value);
    case CacheFormat::kInt8:
    case CacheFormat::kNVFP4:
      break;
  }
  throw internal_error("a cache format without a kernel");
}

}  // namespace

void launch_attention_plain(int parts, const AttentionPlainArguments& arguments, const CudaLaunch& launch) {
  const int rows = arguments.positions.tokens * arguments.shape.heads;
  launch_kernel("attention_plain", plain_kernel(arguments.key_format, arguments.value_format),
                {.blocks = parts * rows + arguments.fill.blocks, .threads = kThreads}, launch, arguments);
}

}  // namespace tare::engine
