// Reading keys and values of every cache format (kv_layout.h) as FP32, once for each target. A value read is the one
// that the scalar definition decodes, exactly: so a cache in any format gives the bits of an FP32 cache of decoded
// numbers.
#if defined(TARE_ENGINE_CPU_CACHE_CODECS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TARE_ENGINE_CPU_CACHE_CODECS_INL_H_
#undef TARE_ENGINE_CPU_CACHE_CODECS_INL_H_
#else
#define TARE_ENGINE_CPU_CACHE_CODECS_INL_H_
#endif

#include <cstdint>

#include "engine/cpu/kv_layout.h"
#include "engine/cpu/simd-inl.h"
#include "engine/formats/float_formats.h"

HWY_BEFORE_NAMESPACE();
namespace tare::engine {
namespace HWY_NAMESPACE {

inline constexpr hn::Rebind<std::int8_t, TagF32> kQuarterI8{};

HWY_INLINE VectorF32 load_int8(const std::byte* values) {
  return hn::ConvertTo(kF32, hn::PromoteTo(kI32, hn::LoadU(kQuarterI8, reinterpret_cast<const std::int8_t*>(values))));
}

// A block of 16 positions' keys. Channels come in fours that share a scale.
template <CacheFormat kFormat>
struct KeyBlock {
  const std::byte* codes;
  const std::byte* scales;

  // For channels channel .. channel + 3, of the positions in lanes from `lane` on.
  HWY_INLINE VectorF32 scale(std::int64_t channel, std::int64_t lane) const {
    if constexpr (kFormat == CacheFormat::kInt8) {
      const auto* halves = reinterpret_cast<const std::uint16_t*>(scales);
      return load_bfloat16(halves + channel / kInt8Block * kKeyBlock + lane);
    } else if constexpr (kFormat == CacheFormat::kNVFP4) {
      const auto* bytes = reinterpret_cast<const std::uint8_t*>(scales);
      return e4m3_values(load_bytes(bytes + channel / kNVFP4Block * kKeyBlock + lane));
    } else {
      return hn::Zero(kF32);
    }
  }
  HWY_INLINE VectorF32 value(std::int64_t channel, std::int64_t lane, VectorF32 scale) const {
    const std::int64_t at = channel * kKeyBlock + lane;
    if constexpr (kFormat == CacheFormat::kFP32) {
      return hn::LoadU(kF32, reinterpret_cast<const float*>(codes) + at);
    } else if constexpr (kFormat == CacheFormat::kBF16) {
      return load_bfloat16(reinterpret_cast<const std::uint16_t*>(codes) + at);
    } else if constexpr (kFormat == CacheFormat::kFP8) {
      return e4m3_values(load_bytes(reinterpret_cast<const std::uint8_t*>(codes) + at));
    } else if constexpr (kFormat == CacheFormat::kInt8) {
      return hn::Mul(scale, load_int8(codes + at));
    } else {
      const VectorU32 pair = load_bytes(reinterpret_cast<const std::uint8_t*>(codes) + channel / 2 * kKeyBlock + lane);
      return hn::Mul(scale, e2m1_values(channel % 2 == 0 ? pair : hn::ShiftRight<4>(pair)));
    }
  }
};

// Sixteen E2M1 codes in eight bytes, of which the lanes from channel `within` on are wanted.
HWY_INLINE VectorU32 load_value_nibbles(const std::uint8_t* bytes, std::int64_t within) {
  if constexpr (kLanes == 16) {
#if TARE_TARGET_IS_AVX3
    const hn::Half<TagU32> half;
    const hn::Rebind<std::uint8_t, hn::Half<TagU32>> narrow;
    const auto low = hn::PromoteTo(half, hn::LoadU(narrow, bytes));
    return hn::Combine(kU32, hn::ShiftRight<4>(low), low);
#endif
  }
  const VectorU32 codes = load_bytes(bytes + within % 8);
  return within < 8 ? codes : hn::ShiftRight<4>(codes);
}

// One position's value.
template <CacheFormat kFormat>
struct ValueRow {
  const std::byte* codes;
  const std::byte* scales;

  // Channels channel .. channel + kLanes - 1, all of one block.
  HWY_INLINE VectorF32 at(std::int64_t channel) const {
    if constexpr (kFormat == CacheFormat::kFP32) {
      return hn::LoadU(kF32, reinterpret_cast<const float*>(codes) + channel);
    } else if constexpr (kFormat == CacheFormat::kBF16) {
      return load_bfloat16(reinterpret_cast<const std::uint16_t*>(codes) + channel);
    } else if constexpr (kFormat == CacheFormat::kFP8) {
      return e4m3_values(load_bytes(reinterpret_cast<const std::uint8_t*>(codes) + channel));
    } else if constexpr (kFormat == CacheFormat::kInt8) {
      const std::uint16_t scale = reinterpret_cast<const std::uint16_t*>(scales)[channel / kInt8Block];
      return hn::Mul(hn::Set(kF32, bfloat16_to_float(scale)), load_int8(codes + channel));
    } else {
      const std::int64_t block = channel / kNVFP4Block;
      const VectorU32 scale = hn::Set(kU32, reinterpret_cast<const std::uint8_t*>(scales)[block]);
      const auto* bytes = reinterpret_cast<const std::uint8_t*>(codes) + block * (kNVFP4Block / 2);
      return hn::Mul(e4m3_values(scale), e2m1_values(load_value_nibbles(bytes, channel % kNVFP4Block)));
    }
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace tare::engine
HWY_AFTER_NAMESPACE();

#endif  // per-target guard
