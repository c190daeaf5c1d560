// Keys and values with scales in device code, bit for bit formats/cache_blocks.h: a block of a row is spread over
// neighbouring lanes of a warp, two numbers each.
#pragma once

#include "engine/cuda/attention/attention_device.cuh"

namespace tare::engine {

constexpr int kInt8Lanes = static_cast<int>(kInt8Block / 2);
constexpr int kNVFP4Lanes = static_cast<int>(kNVFP4Block / 2);
static_assert(kInt8Lanes == 32, "a block of int8 is a warp's");

// The largest magnitude of a block as bits, which are in the order of the numbers; NaN's lie above.
template <int kLanes>
__device__ __forceinline__ float absmax_of_block(float2 pair) {
  constexpr std::uint32_t kMagnitude = 0x7FFF'FFFFU;
  std::uint32_t most = max(__float_as_uint(pair.x) & kMagnitude, __float_as_uint(pair.y) & kMagnitude);
#pragma unroll
  for (int step = kLanes / 2; step > 0; step /= 2) most = max(most, __shfl_xor_sync(~0U, most, step));
  return __uint_as_float(most);
}

// The lane's two codes and its block's scale.
struct BlockCodes {
  std::uint32_t scale = 0;
  std::uint32_t first = 0;
  std::uint32_t second = 0;
};

__device__ __forceinline__ std::uint32_t int8_code(float value, float reciprocal) {
  const int code = __float2int_rn(__fmul_rn(value, reciprocal));
  constexpr int kMost = static_cast<int>(kInt8MostCode);
  return static_cast<std::uint32_t>(min(max(code, -kMost), kMost)) & 0xFFU;
}
// By a whole warp.
__device__ __forceinline__ BlockCodes encode_int8(float2 pair) {
  constexpr std::uint32_t kNaN = 0x7FC0U;
  const float absmax = absmax_of_block<kInt8Lanes>(pair);
  if (!isfinite(absmax)) return {kNaN, 0, 0};
  if (absmax < kLeastInt8Absmax) return {};
  const __nv_bfloat16 scale = __float2bfloat16_rn(__fdiv_rn(absmax, kInt8MostCode));
  const float reciprocal = __fdiv_rn(1.0F, __bfloat162float(scale));
  return {__bfloat16_as_ushort(scale), int8_code(pair.x, reciprocal), int8_code(pair.y, reciprocal)};
}

__device__ __forceinline__ float e4m3_value(std::uint32_t bits) {
  return __half2float(__half(__nv_cvt_fp8_to_halfraw(static_cast<__nv_fp8_storage_t>(bits), __NV_E4M3)));
}
// Above a midpoint of two neighbours the greater code; on it the even one.
__device__ __forceinline__ std::uint32_t e2m1_code(float value) {
  const float magnitude = fabsf(value);
  const std::uint32_t code = (magnitude > 0.25F) + (magnitude >= 0.75F) + (magnitude > 1.25F) + (magnitude >= 1.75F) +
                             (magnitude > 2.5F) + (magnitude >= 3.5F) + (magnitude > 5.0F);
  return code | (__float_as_uint(value) >> 28 & 8U);
}
// By a whole warp.
__device__ __forceinline__ BlockCodes encode_nvfp4(float2 pair) {
  constexpr std::uint32_t kNaN = 0x7FU;
  constexpr std::uint32_t kLeast = 1;  // 2^-9
  constexpr float kMost = 6;           // of E2M1
  const float absmax = absmax_of_block<kNVFP4Lanes>(pair);
  if (!isfinite(absmax)) return {kNaN, 0, 0};
  if (absmax == 0) return {};
  const std::uint32_t nearest = __nv_cvt_float_to_fp8(__fdiv_rn(absmax, kMost), __NV_SATFINITE, __NV_E4M3);
  const std::uint32_t scale = max(nearest, kLeast);
  const float reciprocal = __fdiv_rn(1.0F, e4m3_value(scale));
  return {scale, e2m1_code(__fmul_rn(pair.x, reciprocal)), e2m1_code(__fmul_rn(pair.y, reciprocal))};
}

// A row's numbers at `dim` and dim + 1 (even; without `has_dims` beyond its end, and 0) into slot `slot` of the head
// whose run begins at `run`. By whole warps, the threads' dims in order.
__device__ __forceinline__ void store_block_pair(CacheFormat format, bool of_values, std::byte* run, int head_dim,
                                                 int slot, int dim, bool has_dims, float2 pair) {
  const bool int8 = format == CacheFormat::kInt8;
  const BlockCodes codes = int8 ? encode_int8(pair) : encode_nvfp4(pair);
  // Of values of nvfp4 in tiles a byte holds dims d and d + 8: those of the lane four on.
  const std::uint32_t both = codes.first | codes.second << 4;
  const std::uint32_t others = __shfl_xor_sync(~0U, both, 4);
  if (!has_dims) return;
  const auto code_place = [&](int of) {
    return run +
           (of_values ? value_code_place(format, head_dim, slot, of) : key_code_place(format, head_dim, slot, of));
  };
  if (int8) {
    store_number<1>(code_place(dim), codes.first);
    store_number<1>(code_place(dim + 1), codes.second);
  } else if (of_values && cache_is_tiled(format, head_dim)) {
    if (dim / 8 % 2 == 0) {
      store_number<1>(code_place(dim), (both & 0xFU) | (others & 0xFU) << 4);
      store_number<1>(code_place(dim + 1), both >> 4 | (others & 0xF0U));
    }
  } else {
    store_number<1>(code_place(dim), both);
  }
  const int block = dim / scale_block(format);
  if (dim % scale_block(format) != 0) return;
  std::byte* const scale_place = run + (of_values ? value_scale_place(format, head_dim, slot, block)
                                                  : key_scale_place(format, head_dim, slot, block));
  if (int8) {
    store_number<2>(scale_place, codes.scale);
  } else {
    store_number<1>(scale_place, codes.scale);
  }
}

// A number of a cache of any format, exactly.
__device__ __forceinline__ float decode_code(CacheFormat format, const std::byte* code, int shift,
                                             const std::byte* scale) {
  if (format == CacheFormat::kInt8) {
    return __bfloat162float(*reinterpret_cast<const __nv_bfloat16*>(scale)) *
           static_cast<float>(*reinterpret_cast<const signed char*>(code));
  }
  // Sign, exponent and mantissa in FP16's places are the number times 2^-14.
  const std::uint32_t bits = static_cast<std::uint32_t>(*code) >> shift;
  const __half_raw small{static_cast<unsigned short>((bits & 8U) << 12 | (bits & 7U) << 9)};
  return e4m3_value(static_cast<std::uint32_t>(*scale)) * (__half2float(small) * 0x1p14F);
}
__device__ __forceinline__ float load_key(CacheFormat format, const std::byte* run, int head_dim, int slot, int dim) {
  if (!has_scales(format)) return load_cached(format, run + key_place(format, head_dim, slot, dim));
  return decode_code(format, run + key_code_place(format, head_dim, slot, dim), key_code_shift(format, dim),
                     run + key_scale_place(format, head_dim, slot, dim / scale_block(format)));
}
__device__ __forceinline__ float load_value(CacheFormat format, const std::byte* run, int head_dim, int slot, int dim) {
  if (!has_scales(format)) return load_cached(format, run + value_place(format, head_dim, slot, dim));
  return decode_code(format, run + value_code_place(format, head_dim, slot, dim),
                     value_code_shift(format, head_dim, dim),
                     run + value_scale_place(format, head_dim, slot, dim / scale_block(format)));
}

}  // namespace tare::engine
