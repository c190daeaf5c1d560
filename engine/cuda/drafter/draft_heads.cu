// Norms of queries and keys, rotation, keys and values to the cache. A thread block has one head (a query, a key or a
// value) of two neighbouring tokens: that is how the product's planes lie.
#include "base/error.h"
#include "engine/cuda/attention/attention_device.cuh"
#include "engine/cuda/device/launch.cuh"
#include "engine/cuda/drafter/drafter_kernels.h"
#include "engine/cuda/product/product_result.cuh"

namespace tare::engine {
namespace {

constexpr int kMostDims = 256;
constexpr int kMostWarps = kMostDims / 64;  // a thread has two neighbouring dims

constexpr int kPlanesAtOnce = 12;  // of 6144x5120 over 264 blocks: all at once

enum class HeadKind { kQuery, kKey, kValue };
struct Head {
  HeadKind kind = HeadKind::kQuery;
  int layer = 0;
  int index = 0;  // among those of its kind and layer
};

__device__ __forceinline__ Head head_of(const DraftHeadsArguments& arguments, int unit) {
  const DrafterShape& shape = arguments.shape;
  int layer = arguments.layer;
  if (arguments.query_form == DraftQueries::kNone) {
    layer = unit / (2 * shape.kv_heads);
    unit %= 2 * shape.kv_heads;
  } else if (unit < shape.heads) {
    return {HeadKind::kQuery, layer, unit};
  } else {
    unit -= shape.heads;
  }
  if (unit < shape.kv_heads) return {HeadKind::kKey, layer, unit};
  return {HeadKind::kValue, layer, unit - shape.kv_heads};
}

__device__ __forceinline__ void store_query(const DraftHeadsArguments& arguments, int token, int head, int dim,
                                            float2 pair) {
  const DrafterShape& shape = arguments.shape;
  pair.x *= arguments.query_factor;
  pair.y *= arguments.query_factor;
  if (arguments.query_form == DraftQueries::kFP32Rows) {
    const std::int64_t place = (static_cast<std::int64_t>(token) * shape.heads + head) * shape.head_dim + dim;
    *reinterpret_cast<float2*>(reinterpret_cast<float*>(arguments.queries) + place) = pair;
    return;
  }
  const int group = shape.heads_a_kv_head();
  const std::int64_t row = (static_cast<std::int64_t>(head / group) * arguments.tokens + token) * group + head % group;
  reinterpret_cast<std::uint32_t*>(arguments.queries)[(row * shape.head_dim + dim) / 2] = narrow_to_bf16(pair);
}

__global__ void draft_heads_kernel(const __grid_constant__ DraftHeadsArguments arguments, int units) {
  __shared__ float squares[2][kMostWarps];
  __shared__ float rows[2][kMostDims];
  ptx::launch_dependents();
  const DrafterShape& shape = arguments.shape;
  const int unit = static_cast<int>(blockIdx.x) % units;
  const int pair = static_cast<int>(blockIdx.x) / units;
  const Head head = head_of(arguments, unit);
  const int dim = 2 * static_cast<int>(threadIdx.x);
  const bool has_dims = dim < shape.head_dim;
  int tokens = arguments.tokens;
  const int row = unit * shape.head_dim + (has_dims ? dim : 0);
  const ResultQuad source(arguments.result, row, pair, tokens);
  const int planes = arguments.result.planes ? arguments.result.plan.planes(row / kUnitRows) : 0;
  int first = arguments.first;
  if (arguments.control != nullptr) {
    const bool block = arguments.query_form != DraftQueries::kNone;
    first = block ? arguments.control->frontier : arguments.control->first_feature;
    if (!block) tokens = min(tokens, arguments.control->features);
  }
  const int half = shape.head_dim / 2;
  float2 gain{1.0F, 1.0F};
  float cosines[2][2] = {};  // [token][dim]
  float sines[2][2] = {};
  if (has_dims && head.kind != HeadKind::kValue) {
    const float* gains =
        head.kind == HeadKind::kQuery ? arguments.q_norm : arguments.k_norms + head.layer * shape.head_dim;
    gain = {gains[dim], gains[dim + 1]};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int token = 2 * pair + i / 2;
      if (token >= tokens) continue;
      const std::int64_t angle = static_cast<std::int64_t>(first + token) * half + (dim + i % 2) % half;
      cosines[i / 2][i % 2] = arguments.rope.cosines[angle];
      sines[i / 2][i % 2] = arguments.rope.sines[angle];
    }
  }
  ptx::wait_for_preceding_grid();

