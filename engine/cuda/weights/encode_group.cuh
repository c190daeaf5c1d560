// The encoder of formats/weight_groups.h for one group of 64 weights a warp, two a lane, with the same bits.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <cstdint>

#include "engine/backend/options.h"
#include "engine/cuda/product/tiles.h"
#include "engine/formats/float_formats.h"
#include "engine/formats/weight_groups.h"

namespace tare::engine {

constexpr std::uint32_t kFloatInfinityBits = 0x7F80'0000U;

[[nodiscard]] constexpr float most_code(WeightFormat format) {
  switch (format) {
    case WeightFormat::kQ8:
      return kQ8MostCode;
    case WeightFormat::kQ4:
      return kQ4MostCode;
    case WeightFormat::kQ3:
      return kQ3MostCode;
    case WeightFormat::kFP8:
      return kE4M3Largest;
    case WeightFormat::kBF16:
    case WeightFormat::kQ5:
    case WeightFormat::kNVFP4:
      break;
  }
  return 0;  // has no scale, or no tiles
}

// FP16 bits; at or above infinity's when the scale overflows or a weight is not finite.
__device__ __forceinline__ std::uint16_t device_group_scale(float absmax, float most) {
  const std::uint16_t bits = __half_as_ushort(__float2half_rn(__fdiv_rn(absmax, most)));
  return bits == 0 && absmax > 0 ? kFloat16LeastSubnormal : bits;
}

__device__ __forceinline__ std::uint8_t device_e4m3(float value) {
  return static_cast<std::uint8_t>(__nv_cvt_float_to_fp8(value, __NV_SATFINITE, __NV_E4M3));
}

// The stored field (tiles.h) of one weight of a group whose scale is not 0.
template <WeightFormat kFormat>
__device__ __forceinline__ std::uint32_t device_field(float value, float reciprocal) {
  const float code = __fmul_rn(value, reciprocal);
  if constexpr (kFormat == WeightFormat::kFP8) {
    return device_e4m3(code);
  } else {
    constexpr auto kMost = static_cast<int>(most_code(kFormat));
    return static_cast<std::uint32_t>(max(-kMost, min(kMost, __float2int_rn(code))) + code_bias(kFormat));
  }
}

struct EncodedPair {
  std::uint32_t field[2] = {};
  std::uint16_t scale = 0;  // the same in all lanes; 0 for bf16
  bool faulty = false;      // likewise: the scale overflows, or a weight is not finite
};

// Called by a whole warp.
template <WeightFormat kFormat>
__device__ __forceinline__ EncodedPair device_encode_group(float first, float second) {
  constexpr std::uint32_t kMagnitude = 0x7FFF'FFFFU;
  const std::uint32_t most_bits =
      __reduce_max_sync(~0U, max(__float_as_uint(first) & kMagnitude, __float_as_uint(second) & kMagnitude));
  EncodedPair result;
  if constexpr (kFormat == WeightFormat::kBF16) {
    result.field[0] = __bfloat16_as_ushort(__float2bfloat16_rn(first));
    result.field[1] = __bfloat16_as_ushort(__float2bfloat16_rn(second));
    result.faulty = most_bits >= kFloatInfinityBits;
  } else {
    result.scale = device_group_scale(__uint_as_float(most_bits), most_code(kFormat));
    result.faulty = result.scale >= kFloat16Infinity;
    const float reciprocal = __fdiv_rn(1.0F, __half2float(__ushort_as_half(result.scale)));
    const bool zero = result.scale == 0;
    constexpr auto kZero = static_cast<std::uint32_t>(code_bias(kFormat));
    result.field[0] = zero ? kZero : device_field<kFormat>(first, reciprocal);
    result.field[1] = zero ? kZero : device_field<kFormat>(second, reciprocal);
  }
  return result;
}

}  // namespace tare::engine
