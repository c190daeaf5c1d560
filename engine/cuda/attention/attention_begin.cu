// Norms of queries and keys, rotation, append to the cache. A thread block has one head (a query, a key or a value) of
// two neighbouring tokens: that is how the product's planes lie. Without scales it has 62 registers: up to 64, two find
// room beside two blocks of the product before (product_stream.cuh: kStreamRegisters), so that all of a verify's have
// come to their wait when that ends.
#include "engine/cuda/attention/attention_blocks.cuh"
#include "engine/cuda/attention/attention_device.cuh"
#include "engine/cuda/device/launch.cuh"

namespace tare::engine {
namespace {

constexpr int kThreads = kMostHeadDim / 2;  // a thread has two neighbouring dims

// Where dims `dim` and dim + 1 (even; head_dim at most) of a token's head go. Found before the wait.
struct Target {
  std::byte* place = nullptr;
  int step = 0;  // bytes from the first to the second; 0: together
};
__device__ __forceinline__ Target query_target(const AttentionBeginArguments& arguments, int token, int head, int dim) {
  const CudaAttentionShape& shape = arguments.shape;
  if (arguments.query_form == QueryForm::kFP32Rows) {
    const std::int64_t row = static_cast<std::int64_t>(token) * shape.heads + head;
    return {arguments.queries + (row * shape.head_dim + dim) * 4};
  }
  const ColumnPlan& columns = arguments.columns;
  const int a_kv_head = shape.heads / shape.kv_heads;
  const int column = token % columns.tokens_a_group * a_kv_head + head % a_kv_head;
  const std::int64_t block = head / a_kv_head * columns.groups + token / columns.tokens_a_group;
  const std::int64_t place = block * columns.column_tiles * kColumnTileElements + query_place(column, dim);
  return {arguments.queries + place * 2};
}
// Of a format without scales.
__device__ __forceinline__ Target cache_target(const AttentionBeginArguments& arguments, bool is_value, int head,
                                               int slot, int dim) {
  const int head_dim = arguments.shape.head_dim;
  const CacheFormat format = is_value ? arguments.value_format : arguments.key_format;
  const std::int64_t run = head * arguments.slots * head_dim * element_bytes(format);
  if (!is_value) return {arguments.keys + run + key_place(format, head_dim, slot, dim)};
  const int step = cache_is_tiled(format, head_dim) ? piece_place(element_bytes(format), 1, 0) : element_bytes(format);
  return {arguments.values + run + value_place(format, head_dim, slot, dim), step};
}
__device__ __forceinline__ void store_query(QueryForm form, const Target& target, float2 pair) {
  if (form == QueryForm::kFP32Rows) {
    *reinterpret_cast<float2*>(target.place) = pair;
  } else {
    *reinterpret_cast<__half2*>(target.place) = __float22half2_rn(pair);
  }
}
__device__ __forceinline__ void store_in_cache(CacheFormat format, const Target& target, float2 pair) {
  if (target.step == 0) return store_cached_pair(format, target.place, pair.x, pair.y);
  store_cached(format, target.place, pair.x);
  store_cached(format, target.place + target.step, pair.y);
}

// formats/hadamard.h of both tokens' heads, sum by sum: distances within a thread, a warp, and across warps. `rows` is
// work space; every thread of the block.
__device__ __forceinline__ void rotate_hadamard(float2 (&pairs)[2], float (&rows)[2][kMostHeadDim], int head_dim,
                                                float factor) {
  const int thread = static_cast<int>(threadIdx.x);
  const auto combine = [](bool upper, float own, float other) { return upper ? other - own : own + other; };
#pragma unroll
  for (int i = 0; i < 2; ++i) pairs[i] = {pairs[i].x + pairs[i].y, pairs[i].x - pairs[i].y};
  for (int distance = 1; distance < 32 && 2 * distance < head_dim; distance *= 2) {
    const bool upper = (thread & distance) != 0;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      pairs[i] = {combine(upper, pairs[i].x, __shfl_xor_sync(~0U, pairs[i].x, distance)),
                  combine(upper, pairs[i].y, __shfl_xor_sync(~0U, pairs[i].y, distance))};
    }
  }
  for (int distance = 32; 2 * distance < head_dim; distance *= 2) {
    const bool upper = (thread & distance) != 0;
    __syncthreads();  // everyone has read what lies there
#pragma unroll
    for (int i = 0; i < 2; ++i) *reinterpret_cast<float2*>(&rows[i][2 * thread]) = pairs[i];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float2 other = *reinterpret_cast<const float2*>(&rows[i][2 * (thread ^ distance)]);
      pairs[i] = {combine(upper, pairs[i].x, other.x), combine(upper, pairs[i].y, other.y)};
    }
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) pairs[i] = {pairs[i].x * factor, pairs[i].y * factor};
}

