// A stored weight as a number, for kernels that are not in a hurry.
#pragma once

#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include "engine/cuda/product/tiles.h"

namespace tare::engine {

// What a field of a unit's codes stands for before its scale, exact.
template <WeightFormat kFormat>
__device__ __forceinline__ float field_value(std::uint32_t field) {
  if constexpr (kFormat == WeightFormat::kBF16) {
    return __uint_as_float(field << 16);
  } else if constexpr (kFormat == WeightFormat::kFP8) {
    return __half2float(__half(__nv_cvt_fp8_to_halfraw(static_cast<__nv_fp8_storage_t>(field), __NV_E4M3)));
  } else if constexpr (kFormat == WeightFormat::kNVFP4) {
    // Sign, exponent and mantissa where FP16 has them, 2^-14 of the number.
    const auto bits = static_cast<unsigned short>((field & 8U) << 12 | (field & 7U) << 9);
    return __half2float(__ushort_as_half(bits)) * 0x1p14F;
  } else {
    // 2^23 + field, then less 2^23 and the bias: cheaper than a conversion.
    constexpr std::uint32_t kTwoTo23 = 0x4B00'0000U;
    return __uint_as_float(kTwoTo23 | field) - static_cast<float>((1 << 23) + code_bias(kFormat));
  }
}

// The scale of a unit's row (of the block of `column`, where a row has several); 1 where the format has none.
template <WeightFormat kFormat, ScaleFormat kScales = ScaleFormat::kFP16>
__device__ __forceinline__ float row_scale(const std::byte* unit, int row, int column = 0) {
  constexpr int kBlocks = row_scales_a_unit(kFormat);
  if constexpr (kBlocks == 0) {
    return 1.0F;
  } else {
    const int place = scale_place(row, column / (kUnitColumns / kBlocks), kBlocks);
    const std::byte* scales = unit + unit_code_bytes(kFormat);
    if constexpr (has_tensor_scale({kFormat, kScales})) {
      const auto bits = reinterpret_cast<const __nv_fp8_storage_t*>(scales)[place];
      return __half2float(__half(__nv_cvt_fp8_to_halfraw(bits, __NV_E4M3)));
    } else {
      return __half2float(reinterpret_cast<const __half*>(scales)[place]);
    }
  }
}

}  // namespace tare::engine
