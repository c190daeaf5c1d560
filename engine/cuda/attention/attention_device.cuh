// What the attention kernels share.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include "engine/cuda/attention/attention_kernels.h"
#include "engine/cuda/device/ptx.cuh"

namespace tare::engine {

__device__ __forceinline__ int first_position(const PassPositions& positions) {
  return positions.control != nullptr ? positions.control->frontier : positions.first;
}

// The token's last place of what it sees, in the order in which that is cut into parts.
__device__ __forceinline__ int last_place(const PassPositions& positions, int token) {
  return first_position(positions) + (positions.by_position ? positions.control->depths[token] : token);
}

__device__ __forceinline__ float sum_of_warp(float value) {
  for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(~0U, value, step);
  return value;
}
__device__ __forceinline__ float most_of_warp(float value) {
  for (int step = 16; step > 0; step /= 2) value = fmaxf(value, __shfl_xor_sync(~0U, value, step));
  return value;
}

__device__ __forceinline__ float load_cached(CacheFormat format, const std::byte* place) {
  if (format == CacheFormat::kFP32) return *reinterpret_cast<const float*>(place);
  if (format == CacheFormat::kBF16) return __bfloat162float(*reinterpret_cast<const __nv_bfloat16*>(place));
  const __half_raw half = __nv_cvt_fp8_to_halfraw(*reinterpret_cast<const __nv_fp8_storage_t*>(place), __NV_E4M3);
  return __half2float(half);
}
__device__ __forceinline__ void store_cached(CacheFormat format, std::byte* place, float value) {
  if (format == CacheFormat::kFP32) {
    *reinterpret_cast<float*>(place) = value;
  } else if (format == CacheFormat::kBF16) {
    *reinterpret_cast<__nv_bfloat16*>(place) = __float2bfloat16_rn(value);
  } else {
    *reinterpret_cast<__nv_fp8_storage_t*>(place) = __nv_cvt_float_to_fp8(value, __NV_SATFINITE, __NV_E4M3);
  }
}

// The lower kBytes of `bits`.
template <int kBytes>
__device__ __forceinline__ void store_number(std::byte* place, std::uint32_t bits) {
  if constexpr (kBytes == 4) {
    *reinterpret_cast<std::uint32_t*>(place) = bits;
  } else if constexpr (kBytes == 2) {
    *reinterpret_cast<std::uint16_t*>(place) = static_cast<std::uint16_t>(bits);
  } else {
    *reinterpret_cast<std::uint8_t*>(place) = static_cast<std::uint8_t>(bits);
  }
}
__device__ __forceinline__ std::uint32_t narrow_to_bf16(float2 pair) {
  const __nv_bfloat162 rounded = __float22bfloat162_rn(pair);
  return *reinterpret_cast<const std::uint32_t*>(&rounded);
}
__device__ __forceinline__ std::uint32_t narrow_to_e4m3(float2 pair) {
  return __nv_cvt_float2_to_fp8x2(pair, __NV_SATFINITE, __NV_E4M3);
}

// Two neighbouring numbers at an even place.
__device__ __forceinline__ void store_cached_pair(CacheFormat format, std::byte* place, float x, float y) {
  if (format == CacheFormat::kFP32) {
    *reinterpret_cast<float2*>(place) = {x, y};
  } else if (format == CacheFormat::kBF16) {
    store_number<4>(place, narrow_to_bf16({x, y}));
  } else {
    store_number<2>(place, narrow_to_e4m3({x, y}));
  }
}

__device__ __forceinline__ float sigmoid(float x) {
  return 1.0F / (1.0F + expf(-x));
}

// Norm and rotation, every operation rounded by itself as on the CPU.
__device__ __forceinline__ float sum_of_squares(float x, float y) {
  return __fadd_rn(__fmul_rn(x, x), __fmul_rn(y, y));
}
// `squares`: sums over 64 dims each.
__device__ __forceinline__ float norm_factor(const float (&squares)[4], const CudaAttentionShape& shape) {
  const float sum = (squares[0] + squares[1]) + (squares[2] + squares[3]);
  return __fdiv_rn(1.0F, __fsqrt_rn(__fadd_rn(__fdiv_rn(sum, static_cast<float>(shape.head_dim)), shape.eps)));
}
// Of dim d < half and its partner d + half: the new d, or with the sine negated and the partner first, the new d +
// half.
__device__ __forceinline__ float rotated(float value, float partner, float cosine, float sine) {
  return __fsub_rn(__fmul_rn(value, cosine), __fmul_rn(partner, sine));
}

// Rows `row` and row + 1 (row even) of tokens 2 pair and 2 pair + 1 of a product: {row token 0, row token 1, row + 1
// token 0, row + 1 token 1}. Where they lie is found before the wait for the product; the first planes are asked for at
// once, and with nothing to compute between: ptxas else adds the first while the last are not asked for yet.
class ResultQuad {
 public:
  __device__ __forceinline__ ResultQuad(const ProductResult& result, int row, int pair, int tokens)
      : factor_(result.factor), planes_(result.planes) {
    if (result.planes) {
      stride_ = plane_floats(result.plan, result.width);
      count_ = result.plan.planes(row / 256);
      sources_[0] = result.data + plane_place(result.width, row, 2 * pair);
#pragma unroll
      for (int plane = 1; plane < kTogether; ++plane) sources_[plane] = sources_[plane - 1] + stride_;
    } else {
      sources_[0] = result.data + static_cast<std::int64_t>(2 * pair) * result.rows + row;
      sources_[1] = sources_[0] + result.rows;
      count_ = 2 * pair + 1 < tokens ? 2 : 1;
    }
#pragma unroll
    for (const float* source : sources_) ptx::have_computed(reinterpret_cast<std::int64_t>(source));
  }
  [[nodiscard]] __device__ __forceinline__ float4 load() const {
    if (!planes_) {
      const float2 first = *reinterpret_cast<const float2*>(sources_[0]);
      const float2 second = count_ == 2 ? *reinterpret_cast<const float2*>(sources_[1]) : float2{0.0F, 0.0F};
      return {first.x * factor_, second.x * factor_, first.y * factor_, second.y * factor_};
    }
    float4 planes[kTogether];
#pragma unroll
    for (int plane = 0; plane < kTogether; ++plane) {
      planes[plane] = {0.0F, 0.0F, 0.0F, 0.0F};
      if (plane < count_) planes[plane] = at(sources_[plane]);
    }
    float4 sum = planes[0];
    const auto add = [&](const float4& more) { sum.x += more.x, sum.y += more.y, sum.z += more.z, sum.w += more.w; };
#pragma unroll
    for (int plane = 1; plane < kTogether; ++plane) add(planes[plane]);
#pragma unroll 1
    for (int plane = kTogether; plane < count_; ++plane) add(at(sources_[0] + plane * stride_));
    return {sum.x * factor_, sum.y * factor_, sum.z * factor_, sum.w * factor_};
  }

