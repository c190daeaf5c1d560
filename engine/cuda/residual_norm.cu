// Residual and norm. In a round the planes of the product before it are spread over many SMs: a cluster of thread
// blocks serves two tokens, each block a slice of the columns, and the sums of squares cross the cluster. Plain rows
// have one block a token.
#include <cuda_bf16.h>

#include "base/error.h"
#include "engine/cuda/device/cluster.cuh"
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
constexpr int kCluster = 16;  // beyond the portable 8; 128 blocks of 16 tokens then share the planes' bytes

// Up to eight tokens four blocks a GPC are all there is, and a round waits for each of them: all planes of a group at
// once. With more tokens a block's registers must not keep it from starting early beside two blocks of a product. (Two
// pairs of tokens a block of ten warps, half as many clusters, lost 5 % of a round of 16 tokens.)
struct FewTokens {
  static constexpr int kPlaneBatch = 16;  // planes of 5120x17408 over 264 blocks are 15
  static constexpr int kRegisters = 96;
};
struct ManyTokens {
  static constexpr int kPlaneBatch = 8;
  static constexpr int kRegisters = 64;
};
// A block fits on an SM beside two of a product.
static_assert(kThreads * FewTokens::kRegisters + 2 * 256 * 96 <= 65536);
static_assert(kThreads * ManyTokens::kRegisters + 2 * 256 * 96 <= 65536);
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
template <int kPlaneBatch>
__device__ __forceinline__ TwoTokens add_increment(const NormArguments& arguments, int plane_count, const float* planes,
                                                   int pair, int column) {
  TwoTokens two;
  float* row = arguments.x + static_cast<std::int64_t>(2 * pair) * arguments.hidden + column;
  const bool has_first = 2 * pair < arguments.tokens;
  const bool has_second = 2 * pair + 1 < arguments.tokens;
  if (!has_first) return two;
  two.first = load_pair(row);
  if (has_second) two.second = load_pair(row + arguments.hidden);
  if (arguments.increment.data == nullptr) return two;
  const ProductResult& increment = arguments.increment;
  const auto sum = sum_planes<kPlaneBatch, float4>(planes, plane_floats(increment.plan, increment.width), plane_count);
  const float4 more{sum.x * increment.factor, sum.y * increment.factor, sum.z * increment.factor,
                    sum.w * increment.factor};
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
  float2 values[2];
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
    values[i] = value;
  }
  store_two_groups(arguments.out, group, 2 * pair, values[0], values[1]);
}

template <class Form>
__global__ void __maxnreg__(Form::kRegisters)
    norm_planes_kernel(const __grid_constant__ NormArguments arguments, int cluster) {
  constexpr int kPlaneBatch = Form::kPlaneBatch;
  __shared__ float warp_squares[kWarps][2];
  __shared__ float2 block_squares[kCluster];  // of the cluster's blocks, each written by its own
#if __CUDA_ARCH__ >= 900
  __shared__ std::uint64_t squares_barrier;
  if (threadIdx.x == 0) {
    make_barrier(squares_barrier);
    expect_from_peer(squares_barrier, cluster * static_cast<int>(sizeof(float2)));
  }
  cluster_arrive();
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
  const float inverse_size = 1.0F / static_cast<float>(arguments.hidden);
  // All 64 rows of a group lie in one row block.
  const float2 first_gain = first < end ? load_gain(arguments, first) : float2{0.0F, 0.0F};
  const int first_count = has_increment && first < end ? arguments.increment.plan.planes(first / 4) : 1;
  const std::int64_t first_place = plane_place(arguments.increment.width, first * kOperandGroup + 2 * lane, 2 * pair);
  ptx::have_computed(first_place);
  ptx::have_computed(first_count);
#if __CUDA_ARCH__ >= 900
  cluster_wait();  // every block of the cluster has its barrier
#endif
  ptx::wait_for_preceding_grid();

  TwoTokens kept;  // of this warp's first group
  if (first < end && first * kOperandGroup + 2 * lane < arguments.hidden) {
    kept = add_increment<kPlaneBatch>(arguments, first_count, arguments.increment.data + first_place, pair,
                                      first * kOperandGroup + 2 * lane);
  }
  float squares[2] = {0.0F, 0.0F};
  add_squares(kept, squares);
#pragma unroll 1  // of a 27B none
  for (int group = first + kWarps; group < end; group += kWarps) {
    const int column = group * kOperandGroup + 2 * lane;
    if (column >= arguments.hidden) break;
    const int plane_count = has_increment ? arguments.increment.plan.planes(group / 4) : 1;
    add_squares(add_increment<kPlaneBatch>(
                    arguments, plane_count,
                    arguments.increment.data + plane_place(arguments.increment.width, column, 2 * pair), pair, column),
                squares);
  }
#pragma unroll
  for (int token = 0; token < 2; ++token) {
    squares[token] = warp_sum(squares[token]);
    if (lane == 0) warp_squares[warp][token] = squares[token];
  }
  __syncthreads();
  const auto peer = static_cast<int>(threadIdx.x);
  if (peer < cluster) {
    float2 sum{0.0F, 0.0F};
#pragma unroll
    for (const auto& two : warp_squares) sum = {sum.x + two[0], sum.y + two[1]};
#if __CUDA_ARCH__ >= 900
    send(peer_address(&block_squares[rank], peer), sum, peer_address(&squares_barrier, peer));
  }
  wait_for_peer(squares_barrier, 0);
#else
    block_squares[peer] = sum;
  }
  __syncthreads();
#endif
  const float2 part = lane < cluster ? block_squares[lane] : float2{0.0F, 0.0F};
  const float total[2] = {warp_sum(part.x), warp_sum(part.y)};
  const float factors[2] = {rsqrtf(fmaf(total[0], inverse_size, arguments.eps)),
                            rsqrtf(fmaf(total[1], inverse_size, arguments.eps))};
  if (first < end) store_normed(arguments, first, pair, kept, first_gain, factors);
#pragma unroll 1
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

template <class Form>
void launch_form(const NormArguments& arguments, const CudaLaunch& launch) {
  const int cluster = device_major() >= 9 ? kCluster : 1;
  const LaunchShape shape{.blocks = cluster * arguments.out.width / 2, .threads = kThreads, .cluster = cluster};
  launch_kernel("residual_norm", norm_planes_kernel<Form>, shape, launch, arguments, cluster);
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
  if (arguments.out.width == operand_width(1)) {
    launch_form<FewTokens>(arguments, launch);
  } else {
    launch_form<ManyTokens>(arguments, launch);
  }
}

}  // namespace tare::engine
