// One query against one head's cache, for every instruction set. Scores: lanes are positions. Values: lanes are
// channels.
#include <algorithm>

#include "engine/cpu/aligned_buffer.h"
#include "engine/cpu/kernel_tables.h"
#include "engine/cpu/kv_layout.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/cpu/attention_kernels.cpp"
#include <hwy/foreach_target.h>
//
#include "engine/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tare::engine {
namespace HWY_NAMESPACE {

constexpr int kScoreSums = 4;  // by channel mod 4, added as (0 + 1) + (2 + 3)

template <class Stored>
void scores(const float* query, const Stored* keys, std::int64_t head_dim, std::int64_t count, float scale,
            float* scores) {
  const std::int64_t channels = round_up(head_dim, kKeyChannelPadding);
  for (std::int64_t first = 0; first < count; first += kKeyBlock) {
    const Stored* block = keys + first * channels;
    for (std::int64_t lane = 0; lane < kKeyBlock; lane += kLanes) {
      VectorF32 sums[kScoreSums] = {hn::Zero(kF32), hn::Zero(kF32), hn::Zero(kF32), hn::Zero(kF32)};
      for (std::int64_t channel = 0; channel < channels; channel += kScoreSums)
        for (int s = 0; s < kScoreSums; ++s)
          sums[s] = hn::MulAdd(load_stored(block + (channel + s) * kKeyBlock + lane), hn::Set(kF32, query[channel + s]),
                               sums[s]);
      const VectorF32 sum = hn::Add(hn::Add(sums[0], sums[1]), hn::Add(sums[2], sums[3]));
      hn::StoreU(hn::Mul(sum, hn::Set(kF32, scale)), kF32, scores + first + lane);
    }
  }
}

float exponentiate(float* scores, std::int64_t count) {
  VectorF32 most = hn::Set(kF32, scores[0]);
  std::int64_t j = 0;
  for (; j + kLanes <= count; j += kLanes) most = hn::Max(most, hn::LoadU(kF32, scores + j));
  for (; j < count; ++j) most = hn::Max(most, hn::Set(kF32, scores[j]));
  const VectorF32 offset = hn::MaxOfLanes(kF32, most);
  VectorF32 sum = hn::Zero(kF32);
  j = 0;
  for (; j + kLanes <= count; j += kLanes) {
    const VectorF32 weight = exponential(hn::Sub(hn::LoadU(kF32, scores + j), offset));
    hn::StoreU(weight, kF32, scores + j);
    sum = hn::Add(sum, weight);
  }
  float total = sum_of_lanes(sum);
  if (j == count) return total;
  alignas(64) float tail[16] = {};
  std::copy(scores + j, scores + count, tail);
  hn::Store(exponential(hn::Sub(hn::Load(kF32, tail), offset)), kF32, tail);
  for (std::int64_t i = j; i < count; ++i) {
    scores[i] = tail[i - j];
    total += scores[i];
  }
  return total;
}

// kVectors vectors of channels at once, two sums by position mod 2.
template <int kVectors, class Stored>
HWY_INLINE void weighted_channels(const float* weights, const Stored* values, std::int64_t stride, std::int64_t count,
                                  float factor, float* out) {
  VectorF32 even[kVectors];
  VectorF32 odd[kVectors];
  for (int v = 0; v < kVectors; ++v) even[v] = odd[v] = hn::Zero(kF32);
  std::int64_t j = 0;
  for (; j + 2 <= count; j += 2) {
    const VectorF32 even_weight = hn::Set(kF32, weights[j]);
    const VectorF32 odd_weight = hn::Set(kF32, weights[j + 1]);
    for (int v = 0; v < kVectors; ++v) {
      even[v] = hn::MulAdd(even_weight, load_stored(values + j * stride + v * kLanes), even[v]);
      odd[v] = hn::MulAdd(odd_weight, load_stored(values + (j + 1) * stride + v * kLanes), odd[v]);
    }
  }
  if (j < count)
    for (int v = 0; v < kVectors; ++v)
      even[v] = hn::MulAdd(hn::Set(kF32, weights[j]), load_stored(values + j * stride + v * kLanes), even[v]);
  for (int v = 0; v < kVectors; ++v)
    hn::StoreU(hn::Mul(hn::Add(even[v], odd[v]), hn::Set(kF32, factor)), kF32, out + v * kLanes);
}

template <class Stored>
void weighted_values(const float* weights, const Stored* values, std::int64_t head_dim, std::int64_t count,
                     float factor, float* out) {
  constexpr int kVectors = HWY_MAX_BYTES >= 64 ? 8 : 4;
  const std::int64_t stride = round_up(head_dim, kValueChannelPadding);
  std::int64_t channel = 0;
  for (; channel + kVectors * kLanes <= stride; channel += kVectors * kLanes)
    weighted_channels<kVectors>(weights, values + channel, stride, count, factor, out + channel);
  for (; channel < stride; channel += kLanes)
    weighted_channels<1>(weights, values + channel, stride, count, factor, out + channel);
}

constexpr AttentionKernels kAttentionKernels = {scores<float>, scores<std::uint16_t>, exponentiate,
                                                weighted_values<float>, weighted_values<std::uint16_t>};

}  // namespace HWY_NAMESPACE
}  // namespace tare::engine
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tare::engine {

const AttentionKernels* attention_kernels(std::int64_t target) {
  TARE_RETURN_FOR_TARGET(target, kAttentionKernels)
}

}  // namespace tare::engine
#endif
