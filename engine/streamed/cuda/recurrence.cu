#include "base/error.h"
#include "engine/cuda/device/launch.cuh"
#include "engine/streamed/cuda/streamed_kernels.h"

namespace tare::engine {
namespace {

// A thread holds one column of a head's state, 128 numbers, in registers for all tokens; columns do not know each
// other. Keys and queries are the same for all columns: they come from shared memory, 16 tokens at a time. A token
// costs a thread 128 x (2 + 4) floating-point instructions at most and 96 shared loads of 16 bytes that all lanes
// share, so the kernel is bounded by its arithmetic: 4 x 128 instructions a token and column.
//
//        columns 0 .. 127 (threads)
//       +-----------------------+
//    k  |  s[0]  s[0] ...        |   p = s . k      over i, in four sums
//    i  |  s[1]  s[1]            |   u = beta (v - alpha p)
//       |  ...                   |   s = alpha s + k u,  o = s . q
//       +-----------------------+
constexpr int kColumns = 128;
constexpr int kKeys = static_cast<int>(kMostKeyDim);
constexpr int kStagedTokens = 16;
constexpr int kSums = 4;  // independent, so that additions do not wait for each other

struct RecurrenceArguments {
  GdnShape shape;
  const float* y = nullptr;
  const float* alpha = nullptr;
  const float* beta = nullptr;
  float* out = nullptr;
};

__device__ __forceinline__ void stage(const RecurrenceArguments& arguments, std::int64_t row, std::int64_t head,
                                      int count, float (*keys)[kKeys], float (*queries)[kKeys]) {
  const GdnShape& shape = arguments.shape;
  const std::int64_t key_head = head / (shape.value_heads / shape.key_heads);
  for (int t = 0; t < count; ++t) {
    const float* source = arguments.y + (row + t) * shape.channels() + key_head * shape.key_dim;
    for (int i = static_cast<int>(threadIdx.x); i < kKeys; i += kColumns) {
      const bool inside = i < shape.key_dim;
      queries[t][i] = inside ? source[i] : 0.0F;
      keys[t][i] = inside ? source[shape.key_heads * shape.key_dim + i] : 0.0F;
    }
  }
}

__global__ void __launch_bounds__(kColumns, 3)
    recurrence_kernel(const __grid_constant__ RecurrenceArguments arguments) {
  __shared__ __align__(16) float keys[kStagedTokens][kKeys];
  __shared__ __align__(16) float queries[kStagedTokens][kKeys];
  const GdnShape& shape = arguments.shape;
  const std::int64_t tiles = (shape.value_dim + kColumns - 1) / kColumns;
  const std::int64_t tile = blockIdx.x % tiles;
  const std::int64_t head = blockIdx.x / tiles % shape.value_heads;
  const std::int64_t first_row = blockIdx.x / tiles / shape.value_heads * shape.window_tokens;
  const std::int64_t column = tile * kColumns + threadIdx.x;
  const bool valid = column < shape.value_dim;
  const std::int64_t value_offset = 2 * shape.key_heads * shape.key_dim + head * shape.value_dim + column;
  float state[kKeys];
#pragma unroll
  for (int i = 0; i < kKeys; ++i) state[i] = 0;
  for (std::int64_t begin = 0; begin < shape.window_tokens; begin += kStagedTokens) {
    const std::int64_t left = shape.window_tokens - begin;
    const int count = left < kStagedTokens ? static_cast<int>(left) : kStagedTokens;
    __syncthreads();
    stage(arguments, first_row + begin, head, count, keys, queries);
    __syncthreads();
    for (int t = 0; t < count; ++t) {
      const std::int64_t row = first_row + begin + t;
      const float value = valid ? arguments.y[row * shape.channels() + value_offset] : 0.0F;
      const float alpha = arguments.alpha[row * shape.value_heads + head];
      const float beta = arguments.beta[row * shape.value_heads + head];
      float sums[kSums] = {};
#pragma unroll
      for (int i = 0; i < kKeys; i += kSums) {
        const float4 k = *reinterpret_cast<const float4*>(&keys[t][i]);
        sums[0] = fmaf(state[i], k.x, sums[0]);
        sums[1] = fmaf(state[i + 1], k.y, sums[1]);
        sums[2] = fmaf(state[i + 2], k.z, sums[2]);
        sums[3] = fmaf(state[i + 3], k.w, sums[3]);
      }
      const float update = beta * (value - alpha * ((sums[0] + sums[1]) + (sums[2] + sums[3])));
      sums[0] = sums[1] = sums[2] = sums[3] = 0;
#pragma unroll
      for (int i = 0; i < kKeys; i += kSums) {
        const float4 k = *reinterpret_cast<const float4*>(&keys[t][i]);
        const float4 q = *reinterpret_cast<const float4*>(&queries[t][i]);
        state[i] = fmaf(k.x, update, alpha * state[i]);
        state[i + 1] = fmaf(k.y, update, alpha * state[i + 1]);
        state[i + 2] = fmaf(k.z, update, alpha * state[i + 2]);
        state[i + 3] = fmaf(k.w, update, alpha * state[i + 3]);
        sums[0] = fmaf(state[i], q.x, sums[0]);
        sums[1] = fmaf(state[i + 1], q.y, sums[1]);
        sums[2] = fmaf(state[i + 2], q.z, sums[2]);
        sums[3] = fmaf(state[i + 3], q.w, sums[3]);
      }
      if (valid)
        arguments.out[(row * shape.value_heads + head) * shape.value_dim + column] =
            (sums[0] + sums[1]) + (sums[2] + sums[3]);
    }
  }
}

}  // namespace

void launch_recurrence(const GdnShape& shape, const float* y, const float* alpha, const float* beta, float* out,
                       cudaStream_t stream) {
  if (shape.key_dim > kMostKeyDim) throw internal_error("a recurrence of more key dimensions than its registers hold");
  const std::int64_t tiles = (shape.value_dim + kColumns - 1) / kColumns;
  launch_kernel(
      "recurrence", recurrence_kernel,
      {.blocks = static_cast<int>(shape.rows / shape.window_tokens * shape.value_heads * tiles), .threads = kColumns},
      {.stream = stream}, RecurrenceArguments{shape, y, alpha, beta, out});
}

}  // namespace tare::engine
