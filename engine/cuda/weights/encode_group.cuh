// The encoders of formats/weight_groups.h and formats/weight_codes.h for one group of 64 weights a warp, two a lane,
// with the same bits.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <cstdint>

#include "engine/cuda/product/tiles.h"
#include "engine/formats/float_formats.h"
#include "engine/formats/weight_format.h"
#include "engine/formats/weight_groups.h"

namespace tare::engine {

constexpr std::uint32_t kFloatInfinityBits = 0x7F80'0000U;

[[nodiscard]] constexpr float most_code(WeightFormat format) {
  switch (format) {
    case WeightFormat::kQ8:
      return kQ8MostCode;
    case WeightFormat::kQ5:
      return kQ5MostCode;
    case WeightFormat::kQ4:
      return kQ4MostCode;
    case WeightFormat::kQ3:
      return kQ3MostCode;
    case WeightFormat::kFP8:
      return kE4M3Largest;
    case WeightFormat::kNVFP4:
      return kE2M1Largest;
    case WeightFormat::kBF16:
      break;
  }
  return 0;  // has no scale
}

// FP16 bits; at or above infinity's when the scale overflows or a weight is not finite.
__device__ __forceinline__ std::uint16_t device_group_scale(float absmax, float most) {
  const std::uint16_t bits = __half_as_ushort(__float2half_rn(__fdiv_rn(absmax, most)));
  return bits == 0 && absmax > 0 ? kFloat16LeastSubnormal : bits;
}

__device__ __forceinline__ std::uint8_t device_e4m3(float value) {
  return static_cast<std::uint8_t>(__nv_cvt_float_to_fp8(value, __NV_SATFINITE, __NV_E4M3));
}

__device__ __forceinline__ float device_e4m3_value(std::uint8_t bits) {
  return __half2float(__half(__nv_cvt_fp8_to_halfraw(bits, __NV_E4M3)));
}

// Past a midpoint of two neighbours comes the greater code; on it, the even one (formats/float_formats.h).
__device__ __forceinline__ std::uint32_t device_e2m1(float value) {
  const float size = fabsf(value);
  const int code = int{size > 0.25F} + int{size >= 0.75F} + int{size > 1.25F} + int{size >= 1.75F} + int{size > 2.5F} +
                   int{size >= 3.5F} + int{size > 5.0F};
  return static_cast<std::uint32_t>(code) | (__float_as_uint(value) >> 31 << 3);
}

// E4M3 bits of a group's or block's scale under its tensor's.
__device__ __forceinline__ std::uint8_t device_byte_scale(float absmax, float most, float tensor_scale) {
  const std::uint8_t bits = device_e4m3(__fdiv_rn(__fdiv_rn(absmax, most), tensor_scale));
  return bits == 0 && absmax > 0 ? kE4M3LeastSubnormal : bits;
}

// The stored field (tiles.h) of one weight of a group whose scale is not 0.
template <WeightFormat kFormat>
__device__ __forceinline__ std::uint32_t device_field(float value, float reciprocal) {
  const float code = __fmul_rn(value, reciprocal);
  if constexpr (kFormat == WeightFormat::kFP8) {
    return device_e4m3(code);
  } else if constexpr (kFormat == WeightFormat::kNVFP4) {
    return device_e2m1(code);
  } else {
    constexpr auto kMost = static_cast<int>(most_code(kFormat));
    return static_cast<std::uint32_t>(max(-kMost, min(kMost, __float2int_rn(code))) + code_bias(kFormat));
  }
}

struct EncodedPair {
  std::uint32_t field[2] = {};
  std::uint16_t scale = 0;  // the same in all lanes of the group, or of NVFP4's block; 0 for bf16
  bool faulty = false;      // the same in all lanes: the scale overflows, or a weight is not finite
};

// Lanes that share a scale: a warp has a group of 64, two weights a lane.
template <WeightFormat kFormat>
constexpr int kLanesAScale = kFormat == WeightFormat::kNVFP4 ? static_cast<int>(kNVFP4WeightBlock) / 2 : 32;

// Bits of the largest magnitude among the lanes that share a scale; bits of NaN are larger than any number's.
template <WeightFormat kFormat>
__device__ __forceinline__ std::uint32_t device_most_bits(float first, float second) {
  constexpr std::uint32_t kMagnitude = 0x7FFF'FFFFU;
  std::uint32_t most = max(__float_as_uint(first) & kMagnitude, __float_as_uint(second) & kMagnitude);
  if constexpr (kLanesAScale<kFormat> == 32) {
    return __reduce_max_sync(~0U, most);
  } else {
    for (int step = kLanesAScale<kFormat> / 2; step > 0; step /= 2) most = max(most, __shfl_xor_sync(~0U, most, step));
    return most;
  }
}

// Called by a whole warp. tensor_scale counts only with E4M3 scales.
template <WeightFormat kFormat, ScaleFormat kScales>
__device__ __forceinline__ EncodedPair device_encode_group(float first, float second, float tensor_scale) {
  const std::uint32_t most_bits = device_most_bits<kFormat>(first, second);
  EncodedPair result;
  if constexpr (kFormat == WeightFormat::kBF16) {
    result.field[0] = __bfloat16_as_ushort(__float2bfloat16_rn(first));
    result.field[1] = __bfloat16_as_ushort(__float2bfloat16_rn(second));
    result.faulty = most_bits >= kFloatInfinityBits;
  } else {
    float scale = 0;
    if constexpr (has_tensor_scale({kFormat, kScales})) {
      const std::uint8_t bits = device_byte_scale(__uint_as_float(most_bits), most_code(kFormat), tensor_scale);
      scale = __fmul_rn(tensor_scale, device_e4m3_value(bits));
      result.scale = bits;
      result.faulty = __any_sync(~0U, most_bits >= kFloatInfinityBits);
    } else {
      result.scale = device_group_scale(__uint_as_float(most_bits), most_code(kFormat));
      result.faulty = result.scale >= kFloat16Infinity;
      scale = __half2float(__ushort_as_half(result.scale));
    }
    const float reciprocal = __fdiv_rn(1.0F, scale);
    const bool zero = result.scale == 0;
    constexpr auto kZero = static_cast<std::uint32_t>(code_bias(kFormat));
    result.field[0] = zero ? kZero : device_field<kFormat>(first, reciprocal);
    result.field[1] = zero ? kZero : device_field<kFormat>(second, reciprocal);
  }
  return result;
}

}  // namespace tare::engine
