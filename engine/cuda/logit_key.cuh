// A logit and its token as one number that sorts like them.
#pragma once

#include <cstdint>

namespace tare::engine {

// Orders like the logit, ties by the lower id; never 0 for a number.
using LogitKey = unsigned long long;

// Its upper half.
__device__ __forceinline__ std::uint32_t ordered_logit(float logit) {
  const std::uint32_t bits = __float_as_uint(logit == 0.0F ? 0.0F : logit);  // -0 ties with 0
  return (bits & 0x8000'0000U) != 0 ? ~bits : bits | 0x8000'0000U;
}
__device__ __forceinline__ LogitKey make_logit_key(float logit, int id) {
  return (static_cast<LogitKey>(ordered_logit(logit)) << 32) | ~static_cast<std::uint32_t>(id);
}
__device__ __forceinline__ int id_of(LogitKey key) {
  return static_cast<int>(~static_cast<std::uint32_t>(key & 0xFFFF'FFFFULL));
}
__device__ __forceinline__ float logit_of(LogitKey key) {
  const auto ordered = static_cast<std::uint32_t>(key >> 32);
  return __uint_as_float((ordered & 0x8000'0000U) != 0 ? ordered & 0x7FFF'FFFFU : ~ordered);
}

}  // namespace tare::engine