 private:
  static constexpr int kTogether = 6;  // of a 27B projection cut among 264 thread blocks

  // Past L1: the merge reads before its own wait.
  [[nodiscard]] static __device__ __forceinline__ float4 at(const float* source) {
    return __ldcg(reinterpret_cast<const float4*>(source));
  }
  const float* sources_[kTogether] = {};
  std::int64_t stride_ = 0;
  int count_ = 0;
  float factor_ = 1;
  bool planes_ = false;
};

// The reference a part's weights are taken against: its largest score, or 0 when it has none.
__device__ __forceinline__ float reference_score(float largest) {
  return largest == -INFINITY ? 0.0F : largest;
}

// One of the first fill.blocks thread blocks of a kernel: its share of the fill.
__device__ __forceinline__ void fill_l2(const L2Fill& fill, int block) {
#if __CUDA_ARCH__ >= 900
  constexpr std::int64_t kPiece = 16384;
  const std::int64_t step = static_cast<std::int64_t>(fill.blocks) * kPiece * 32;
  if (threadIdx.x >= 32) return;
  for (std::int64_t at = (static_cast<std::int64_t>(block) * 32 + threadIdx.x) * kPiece; at < fill.bytes; at += step) {
    const std::int64_t left = (fill.bytes - at) / 16 * 16;
    const std::int64_t bytes = left < kPiece ? left : kPiece;
    if (bytes > 0) ptx::bulk_prefetch_l2(fill.data + at, static_cast<std::uint32_t>(bytes));
  }
#else
  (void)fill, (void)block;
#endif
}

}  // namespace tare::engine
