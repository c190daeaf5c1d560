// A logit and its token as one number that sorts like them.
#pragma once

#include <cstdint>

namespace tare::engine {

// Orders like the logit, ties by the lower id; never 0 for a number.
using LogitKey = unsigned long long;

__device__ __forceinline__ LogitKey make_logit_key(float logit, int id) {
  const std::uint32_t bits = __float_as_uint(logit == 0.0F ? 0.0F : logit);  // -0 ties with 0
  const std::uint32_t ordered = (bits & 0x8000'0000U) != 0 ? ~bits : bits | 0x8000'0000U;
  return (static_cast<LogitKey>(ordered) << 32) | ~static_cast<std::uint32_t>(id);
}
__device__ __forceinline__ int id_of(LogitKey key) {
  return static_cast<int>(~static_cast<std::uint32_t>(key & 0xFFFF'FFFFULL));
}
__device__ __forceinline__ float logit_of(LogitKey key) {
  const auto ordered = static_cast<std::uint32_t>(key >> 32);
  return __uint_as_float((ordered & 0x8000'0000U) != 0 ? ordered & 0x7FFF'FFFFU : ~ordered);
}

}  // namespace tare::engine
