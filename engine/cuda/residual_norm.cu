// Residual and norm. In a round the planes of the product before it are spread over many SMs: a cluster of thread
// blocks serves two tokens, each block a slice of the columns, and the sums of squares cross the cluster. Plain rows
// have one block a token.
#include <cooperative_groups.h>
#include <cuda_bf16.h>

#include "base/error.h"
#include "engine/cuda/device/launch.cuh"
#include "engine/cuda/device/ptx.cuh"
#include "engine/cuda/elementwise.h"
#include "engine/cuda/product/operand.cuh"
#include "engine/cuda/product/product_result.cuh"

namespace tare::engine {
namespace {

// 27B: 5,120 columns are 80 groups; 16 blocks a cluster, five warps a block, one group a warp.
constexpr int kWarps = 5;
constexpr int kThreads = 32 * kWarps;
constexpr int kCluster = 16;    // beyond the portable 8; 128 blocks of 16 tokens then share the planes' bytes
constexpr int kRegisters = 64;  // a block fits on an SM beside two blocks of a product
constexpr int kPlaneBatch = 8;  // planes of 5120x17408 and 5120x6144 over 132 blocks
constexpr int kRowThreads = 256;

__device__ __forceinline__ float warp_sum(float value) {
  for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(~0U, value, step);
  return value;
}

__device__ __forceinline__ float2 load_pair(const float* x) {
  return *reinterpret_cast<const float2*>(x);
}
__device__ __forceinline__ void store_pair(float* x, float2 pair) {
  *reinterpret_cast<float2*>(x) = pair;
}

// A pair of numbers of x to where a drafter reads it.
__device__ __forceinline__ void store_tap(const TapRows& tap, int token, int column, float2 pair) {
  if (tap.data == nullptr) return;
  const std::int64_t place = token * tap.stride + column;
  if (tap.bf16) {
    reinterpret_cast<__nv_bfloat162*>(tap.data)[place / 2] = __float22bfloat162_rn(pair);
  } else {
    store_pair(reinterpret_cast<float*>(tap.data) + place, pair);
  }
}

// Two tokens' rows of x with the increment added, columns `column` and column + 1; written back.
struct TwoTokens {
  float2 first{0.0F, 0.0F};
  float2 second{0.0F, 0.0F};
};
__device__ __forceinline__ TwoTokens add_increment(const NormArguments& arguments, int plane_count, int pair,
                                                   int column) {
  TwoTokens two;
  float* row = arguments.x + static_cast<std::int64_t>(2 * pair) * arguments.hidden + column;
  const bool has_first = 2 * pair < arguments.tokens;
  const bool has_second = 2 * pair + 1 < arguments.tokens;
  if (!has_first) return two;
  two.first = load_pair(row);
  if (has_second) two.second = load_pair(row + arguments.hidden);
  if (arguments.increment.data == nullptr) return two;
  const float4 more = product_quad<kPlaneBatch>(arguments.increment, plane_count, column, pair);
  two.first.x += more.x, two.first.y += more.z;
  store_pair(row, two.first);
  store_tap(arguments.tap, 2 * pair, column, two.first);
  if (has_second) {
    two.second.x += more.y, two.second.y += more.w;
    store_pair(row + arguments.hidden, two.second);
    store_tap(arguments.tap, 2 * pair + 1, column, two.second);
  }
  return two;
}

__device__ __forceinline__ void add_squares(const TwoTokens& two, float (&squares)[2]) {
  squares[0] += two.first.x * two.first.x + two.first.y * two.first.y;
  squares[1] += two.second.x * two.second.x + two.second.y * two.second.y;
}

__device__ __forceinline__ float2 load_gain(const NormArguments& arguments, int group) {
  const int column = group * kOperandGroup + 2 * static_cast<int>(threadIdx.x % 32);
  return column < arguments.hidden ? load_pair(arguments.gain + column) : float2{0.0F, 0.0F};
}

// A group's columns of two tokens, normalised, to where they go.
__device__ __forceinline__ void store_normed(const NormArguments& arguments, int group, int pair, const TwoTokens& two,
                                             float2 gain, const float (&factors)[2]) {
  const int column = group * kOperandGroup + 2 * static_cast<int>(threadIdx.x % 32);
  const bool inside = column < arguments.hidden;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int token = 2 * pair + i;
    const float2 x = i == 0 ? two.first : two.second;
    float2 value{x.x * (factors[i] * gain.x), x.y * (factors[i] * gain.y)};
    const bool real = inside && token < arguments.tokens;
    if (!real) value = {0.0F, 0.0F};
    if (real && arguments.normed != nullptr) {
      store_pair(arguments.normed + static_cast<std::int64_t>(token) * arguments.hidden + column, value);
    }
    store_group(arguments.out, group, token, value);
  }
}

__global__ void __maxnreg__(kRegisters)
    norm_planes_kernel(const __grid_constant__ NormArguments arguments, int cluster) {
  __shared__ float warp_squares[kWarps][2];
  __shared__ float2 block_squares[kCluster];  // of the cluster's blocks, each written by its own
#if __CUDA_ARCH__ >= 900
  namespace cg = cooperative_groups;
  cg::cluster_group blocks = cg::this_cluster();
  auto all_run = blocks.barrier_arrive();  // before anybody writes into another block's shared memory
#endif
  const auto warp = static_cast<int>(threadIdx.x / 32);
  const auto lane = static_cast<int>(threadIdx.x % 32);
  const int rank = static_cast<int>(blockIdx.x) % cluster;
  const int pair = static_cast<int>(blockIdx.x) / cluster;
  const auto groups = static_cast<int>(operand_blocks(arguments.hidden));
  const int share = (groups + cluster - 1) / cluster;
  const int end = min(groups, (rank + 1) * share);
  const int first = rank * share + warp;
  ptx::launch_dependents();
  const bool has_increment = arguments.increment.data != nullptr;
  // All 64 rows of a group lie in one row block.
  const float2 first_gain = first < end ? load_gain(arguments, first) : float2{0.0F, 0.0F};
  const int first_count = has_increment && first < end ? arguments.increment.plan.planes(first / 4) : 1;
  ptx::wait_for_preceding_grid();

  TwoTokens kept;  // of this warp's first group
  if (first < end && first * kOperandGroup + 2 * lane < arguments.hidden) {
    kept = add_increment(arguments, first_count, pair, first * kOperandGroup + 2 * lane);
  }
  float squares[2] = {0.0F, 0.0F};
  add_squares(kept, squares);
  for (int group = first + kWarps; group < end; group += kWarps) {
    const int column = group * kOperandGroup + 2 * lane;
    if (column >= arguments.hidden) break;
    const int plane_count = has_increment ? arguments.increment.plan.planes(group / 4) : 1;
    add_squares(add_increment(arguments, plane_count, pair, column), squares);
  }
#pragma unroll
  for (int token = 0; token < 2; ++token) {
    squares[token] = warp_sum(squares[token]);
    if (lane == 0) warp_squares[warp][token] = squares[token];
  }
  __syncthreads();
  if (static_cast<int>(threadIdx.x) < cluster) {
    float2 sum{0.0F, 0.0F};
#pragma unroll
    for (const auto& two : warp_squares) sum = {sum.x + two[0], sum.y + two[1]};
#if __CUDA_ARCH__ >= 900
    blocks.barrier_wait(std::move(all_run));
    *blocks.map_shared_rank(&block_squares[rank], static_cast<int>(threadIdx.x)) = sum;
  } else {
    blocks.barrier_wait(std::move(all_run));
  }
  blocks.sync();
#else
    block_squares[0] = sum;
  }
  __syncthreads();
#endif
  const float2 part = lane < cluster ? block_squares[lane] : float2{0.0F, 0.0F};
  const float total[2] = {warp_sum(part.x), warp_sum(part.y)};
  const auto size = static_cast<float>(arguments.hidden);
  const float factors[2] = {1.0F / sqrtf(total[0] / size + arguments.eps),
                            1.0F / sqrtf(total[1] / size + arguments.eps)};
  if (first < end) store_normed(arguments, first, pair, kept, first_gain, factors);
  for (int group = first + kWarps; group < end; group += kWarps) {
    const int column = group * kOperandGroup + 2 * lane;
    TwoTokens two;
    if (column < arguments.hidden && 2 * pair < arguments.tokens) {
      const float* row = arguments.x + static_cast<std::int64_t>(2 * pair) * arguments.hidden + column;
      two.first = load_pair(row);
      if (2 * pair + 1 < arguments.tokens) two.second = load_pair(row + arguments.hidden);
    }
    store_normed(arguments, group, pair, two, load_gain(arguments, group), factors);
  }
}

