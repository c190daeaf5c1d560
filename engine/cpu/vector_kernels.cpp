// Norms, activations and row quantisation for every instruction set. Rows are padded to 64 elements with zeros, so
// there are no tails here.
#include <cmath>
#include <limits>

#include "engine/cpu/kernel_tables.h"
#include "engine/formats/activation_blocks.h"
#include "engine/formats/weight_groups.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/cpu/vector_kernels.cpp"
#include <hwy/foreach_target.h>
//
#include "engine/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tare::engine {
namespace HWY_NAMESPACE {

constexpr int kSums = 4;  // independent sums of a long reduction, added as (0 + 1) + (2 + 3)

float dot(const float* x, const float* y, std::int64_t size) {
  VectorF32 sums[kSums] = {hn::Zero(kF32), hn::Zero(kF32), hn::Zero(kF32), hn::Zero(kF32)};
  for (std::int64_t i = 0; i < size; i += kSums * kLanes)
    for (int s = 0; s < kSums; ++s)
      sums[s] = hn::MulAdd(hn::LoadU(kF32, x + i + s * kLanes), hn::LoadU(kF32, y + i + s * kLanes), sums[s]);
  return sum_of_lanes(hn::Add(hn::Add(sums[0], sums[1]), hn::Add(sums[2], sums[3])));
}

float rms_factor(const float* x, std::int64_t size, float eps) {
  return 1.0F / std::sqrt(dot(x, x, size) / static_cast<float>(size) + eps);
}

void rms_norm(const float* x, const float* gain, std::int64_t size, float eps, float* out) {
  const VectorF32 factor = hn::Set(kF32, rms_factor(x, size, eps));
  for (std::int64_t i = 0; i < size; i += kLanes)
    hn::StoreU(hn::Mul(hn::Mul(hn::LoadU(kF32, x + i), factor), hn::LoadU(kF32, gain + i)), kF32, out + i);
}

void gated_rms_norm(const float* x, const float* gain, const float* gate, std::int64_t size, float eps, float* out) {
  const VectorF32 factor = hn::Set(kF32, rms_factor(x, size, eps));
  std::int64_t i = 0;
  for (; i + kLanes <= size; i += kLanes) {
    const VectorF32 normed = hn::Mul(hn::Mul(hn::LoadU(kF32, x + i), factor), hn::LoadU(kF32, gain + i));
    hn::StoreU(hn::Mul(normed, silu(hn::LoadU(kF32, gate + i))), kF32, out + i);
  }
  if (i == size) return;
  alignas(64) float tail[16] = {};
  const VectorF32 normed = hn::Mul(hn::Mul(hn::LoadU(kF32, x + i), factor), hn::LoadU(kF32, gain + i));
  hn::StoreU(hn::Mul(normed, silu(hn::LoadU(kF32, gate + i))), kF32, tail);
  for (std::int64_t j = i; j < size; ++j) out[j] = tail[j - i];
}

void silu_product(const float* gate, const float* up, std::int64_t size, float* out) {
  for (std::int64_t i = 0; i < size; i += kLanes)
    hn::StoreU(hn::Mul(silu(hn::LoadU(kF32, gate + i)), hn::LoadU(kF32, up + i)), kF32, out + i);
}

void add(float* x, const float* y, std::int64_t size) {
  for (std::int64_t i = 0; i < size; i += kLanes)
    hn::StoreU(hn::Add(hn::LoadU(kF32, x + i), hn::LoadU(kF32, y + i)), kF32, x + i);
}

void scale(float* x, float factor, std::int64_t size) {
  for (std::int64_t i = 0; i < size; i += kLanes)
    hn::StoreU(hn::Mul(hn::LoadU(kF32, x + i), hn::Set(kF32, factor)), kF32, x + i);
}

void apply_sigmoid_gate(float* x, const float* gate, std::int64_t size) {
  for (std::int64_t i = 0; i < size; i += kLanes)
    hn::StoreU(hn::Mul(hn::LoadU(kF32, x + i), sigmoid(hn::LoadU(kF32, gate + i))), kF32, x + i);
}

bool all_finite(const float* x, std::int64_t size) {
  // x * 0 is 0 for finite x, and NaN for the others; NaN survives the sum.
  VectorF32 sum = hn::Zero(kF32);
  std::int64_t i = 0;
  for (; i + kLanes <= size; i += kLanes) sum = hn::MulAdd(hn::LoadU(kF32, x + i), hn::Zero(kF32), sum);
  float rest = sum_of_lanes(sum);
  for (; i < size; ++i) rest += x[i] * 0.0F;
  return rest == 0.0F;
}

void quantize_row(const float* x, std::int64_t size, std::int8_t* codes, float* scales, std::int32_t* sums) {
  constexpr auto kMost = static_cast<float>(kActivationMostCode);
  const hn::Rebind<std::int8_t, TagF32> bytes;
  for (std::int64_t block = 0; block < size / kGroupSize; ++block) {
    const float* values = x + block * kGroupSize;
    std::int8_t* block_codes = codes + block * kGroupSize;
    VectorF32 most = hn::Zero(kF32);
    VectorF32 zeros = hn::Zero(kF32);  // becomes NaN where a value is not finite
    for (std::int64_t i = 0; i < kGroupSize; i += kLanes) {
      const VectorF32 value = hn::LoadU(kF32, values + i);
      most = hn::Max(most, hn::Abs(value));
      zeros = hn::MulAdd(value, hn::Zero(kF32), zeros);
    }
    const float absmax = hn::GetLane(hn::MaxOfLanes(kF32, most));
    const bool finite = sum_of_lanes(zeros) == 0.0F;
    if (!finite || absmax < kLeastActivation) {
      for (std::int64_t i = 0; i < kGroupSize; ++i) block_codes[i] = 0;
      scales[block] = finite ? 0.0F : std::numeric_limits<float>::quiet_NaN();
      sums[block] = 0;
      continue;
    }
    const VectorF32 reciprocal = hn::Set(kF32, kMost / absmax);
    VectorI32 sum = hn::Zero(kI32);
    for (std::int64_t i = 0; i < kGroupSize; i += kLanes) {
      const VectorF32 scaled = hn::Mul(hn::LoadU(kF32, values + i), reciprocal);
      const VectorF32 clamped = hn::Min(hn::Max(scaled, hn::Set(kF32, -kMost)), hn::Set(kF32, kMost));
      const VectorI32 code = hn::NearestInt(clamped);
      sum = hn::Add(sum, code);
      hn::StoreU(hn::DemoteTo(bytes, code), bytes, block_codes + i);
    }
    scales[block] = absmax / kMost;
    sums[block] = hn::GetLane(hn::SumOfLanes(kI32, sum));
  }
}

void widen_bf16(const std::uint16_t* x, std::int64_t size, float* out) {
  for (std::int64_t i = 0; i < size; i += kLanes) hn::StoreU(load_bfloat16(x + i), kF32, out + i);
}

// The upper half of x after rounding to nearest even, in place (lower half cleared). NaN stays NaN: its quiet bit is
// set.
HWY_INLINE VectorU32 rounded_to_bf16(VectorF32 x) {
  const VectorU32 bits = hn::BitCast(kU32, x);
  const VectorU32 tie_to_even = hn::And(hn::ShiftRight<16>(bits), hn::Set(kU32, 1));
  const VectorU32 rounded = hn::Add(bits, hn::Add(hn::Set(kU32, 0x7FFFU), tie_to_even));
  const VectorU32 quiet = hn::Or(bits, hn::Set(kU32, 0x00400000U));
  const auto is_nan = hn::RebindMask(kU32, hn::IsNaN(x));
  return hn::And(hn::IfThenElse(is_nan, quiet, rounded), hn::Set(kU32, 0xFFFF0000U));
}

void narrow_to_bf16(const float* x, std::int64_t size, std::uint16_t* out) {
  for (std::int64_t i = 0; i < size; i += kLanes) {
    const VectorU32 upper = hn::ShiftRight<16>(rounded_to_bf16(hn::LoadU(kF32, x + i)));
    hn::StoreU(hn::DemoteTo(kHalfU16, hn::BitCast(kI32, upper)), kHalfU16, out + i);
  }
}

void round_to_bf16(const float* x, std::int64_t size, float* out) {
  for (std::int64_t i = 0; i < size; i += kLanes)
    hn::StoreU(hn::BitCast(kF32, rounded_to_bf16(hn::LoadU(kF32, x + i))), kF32, out + i);
}

constexpr VectorKernels kVectorKernels = {rms_norm,   gated_rms_norm,     silu_product,  add,
                                          scale,      apply_sigmoid_gate, dot,           quantize_row,
                                          widen_bf16, narrow_to_bf16,     round_to_bf16, all_finite};

}  // namespace HWY_NAMESPACE
}  // namespace tare::engine
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tare::engine {

const VectorKernels* vector_kernels(std::int64_t target) {
  TARE_RETURN_FOR_TARGET(target, kVectorKernels)
}

}  // namespace tare::engine
#endif
