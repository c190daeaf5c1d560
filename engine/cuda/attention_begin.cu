// Norms of queries and keys, rotation, append to the cache. A thread block has one head (a query, a key or a value) of
// two neighbouring tokens: that is how the product's planes lie.
#include "engine/cuda/attention_device.cuh"
#include "engine/cuda/launch.cuh"

namespace tare::engine {
namespace {

constexpr int kThreads = kMostHeadDim / 2;  // a thread has two neighbouring dims

__device__ __forceinline__ void store_query(const AttentionBeginArguments& arguments, int token, int head, int dim,
                                            float value) {
  const CudaAttentionShape& shape = arguments.shape;
  value *= arguments.query_factor;
  if (arguments.query_form == QueryForm::kFP32Rows) {
    const std::int64_t row = static_cast<std::int64_t>(token) * shape.heads + head;
    reinterpret_cast<float*>(arguments.queries)[row * shape.head_dim + dim] = value;
    return;
  }
  const ColumnPlan& columns = arguments.columns;
  const int a_kv_head = shape.heads / shape.kv_heads;
  const int column = token % columns.tokens_a_group * a_kv_head + head % a_kv_head;
  const std::int64_t block = head / a_kv_head * columns.groups + token / columns.tokens_a_group;
  const std::int64_t place = block * columns.column_tiles * kColumnTileElements + query_place(column, dim);
  reinterpret_cast<__half*>(arguments.queries)[place] = __float2half_rn(value);
}

__global__ void __launch_bounds__(kThreads)
    attention_begin_kernel(const __grid_constant__ AttentionBeginArguments arguments) {
  __shared__ float squares[2][kThreads / 32];
  __shared__ float rows[2][kMostHeadDim];
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
  const int frontier = first_position(arguments.positions);
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
      const std::int64_t angle = static_cast<std::int64_t>(frontier + token) * half + d % half;
      cosines[i / 2][i % 2] = arguments.rope.cosines[angle];
      sines[i / 2][i % 2] = arguments.rope.sines[angle];
    }
  }
  ptx::wait_for_preceding_grid();

  float4 quad = source.load();
  if (!has_dims) quad = {0.0F, 0.0F, 0.0F, 0.0F};
  if (!is_value) {
    const float first = sum_of_warp(quad.x * quad.x + quad.z * quad.z);
    const float second = sum_of_warp(quad.y * quad.y + quad.w * quad.w);
    if (threadIdx.x % 32 == 0) {
      squares[0][threadIdx.x / 32] = first;
      squares[1][threadIdx.x / 32] = second;
    }
    __syncthreads();
    float factors[2];
    for (int i = 0; i < 2; ++i) {
      const float sum = (squares[i][0] + squares[i][1]) + (squares[i][2] + squares[i][3]);
      factors[i] = 1.0F / sqrtf(sum / static_cast<float>(shape.head_dim) + shape.eps);
    }
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
  if (!has_dims) return;

#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int token = 2 * pair + i;
    if (token >= tokens) return;
    const int position = frontier + token;
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const int d = dim + j;
      float value = rows[i][d];
      if (!is_value && d < shape.rotary_dim) {
        const float cosine = cosines[i][j];
        const float sine = sines[i][j];
        value = d < half ? value * cosine - rows[i][d + half] * sine : value * cosine + rows[i][d - half] * sine;
      }
      if (is_query) {
        store_query(arguments, token, unit, d, value);
      } else if (is_value) {
        const std::int64_t run = arguments.slots * shape.head_dim * element_bytes(arguments.value_format);
        store_cached(arguments.value_format,
                     arguments.values + (unit - shape.heads - shape.kv_heads) * run +
                         value_place(arguments.value_format, shape.head_dim, position, d),
                     value);
      } else {
        const std::int64_t run = arguments.slots * shape.head_dim * element_bytes(arguments.key_format);
        store_cached(
            arguments.key_format,
            arguments.keys + (unit - shape.heads) * run + key_place(arguments.key_format, shape.head_dim, position, d),
            value);
      }
    }
  }
}

}  // namespace

void launch_attention_begin(const AttentionBeginArguments& arguments, const CudaLaunch& launch) {
  const CudaAttentionShape& shape = arguments.shape;
  const int units = shape.heads + 2 * shape.kv_heads;
  const int pairs = (arguments.positions.tokens + 1) / 2;
  launch_kernel("attention_begin", attention_begin_kernel, {.blocks = units * pairs, .threads = kThreads}, launch,
                arguments);
}

}  // namespace tare::engine