__global__ void __launch_bounds__(kRowThreads) norm_rows_kernel(const __grid_constant__ NormArguments arguments) {
  constexpr int kRowWarps = kRowThreads / 32;
  __shared__ float warp_squares[kRowWarps];
  ptx::launch_dependents();
  ptx::wait_for_preceding_grid();
  const auto token = static_cast<int>(blockIdx.x);
  const bool real = token < arguments.tokens;
  float* row = arguments.x + static_cast<std::int64_t>(token) * arguments.hidden;
  float squares = 0.0F;
  for (int column = 2 * static_cast<int>(threadIdx.x); real && column < arguments.hidden; column += 2 * kRowThreads) {
    float2 value = load_pair(row + column);
    if (arguments.increment.data != nullptr) {
      value.x += product_value(arguments.increment, column, token);
      value.y += product_value(arguments.increment, column + 1, token);
      store_pair(row + column, value);
      store_tap(arguments.tap, token, column, value);
    }
    squares += value.x * value.x + value.y * value.y;
  }
  squares = warp_sum(squares);
  if (threadIdx.x % 32 == 0) warp_squares[threadIdx.x / 32] = squares;
  __syncthreads();
  float total = 0.0F;
  for (const float part : warp_squares) total += part;
  const float factor = 1.0F / sqrtf(total / static_cast<float>(arguments.hidden) + arguments.eps);
  const auto groups = static_cast<int>(operand_blocks(arguments.hidden));
  const auto lane = static_cast<int>(threadIdx.x % 32);
  for (auto group = static_cast<int>(threadIdx.x / 32); group < groups; group += kRowWarps) {
    const int column = group * kOperandGroup + 2 * lane;
    float2 value{0.0F, 0.0F};
    if (real && column < arguments.hidden) {
      // Other threads of this block wrote it, before the barrier.
      value = load_pair(row + column);
      const float2 gain = load_pair(arguments.gain + column);
      value.x *= factor * gain.x;
      value.y *= factor * gain.y;
      if (arguments.normed != nullptr) {
        store_pair(arguments.normed + static_cast<std::int64_t>(token) * arguments.hidden + column, value);
      }
    }
    store_group(arguments.out, group, token, value);
  }
}

int device_major() {
  int device = 0;
  int major = 0;
  check_cuda(cudaGetDevice(&device), "cudaGetDevice");
  check_cuda(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), "cudaDeviceGetAttribute");
  return major;
}

}  // namespace

void launch_residual_norm(const NormArguments& arguments, const CudaLaunch& launch) {
  if (arguments.hidden % 2 != 0) throw internal_error("a norm over an odd number of columns");
  const bool rows = arguments.out.layout == OperandLayout::kFP32Rows ||
                    arguments.out.layout == OperandLayout::kBF16Rows ||
                    (arguments.increment.data != nullptr && !arguments.increment.planes);
  if (rows) {
    launch_kernel("residual_norm_rows", norm_rows_kernel, {.blocks = arguments.out.width, .threads = kRowThreads},
                  launch, arguments);
    return;
  }
  const int cluster = device_major() >= 9 ? kCluster : 1;
  const LaunchShape shape{.blocks = cluster * arguments.out.width / 2, .threads = kThreads, .cluster = cluster};
  launch_kernel("residual_norm", norm_planes_kernel, shape, launch, arguments, cluster);
}

}  // namespace tare::engine