  float4 quad{0.0F, 0.0F, 0.0F, 0.0F};
  if (has_dims && 2 * pair < tokens)
    quad = planes > 0 ? product_quad<kPlanesAtOnce>(arguments.result, planes, row, pair) : source.load();
  if (head.kind != HeadKind::kValue) {
    const float sums[2] = {sum_of_warp(sum_of_squares(quad.x, quad.z)), sum_of_warp(sum_of_squares(quad.y, quad.w))};
    if (threadIdx.x % 32 == 0) {
      squares[0][threadIdx.x / 32] = sums[0];
      squares[1][threadIdx.x / 32] = sums[1];
    }
    __syncthreads();
    float factors[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      float sum = squares[i][0];
      for (int warp = 1; warp < static_cast<int>(blockDim.x) / 32; ++warp) sum += squares[i][warp];
      factors[i] = __fdiv_rn(1.0F, __fsqrt_rn(__fdiv_rn(sum, static_cast<float>(shape.head_dim)) + shape.eps));
    }
    quad = {quad.x * factors[0] * gain.x, quad.y * factors[1] * gain.x, quad.z * factors[0] * gain.y,
            quad.w * factors[1] * gain.y};
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
    float values[2];
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const int d = dim + j;
      values[j] = rows[i][d];
      if (head.kind == HeadKind::kValue) continue;
      values[j] = d < half ? rotated(values[j], rows[i][d + half], cosines[i][j], sines[i][j])
                           : rotated(values[j], rows[i][d - half], cosines[i][j], -sines[i][j]);
    }
    if (head.kind == HeadKind::kQuery) {
      store_query(arguments, token, head.index, dim, {values[0], values[1]});
      continue;
    }
    const DraftCache& cache = arguments.cache;
    std::byte* target = head.kind == HeadKind::kKey ? cache.keys : cache.values;
    const std::int64_t run = static_cast<std::int64_t>(head.layer) * shape.kv_heads + head.index;
    const std::int64_t place = (run * cache.slots + first + token) * shape.head_dim + dim;
    store_cached_pair(cache.format, target + place * element_bytes(cache.format), values[0], values[1]);
  }
}

}  // namespace

void check_drafter_shape(const DrafterShape& shape) {
  const auto require = [](bool good, const char* name, int value) {
    if (!good) {
      throw input_error("speculate.drafter",
                        std::string(name) + " of " + std::to_string(value) + " has no kernels in backend cuda");
    }
  };
  require(shape.kv_heads > 0, "a number of key-value heads", shape.kv_heads);
  require(shape.heads > 0 && shape.heads % shape.kv_heads == 0, "a number of query heads", shape.heads);
  require(shape.head_dim > 0 && shape.head_dim % 4 == 0 && shape.head_dim <= kMostDims, "a head dimension",
          shape.head_dim);
}

void launch_draft_heads(const DraftHeadsArguments& arguments, const CudaLaunch& launch) {
  const DrafterShape& shape = arguments.shape;
  const int units = arguments.query_form == DraftQueries::kNone ? shape.layers * 2 * shape.kv_heads
                                                                : shape.heads + 2 * shape.kv_heads;
  if (arguments.result.rows != units * shape.head_dim)
    throw internal_error("a draft's heads are not its product's rows");
  const int threads = (shape.head_dim / 2 + 31) / 32 * 32;
  const int pairs = (arguments.tokens + 1) / 2;
  launch_kernel("draft_heads", draft_heads_kernel, {.blocks = units * pairs, .threads = threads}, launch, arguments,
                units);
}

}  // namespace tare::engine