// kBlocks: keys or values may have scales.
template <bool kBlocks>
__global__ void __launch_bounds__(kThreads)
    attention_begin_kernel(const __grid_constant__ AttentionBeginArguments arguments) {
  __shared__ float squares[2][kThreads / 32];
  __shared__ alignas(8) float rows[2][kMostHeadDim];
  ptx::launch_dependents();
  const CudaAttentionShape& shape = arguments.shape;
  const int units = shape.heads + 2 * shape.kv_heads;
  const int unit = static_cast<int>(blockIdx.x) % units;
  const int pair = static_cast<int>(blockIdx.x) / units;
  const bool is_query = unit < shape.heads;
  const bool is_value = unit >= shape.heads + shape.kv_heads;
  const int dim = 2 * static_cast<int>(threadIdx.x);
  const bool has_dims = dim < shape.head_dim;
  const int tokens = arguments.positions.tokens;
  // Query heads alternate with their gates.
  const int row = (is_query ? 2 * unit : unit + shape.heads) * shape.head_dim;
  const ResultQuad source(arguments.qkv, row + (has_dims ? dim : 0), pair, tokens);
  const RoundControl* const control = arguments.positions.control;
  const int frontier = first_position(arguments.positions);
  int depths[2] = {2 * pair, 2 * pair + 1};
  if (control != nullptr) {
    const int2 two = *reinterpret_cast<const int2*>(control->depths + 2 * pair);
    depths[0] = two.x;
    depths[1] = two.y;
  }
  const int half = shape.rotary_dim / 2;
  float2 gain{1.0F, 1.0F};
  float cosines[2][2] = {};  // [token][dim]
  float sines[2][2] = {};
  if (has_dims && !is_value) {
    const float* gains = is_query ? arguments.weights.q_norm : arguments.weights.k_norm;
    gain = {gains[dim], gains[dim + 1]};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int token = 2 * pair + i / 2;
      const int d = dim + i % 2;
      if (token >= tokens || d >= shape.rotary_dim) continue;
      const std::int64_t angle = static_cast<std::int64_t>(frontier + depths[i / 2]) * half + d % half;
      cosines[i / 2][i % 2] = arguments.rope.cosines[angle];
      sines[i / 2][i % 2] = arguments.rope.sines[angle];
    }
  }
  const bool has_scaled_target =
      kBlocks && !is_query && has_scales(is_value ? arguments.value_format : arguments.key_format);
  Target targets[2];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    if (!has_dims || has_scaled_target || 2 * pair + i >= tokens) continue;
    targets[i] = is_query ? query_target(arguments, 2 * pair + i, unit, dim)
                          : cache_target(arguments, is_value, unit - shape.heads - (is_value ? shape.kv_heads : 0),
                                         frontier + 2 * pair + i, dim);
    ptx::have_computed(reinterpret_cast<std::int64_t>(targets[i].place));
  }
  ptx::wait_for_preceding_grid();

  float4 quad = source.load();
  if (!has_dims) quad = {0.0F, 0.0F, 0.0F, 0.0F};
  if (!is_value) {
    const float first = sum_of_warp(sum_of_squares(quad.x, quad.z));
    const float second = sum_of_warp(sum_of_squares(quad.y, quad.w));
    if (threadIdx.x % 32 == 0) {
      squares[0][threadIdx.x / 32] = first;
      squares[1][threadIdx.x / 32] = second;
    }
    __syncthreads();
    // Even lanes find the first token's.
    const float own = norm_factor(squares[threadIdx.x % 2], shape);
    const float other = __shfl_xor_sync(~0U, own, 1);
    const float factors[2] = {threadIdx.x % 2 == 0 ? own : other, threadIdx.x % 2 == 0 ? other : own};
    quad.x = quad.x * factors[0] * gain.x;
    quad.z = quad.z * factors[0] * gain.y;
    quad.y = quad.y * factors[1] * gain.x;
    quad.w = quad.w * factors[1] * gain.y;
  }
  if (has_dims) {
    rows[0][dim] = quad.x;
    rows[0][dim + 1] = quad.z;
    rows[1][dim] = quad.y;
    rows[1][dim + 1] = quad.w;
  }
  __syncthreads();
  float2 turned[2] = {};
  if (has_dims) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      float values[2];
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const int d = dim + j;
        values[j] = rows[i][d];
        if (is_value || d >= shape.rotary_dim) continue;
        values[j] = d < half ? rotated(values[j], rows[i][d + half], cosines[i][j], sines[i][j])
                             : rotated(values[j], rows[i][d - half], cosines[i][j], -sines[i][j]);
      }
      turned[i] = {values[0], values[1]};
    }
  }
  if (arguments.hadamard_factor != 0 && !is_value)
    rotate_hadamard(turned, rows, shape.head_dim, arguments.hadamard_factor);
  if (kBlocks && has_scaled_target) {
    const CacheFormat format = is_value ? arguments.value_format : arguments.key_format;
    const int head = unit - shape.heads - (is_value ? shape.kv_heads : 0);
    std::byte* run = (is_value ? arguments.values : arguments.keys) +
                     head * arguments.slots * cache_row_bytes(format, shape.head_dim);
#pragma unroll 1
    for (int i = 0; i < 2 && 2 * pair + i < tokens; ++i) {
      store_block_pair(format, is_value, run, shape.head_dim, frontier + 2 * pair + i, dim, has_dims, turned[i]);
    }
    return;
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    if (targets[i].place == nullptr) return;
    if (is_query) {
      const float factor = arguments.query_factor;
      store_query(arguments.query_form, targets[i], {turned[i].x * factor, turned[i].y * factor});
    } else {
      store_in_cache(is_value ? arguments.value_format : arguments.key_format, targets[i], turned[i]);
    }
  }
}

}  // namespace

void launch_attention_begin(const AttentionBeginArguments& arguments, const CudaLaunch& launch) {
  const CudaAttentionShape& shape = arguments.shape;
  const int units = shape.heads + 2 * shape.kv_heads;
  const int pairs = (arguments.positions.tokens + 1) / 2;
  const bool blocks = has_scales(arguments.key_format) || has_scales(arguments.value_format);
  launch_kernel("attention_begin", blocks ? attention_begin_kernel<true> : attention_begin_kernel<false>,
                {.blocks = units * pairs, .threads = kThreads}, launch, arguments);
}

}  // namespace tare::engine
