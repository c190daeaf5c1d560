// Norms of queries and keys, rotation, append to the cache. A thread block has one head (a query, a key or a value) of
// two neighbouring tokens: that is how the product's planes lie.
#include <algorithm>

#include "engine/cuda/attention_device.cuh"
#include "engine/cuda/launch.cuh"
#include "engine/cuda/product_result.cuh"

namespace tare::engine {
namespace {

constexpr int kThreads = kMostHeadDim / 2;  // a thread has two neighbouring dims

// Rows `row` and row + 1 (row even) of tokens 2 pair, 2 pair + 1 as product_quad gives them.
__device__ __forceinline__ float4 load_quad(const ProductResult& result, int row, int pair, int tokens) {
  if (result.planes) return product_quad(result, result.plan.planes(row / 256), row, pair);
  const float* source = result.data + static_cast<std::int64_t>(2 * pair) * result.rows + row;
  const float2 first = *reinterpret_cast<const float2*>(source);
  float2 second{0.0F, 0.0F};
  if (2 * pair + 1 < tokens) second = *reinterpret_cast<const float2*>(source + result.rows);
  return {first.x * result.factor, second.x * result.factor, first.y * result.factor, second.y * result.factor};
}

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
  const int terms = arguments.query_form == QueryForm::kTwoBF16Columns ? 2 : 1;
  const std::int64_t term_elements = static_cast<std::int64_t>(columns.column_tiles) * kColumnTileElements;
  const std::int64_t block = head / a_kv_head * columns.groups + token / columns.tokens_a_group;
  const std::int64_t place = block * terms * term_elements + query_place(arguments.key_format, column, dim);
  if (arguments.query_form == QueryForm::kFP16Columns) {
    reinterpret_cast<__half*>(arguments.queries)[place] = __float2half_rn(value);
    return;
  }
  auto* queries = reinterpret_cast<__nv_bfloat16*>(arguments.queries);
  const __nv_bfloat16 high = __float2bfloat16_rn(value);
  queries[place] = high;
  if (terms == 2) queries[place + term_elements] = __float2bfloat16_rn(value - __bfloat162float(high));
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
  float2 gain{1.0F, 1.0F};
  if (has_dims && !is_value) {
    const float* gains = is_query ? arguments.weights.q_norm : arguments.weights.k_norm;
    gain = {gains[dim], gains[dim + 1]};
  }
  ptx::wait_for_preceding_grid();

  const int tokens = arguments.positions.tokens;
  // Query heads alternate with their gates.
  const int row = (is_query ? 2 * unit : unit + shape.heads) * shape.head_dim;
  float4 quad{0.0F, 0.0F, 0.0F, 0.0F};
  if (has_dims) quad = load_quad(arguments.qkv, row + dim, pair, tokens);
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

  const int frontier = first_position(arguments.positions);
  const int half = shape.rotary_dim / 2;
  for (int i = 0; i < 2; ++i) {
    const int token = 2 * pair + i;
    if (token >= tokens) return;
    const int position = frontier + token;
    for (int d = dim; d < dim + 2; ++d) {
      float value = rows[i][d];
      if (!is_value && d < shape.rotary_dim) {
        const std::int64_t angle = static_cast<std::int64_t>(position) * half + d % half;
        const float cosine = arguments.rope.cosines[angle];
        const float sine = arguments.rope.sines[angle];
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
