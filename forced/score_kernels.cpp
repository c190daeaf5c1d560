#include "forced/score_kernels.h"

#include <cmath>
#include <limits>

// No machine that we support stops at SSSE3.
#define HWY_DISABLED_TARGETS (HWY_SSSE3)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "forced/score_kernels.cpp"
#include <hwy/foreach_target.h>
//
#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace tare::forced {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using TagF64 = hn::ScalableTag<double>;
using TagF32 = hn::ScalableTag<float>;
// As many floats as a vector of doubles has lanes.
using TagHalfF32 = hn::Rebind<float, TagF64>;
using TagHalfU16 = hn::Rebind<std::uint16_t, TagF64>;
using TagHalfU32 = hn::Rebind<std::uint32_t, TagF64>;
constexpr TagF64 kF64{};
constexpr TagF32 kF32{};
constexpr TagHalfF32 kHalfF32{};
constexpr TagHalfU16 kHalfU16{};
constexpr TagHalfU32 kHalfU32{};
using VectorF64 = hn::Vec<TagF64>;

RowMaximum copy_row(const float* logits, std::int64_t size, float* copy) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(kF32));
  auto largest = hn::Set(kF32, -std::numeric_limits<float>::infinity());
  auto wrong = hn::Zero(kF32);
  const auto one = hn::Set(kF32, 1.0F);
  const auto infinity = hn::Set(kF32, std::numeric_limits<float>::infinity());
  std::int64_t i = 0;
  for (; i + lanes <= size; i += lanes) {
    const auto x = hn::LoadU(kF32, logits + i);
    hn::StoreU(x, kF32, copy + i);
    wrong = hn::Add(wrong, hn::IfThenElseZero(hn::Or(hn::IsNaN(x), hn::Eq(x, infinity)), one));
    largest = hn::Max(largest, x);
  }
  RowMaximum result{hn::GetLane(hn::MaxOfLanes(kF32, largest)), hn::GetLane(hn::SumOfLanes(kF32, wrong)) == 0};
  for (; i < size; ++i) {
    copy[i] = logits[i];
    if (std::isnan(logits[i]) || logits[i] == std::numeric_limits<float>::infinity()) result.finite = false;
    if (logits[i] > result.value) result.value = logits[i];
  }
  return result;
}

// Terms this far below the largest are 0 in double precision; also keeps -inf out of the polynomial.
constexpr double kLeastExponent = -744.0;

HWY_INLINE VectorF64 term(const float* x, VectorF64 shift) {
  const VectorF64 wide = hn::Sub(hn::PromoteTo(kF64, hn::LoadU(kHalfF32, x)), shift);
  const VectorF64 least = hn::Set(kF64, kLeastExponent);
  return hn::IfThenElseZero(hn::Ge(wide, least), hn::Exp(kF64, hn::Max(wide, least)));
}

double sum_of_exp(const float* x, std::int64_t size, double shift) {
  constexpr int kSums = 4;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(kF64));
  const VectorF64 shifts = hn::Set(kF64, shift);
  VectorF64 sums[kSums] = {hn::Zero(kF64), hn::Zero(kF64), hn::Zero(kF64), hn::Zero(kF64)};
  std::int64_t i = 0;
  for (; i + kSums * lanes <= size; i += kSums * lanes)
    for (int s = 0; s < kSums; ++s) sums[s] = hn::Add(sums[s], term(x + i + s * lanes, shifts));
  for (; i + lanes <= size; i += lanes) sums[0] = hn::Add(sums[0], term(x + i, shifts));
  double total = hn::GetLane(hn::SumOfLanes(kF64, hn::Add(hn::Add(sums[0], sums[1]), hn::Add(sums[2], sums[3]))));
  for (; i < size; ++i) total += std::exp(static_cast<double>(x[i]) - shift);
  return total;
}

HWY_INLINE VectorF64 widen_bf16(const std::uint16_t* x) {
  const auto bits = hn::ShiftLeft<16>(hn::PromoteTo(kHalfU32, hn::LoadU(kHalfU16, x)));
  return hn::PromoteTo(kF64, hn::BitCast(kHalfF32, bits));
}

double widen_one(std::uint16_t x) {
  const std::uint32_t bits = std::uint32_t{x} << 16;
  float value = 0;
  static_assert(sizeof value == sizeof bits);
  __builtin_memcpy(&value, &bits, sizeof value);
  return value;
}

// A tile of kRows x kColumns sums stays in registers; the widened weights serve all its rows.
template <int kRows, int kColumns>
void multiply_tile(const double* x, const std::uint16_t* w, std::int64_t size, float* out, std::int64_t out_stride) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(kF64));
  VectorF64 sums[kRows][kColumns];
  for (auto& row : sums)
    for (VectorF64& sum : row) sum = hn::Zero(kF64);
  std::int64_t k = 0;
  for (; k + lanes <= size; k += lanes) {
    VectorF64 weights[kColumns];
    for (int c = 0; c < kColumns; ++c) weights[c] = widen_bf16(w + c * size + k);
    for (int r = 0; r < kRows; ++r) {
      const VectorF64 values = hn::LoadU(kF64, x + r * size + k);
      for (int c = 0; c < kColumns; ++c) sums[r][c] = hn::MulAdd(values, weights[c], sums[r][c]);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int c = 0; c < kColumns; ++c) {
      double total = hn::GetLane(hn::SumOfLanes(kF64, sums[r][c]));
      for (std::int64_t rest = k; rest < size; ++rest) total += x[r * size + rest] * widen_one(w[c * size + rest]);
      out[r * out_stride + c] = static_cast<float>(total);
    }
  }
}

void multiply_bf16(const double* x, std::int64_t rows, const std::uint16_t* w, std::int64_t count, std::int64_t size,
                   float* out, std::int64_t out_stride) {
  constexpr int kRows = 4;
  constexpr int kColumns = 4;
  std::int64_t v = 0;
  for (; v + kColumns <= count; v += kColumns) {
    std::int64_t r = 0;
    for (; r + kRows <= rows; r += kRows)
      multiply_tile<kRows, kColumns>(x + r * size, w + v * size, size, out + r * out_stride + v, out_stride);
    for (; r < rows; ++r)
      multiply_tile<1, kColumns>(x + r * size, w + v * size, size, out + r * out_stride + v, out_stride);
  }
  for (; v < count; ++v)
    for (std::int64_t r = 0; r < rows; ++r)
      multiply_tile<1, 1>(x + r * size, w + v * size, size, out + r * out_stride + v, out_stride);
}

}  // namespace HWY_NAMESPACE
}  // namespace tare::forced
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tare::forced {

HWY_EXPORT(copy_row);
HWY_EXPORT(sum_of_exp);
HWY_EXPORT(multiply_bf16);

RowMaximum copy_row(const float* logits, std::int64_t size, float* copy) {
  return HWY_DYNAMIC_DISPATCH(copy_row)(logits, size, copy);
}

double sum_of_exp(const float* x, std::int64_t size, double shift) {
  return HWY_DYNAMIC_DISPATCH(sum_of_exp)(x, size, shift);
}

void multiply_bf16(const double* x, std::int64_t rows, const std::uint16_t* w, std::int64_t count, std::int64_t size,
                   float* out, std::int64_t out_stride) {
  HWY_DYNAMIC_DISPATCH(multiply_bf16)(x, rows, w, count, size, out, out_stride);
}

}  // namespace tare::forced
#endif
