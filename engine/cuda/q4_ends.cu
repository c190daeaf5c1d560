// The two ends of a q4 product: activations into the kernels' order, planes into the result.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>

#include "engine/cuda/q4_gemm.h"
#include "engine/cuda/q4_launch.cuh"

namespace tare::engine {
namespace {

constexpr int kPrepareThreads = 512;
constexpr int kPrepareWarps = kPrepareThreads / 32;
constexpr int kLargestExponent = 14;  // the largest magnitude of a token lies in [2^14, 2^15)
constexpr int kFinishThreads = 128;
constexpr int kFinishRegisters = 32;

__device__ float bfloat16(std::uint16_t bits) {
  return __uint_as_float(static_cast<std::uint32_t>(bits) << 16);
}

// 2^exponent for exponents in the normal range.
__device__ float power_of_two(int exponent) {
  return __int_as_float((exponent + 127) << 23);
}

// The exponent that brings `largest` into [2^14, 2^15), kept where it and its negative are normal powers of two.
__device__ int scaling_exponent(float largest) {
  if (largest == 0.0F) return 0;
  const int exponent = static_cast<int>(__float_as_uint(largest) >> 23) - 127;  // of a subnormal: -127, near enough
  return min(max(kLargestExponent - exponent, -126), 126);
}

__device__ float largest_magnitude(const std::uint16_t* x, int columns, float* warp_largest) {
  float largest = 0.0F;
  for (int column = static_cast<int>(threadIdx.x); column < columns; column += kPrepareThreads) {
    largest = fmaxf(largest, fabsf(bfloat16(x[column])));
  }
  for (int step = 16; step > 0; step /= 2) largest = fmaxf(largest, __shfl_xor_sync(~0U, largest, step));
  if (threadIdx.x % 32 == 0) warp_largest[threadIdx.x / 32] = largest;
  __syncthreads();
  for (int warp = 0; warp < kPrepareWarps; ++warp) largest = fmaxf(largest, warp_largest[warp]);
  return largest;
}

// One thread block a token; 8 threads a group of 64 columns, each 8 columns, which are 16 bytes of the panel.
__global__ void __launch_bounds__(kPrepareThreads)
    prepare_kernel(int tokens, int real_tokens, int columns, const std::uint16_t* x, std::byte* activations) {
  __shared__ float warp_largest[kPrepareWarps];
  ptx::launch_dependents();
  ptx::wait_for_preceding_grid();
  const int token = static_cast<int>(blockIdx.x);
  const bool real = token < real_tokens;
  const std::uint16_t* row = x + static_cast<std::size_t>(token) * static_cast<std::size_t>(columns);
  const int exponent = real ? scaling_exponent(largest_magnitude(row, columns, warp_largest)) : 0;
  const float scale = power_of_two(exponent);
  const auto groups = static_cast<int>(q4_units_a_row_block(columns));
  const int block_bytes = q4_activation_block_bytes(tokens);
  const int part = static_cast<int>(threadIdx.x) % 8;
  for (int group = static_cast<int>(threadIdx.x) / 8; group < groups; group += kPrepareThreads / 8) {
    std::byte* block = activations + static_cast<std::size_t>(group) * static_cast<std::size_t>(block_bytes);
    union {
      std::uint16_t bits[8];
      uint4 all;
    } packed;
    float sum = 0.0F;
    for (int index = 0; index < 8; ++index) {
      const int column = group * 64 + part * 8 + index;
      const float value = real && column < columns ? bfloat16(row[column]) * scale : 0.0F;
      const __half half = __float2half_rn(value);
      packed.bits[index] = __half_as_ushort(half);
      sum += __half2float(half);
    }
    *reinterpret_cast<uint4*>(block + 2 * q4_panel_place(tokens, token, part * 8)) = packed.all;
    const unsigned eight = 0xFFU << (threadIdx.x % 32 / 8 * 8);
    for (int step = 4; step > 0; step /= 2) sum += __shfl_xor_sync(eight, sum, step);
    float* offsets = reinterpret_cast<float*>(block + q4_activation_panel_bytes(tokens));
    if (part == 0) offsets[q4_offset_place(tokens, token)] = -8.0F * 0x1p-24F * sum;
  }
  float* token_scales = reinterpret_cast<float*>(activations + static_cast<std::size_t>(groups) * block_bytes);
  if (threadIdx.x == 0) token_scales[token] = power_of_two(-exponent);
}

// One thread four tokens of one row at a time.
template <int kTokens>
__global__ void __maxnreg__(kFinishRegisters)
    finish_kernel(TilePlan plan, int real_tokens, int rows, const float* planes, const float* token_scales, float* y) {
  ptx::launch_dependents();
  ptx::wait_for_preceding_grid();
  constexpr int kQuads = kTokens / 4;
  const int plane_floats = plan.row_blocks * kQ4BlockRows * kTokens;  // all planes together stay below 2^31
  for (auto index = static_cast<int>(blockIdx.x * kFinishThreads + threadIdx.x); index < rows * kQuads;
       index += static_cast<int>(gridDim.x) * kFinishThreads) {
    const int row = index / kQuads;
    const int first_token = index % kQuads * 4;
    const int plane_count = plan.planes(row / kQ4BlockRows);
    const float* source = planes + row * kTokens + first_token;
    float4 sum = *reinterpret_cast<const float4*>(source);
    for (int plane = 1; plane < plane_count; ++plane) {
      const float4 more = *reinterpret_cast<const float4*>(source + plane * plane_floats);
      sum.x += more.x, sum.y += more.y, sum.z += more.z, sum.w += more.w;
    }
    const float values[4] = {sum.x, sum.y, sum.z, sum.w};
#pragma unroll
    for (int step = 0; step < 4; ++step) {
      const int token = first_token + step;
      if (token >= real_tokens) break;
      y[token * rows + row] = values[step] * token_scales[token];
    }
  }
}

}  // namespace

void prepare_q4_activations(int tokens, int real_tokens, std::int64_t columns, const std::uint16_t* x,
                            std::byte* activations, const CudaLaunch& launch) {
  launch_kernel("prepare_q4_activations", prepare_kernel, tokens, kPrepareThreads, 0, launch, tokens, real_tokens,
                static_cast<int>(columns), x, activations);
}

void finish_q4_gemm(int tokens, int real_tokens, std::int64_t rows, std::int64_t columns, const TilePlan& plan,
                    const float* planes, const std::byte* activations, float* y, int most_blocks,
                    const CudaLaunch& launch) {
  const auto* token_scales =
      reinterpret_cast<const float*>(activations + q4_activation_bytes(columns, tokens)) - tokens;
  const std::int64_t threads = rows * tokens / 4;
  const auto blocks =
      static_cast<int>(std::min<std::int64_t>(most_blocks, (threads + kFinishThreads - 1) / kFinishThreads));
  if (tokens == 16) {
    launch_kernel("finish_q4_gemm", finish_kernel<16>, blocks, kFinishThreads, 0, launch, plan, real_tokens,
                  static_cast<int>(rows), planes, token_scales, y);
  } else {
    launch_kernel("finish_q4_gemm", finish_kernel<8>, blocks, kFinishThreads, 0, launch, plan, real_tokens,
                  static_cast<int>(rows), planes, token_scales, y);
  }
}

}  // namespace tare::engine
