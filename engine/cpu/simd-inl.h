// Vector types and small functions shared by the kernel files, once for each target (hence the per-target guard).
#if defined(TARE_ENGINE_CPU_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TARE_ENGINE_CPU_SIMD_INL_H_
#undef TARE_ENGINE_CPU_SIMD_INL_H_
#else
#define TARE_ENGINE_CPU_SIMD_INL_H_
#endif

#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

#include <cstdint>
#include <utility>

// Highway 1.0.3 turns on AVX-VNNI for AVX3_DL but not its 512-bit form. kernels.cpp checks that the machine has it.
#if HWY_TARGET == HWY_AVX3_DL
#undef HWY_TARGET_STR
#define HWY_TARGET_STR \
  HWY_TARGET_STR_AVX3  \
  ",vpclmulqdq,avx512vbmi,avx512vbmi2,vaes,avxvnni,avx512vnni,avx512bitalg,avx512vpopcntdq"
#endif

#undef TARE_TARGET_IS_AVX3
#define TARE_TARGET_IS_AVX3 (HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL)

HWY_BEFORE_NAMESPACE();
namespace tare::engine {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using TagF32 = hn::CappedTag<float, 16>;
using TagU32 = hn::RebindToUnsigned<TagF32>;
using TagI32 = hn::RebindToSigned<TagF32>;
inline constexpr TagF32 kF32{};
inline constexpr TagU32 kU32{};
inline constexpr TagI32 kI32{};
inline constexpr hn::Rebind<std::uint16_t, TagF32> kHalfU16{};
inline constexpr hn::Rebind<hwy::float16_t, TagF32> kF16{};
inline constexpr hn::Rebind<std::uint8_t, TagF32> kQuarterU8{};
#if HWY_TARGET != HWY_SCALAR
inline constexpr hn::Repartition<std::uint16_t, TagF32> kU16{};
inline constexpr hn::Repartition<std::int16_t, TagF32> kI16{};
#endif

using VectorF32 = hn::Vec<TagF32>;
using VectorU32 = hn::Vec<TagU32>;
using VectorI32 = hn::Vec<TagI32>;

inline constexpr int kLanes = static_cast<int>(hn::MaxLanes(TagF32()));

// Calls body(integral_constant<int, 0>) .. body(integral_constant<int, kCount - 1>), unrolled.
template <int kCount, class Body>
HWY_INLINE void static_for(const Body& body) {
  [&]<int... kIndex>(std::integer_sequence<int, kIndex...>) HWY_ATTR {
    (body(std::integral_constant<int, kIndex>{}), ...);
  }
  (std::make_integer_sequence<int, kCount>{});
}

HWY_INLINE VectorF32 load_bfloat16(const std::uint16_t* values) {
  return hn::BitCast(kF32, hn::ShiftLeft<16>(hn::PromoteTo(kU32, hn::LoadU(kHalfU16, values))));
}

HWY_INLINE VectorU32 load_bytes(const std::uint8_t* values) {
  return hn::PromoteTo(kU32, hn::LoadU(kQuarterU8, values));
}

// E4M3 and E2M1 numbers (formats/float_formats.h), exactly. Subnormals go through integers: as FP32 subnormals, which a
// shift would make of them, every instruction that meets one takes a hundred times as long.
HWY_INLINE VectorF32 e4m3_values(VectorU32 bytes) {
  const VectorU32 magnitude = hn::And(bytes, hn::Set(kU32, 0x7FU));
  const VectorI32 integer = hn::BitCast(kI32, magnitude);
  const VectorF32 normal =
      hn::BitCast(kF32, hn::Add(hn::ShiftLeft<20>(magnitude), hn::Set(kU32, 120U << 23)));  // biases 7 and 127
  const VectorF32 subnormal = hn::Mul(hn::ConvertTo(kF32, integer), hn::Set(kF32, 0x1p-9F));
  const auto is_subnormal = hn::RebindMask(kF32, hn::Lt(integer, hn::Set(kI32, 8)));
  const auto is_nan = hn::RebindMask(kF32, hn::Eq(integer, hn::Set(kI32, 0x7F)));
  const VectorF32 nan = hn::BitCast(kF32, hn::Set(kU32, 0x7FC00000U));
  const VectorF32 value = hn::IfThenElse(is_nan, nan, hn::IfThenElse(is_subnormal, subnormal, normal));
  return hn::Or(value, hn::BitCast(kF32, hn::ShiftLeft<24>(hn::And(bytes, hn::Set(kU32, 0x80U)))));
}
// Of the low four bits of every lane; the others are ignored.
HWY_INLINE VectorF32 e2m1_values(VectorU32 codes) {
#if TARE_TARGET_IS_AVX3
  alignas(64) static constexpr float kValues[16] = {0.0F,  0.5F,  1.0F,  1.5F,  2.0F,  3.0F,  4.0F,  6.0F,
                                                    -0.0F, -0.5F, -1.0F, -1.5F, -2.0F, -3.0F, -4.0F, -6.0F};
  return VectorF32{_mm512_permutexvar_ps(codes.raw, _mm512_load_ps(kValues))};
#else
  const VectorU32 magnitude = hn::And(codes, hn::Set(kU32, 0x7U));
  const VectorI32 integer = hn::BitCast(kI32, magnitude);
  const VectorF32 normal =
      hn::BitCast(kF32, hn::Add(hn::ShiftLeft<22>(magnitude), hn::Set(kU32, 126U << 23)));  // biases 1 and 127
  const VectorF32 subnormal = hn::Mul(hn::ConvertTo(kF32, integer), hn::Set(kF32, 0.5F));
  const auto is_subnormal = hn::RebindMask(kF32, hn::Lt(integer, hn::Set(kI32, 2)));
  const VectorF32 value = hn::IfThenElse(is_subnormal, subnormal, normal);
  return hn::Or(value, hn::BitCast(kF32, hn::ShiftLeft<28>(hn::And(codes, hn::Set(kU32, 0x8U)))));
#endif
}

// Sum of all lanes, in a fixed order.
HWY_INLINE float sum_of_lanes(VectorF32 vector) {
  return hn::GetLane(hn::SumOfLanes(kF32, vector));
}

// e^x within 2 ulp, 0 and infinity beyond the range of FP32, NaN for NaN. Highway's Exp is right near that range only
// and turns NaN into 0, which would hide a fault from the check of the logits.
HWY_INLINE VectorF32 exponential(VectorF32 x) {
  const VectorF32 least = hn::Set(kF32, -104.0F);  // below: 0
  const VectorF32 most = hn::Set(kF32, 100.0F);    // e^100 is infinity
  const VectorF32 held = hn::Min(hn::Max(x, least), most);
  return hn::IfThenElse(hn::IsNaN(x), x, hn::Exp(kF32, held));
}

HWY_INLINE VectorF32 sigmoid(VectorF32 x) {
  const VectorF32 one = hn::Set(kF32, 1.0F);
  return hn::Div(one, hn::Add(one, exponential(hn::Neg(x))));
}

// x / (1 + exp(-x)); for very negative x the quotient is -0 or a subnormal, as it should be.
HWY_INLINE VectorF32 silu(VectorF32 x) {
  return hn::Div(x, hn::Add(hn::Set(kF32, 1.0F), exponential(hn::Neg(x))));
}

}  // namespace HWY_NAMESPACE
}  // namespace tare::engine
HWY_AFTER_NAMESPACE();

#endif  // per-target guard
