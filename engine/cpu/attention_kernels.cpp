// A few queries against one head's cache, for every instruction set. Scores: lanes are positions. Values: lanes are
// channels.
#include <algorithm>

#include "engine/cpu/aligned_buffer.h"
#include "engine/cpu/kernel_tables.h"
#include "engine/cpu/kv_layout.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/cpu/attention_kernels.cpp"
#include <hwy/foreach_target.h>
//
#include "engine/cpu/cache_codecs-inl.h"
#include "engine/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tare::engine {
namespace HWY_NAMESPACE {

constexpr int kScoreSums = 4;  // by channel mod 4, added as (0 + 1) + (2 + 3)

template <CacheFormat kFormat, int kQueries>
HWY_INLINE void scores_of(const float* const* queries, const CacheRows& keys, std::int64_t head_dim, std::int64_t count,
                          float scale, float* const* scores) {
  const std::int64_t channels = round_up(head_dim, kKeyChannelPadding);
  const RowCells cells = key_cells(kFormat, head_dim);
  for (std::int64_t first = 0; first < count; first += kKeyBlock) {
    const KeyBlock<kFormat> block{keys.codes + first * cells.codes_size(), keys.scales + first * cells.scales_size()};
    for (std::int64_t lane = 0; lane < kKeyBlock; lane += kLanes) {
      VectorF32 sums[kQueries][kScoreSums];
      for (auto& row : sums)
        for (VectorF32& sum : row) sum = hn::Zero(kF32);
      for (std::int64_t channel = 0; channel < channels; channel += kScoreSums) {
        const VectorF32 key_scale = block.scale(channel, lane);
        for (int s = 0; s < kScoreSums; ++s) {
          const VectorF32 key = block.value(channel + s, lane, key_scale);
          for (int q = 0; q < kQueries; ++q)
            sums[q][s] = hn::MulAdd(key, hn::Set(kF32, queries[q][channel + s]), sums[q][s]);
        }
      }
      for (int q = 0; q < kQueries; ++q) {
        const VectorF32 sum = hn::Add(hn::Add(sums[q][0], sums[q][1]), hn::Add(sums[q][2], sums[q][3]));
        hn::StoreU(hn::Mul(sum, hn::Set(kF32, scale)), kF32, scores[q] + first + lane);
      }
    }
  }
}

template <CacheFormat kFormat>
void scores_in(const float* const* queries, std::int64_t query_count, const CacheRows& keys, std::int64_t head_dim,
               std::int64_t count, float scale, float* const* scores) {
  static_assert(kMostQueries == 4);
  switch (query_count) {
    case 4:
      return scores_of<kFormat, 4>(queries, keys, head_dim, count, scale, scores);
    case 3:
      return scores_of<kFormat, 3>(queries, keys, head_dim, count, scale, scores);
    case 2:
      return scores_of<kFormat, 2>(queries, keys, head_dim, count, scale, scores);
    default:
      return scores_of<kFormat, 1>(queries, keys, head_dim, count, scale, scores);
  }
}

void scores(const float* const* queries, std::int64_t query_count, const CacheRows& keys, std::int64_t head_dim,
            std::int64_t count, float scale, float* const* scores) {
  switch (keys.format) {
    case CacheFormat::kFP32:
      return scores_in<CacheFormat::kFP32>(queries, query_count, keys, head_dim, count, scale, scores);
    case CacheFormat::kBF16:
      return scores_in<CacheFormat::kBF16>(queries, query_count, keys, head_dim, count, scale, scores);
    case CacheFormat::kFP8:
      return scores_in<CacheFormat::kFP8>(queries, query_count, keys, head_dim, count, scale, scores);
    case CacheFormat::kInt8:
      return scores_in<CacheFormat::kInt8>(queries, query_count, keys, head_dim, count, scale, scores);
    case CacheFormat::kNVFP4:
      return scores_in<CacheFormat::kNVFP4>(queries, query_count, keys, head_dim, count, scale, scores);
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

// kVectors vectors of channels of kQueries queries at once, two sums by position mod 2. kTail: rows of `tail` follow.
template <CacheFormat kFormat, int kQueries, int kVectors, bool kTail>
HWY_INLINE void weighted_channels(const float* const* weights, const CacheRows& values, const RowCells& cells,
                                  std::int64_t count, const ValueTail& tail, const float* factors, float* const* out,
                                  std::int64_t channel) {
  VectorF32 sums[2][kQueries][kVectors];
  for (auto& parity : sums)
    for (auto& row : parity)
      for (VectorF32& sum : row) sum = hn::Zero(kF32);
  const auto add_position = [&](std::int64_t j, auto parity) HWY_ATTR {
    constexpr int kParity = parity;
    const CacheRows& from = kTail && j >= count ? tail.values : values;
    const std::int64_t at = kTail && j >= count ? tail.rows[j - count] : j;
    const ValueRow<kFormat> row{from.codes + at * cells.codes_size(), from.scales + at * cells.scales_size()};
    VectorF32 value[kVectors];
    for (int v = 0; v < kVectors; ++v) value[v] = row.at(channel + v * kLanes);
    for (int q = 0; q < kQueries; ++q) {
      const VectorF32 weight = hn::Set(kF32, weights[q][j]);
      for (int v = 0; v < kVectors; ++v) sums[kParity][q][v] = hn::MulAdd(weight, value[v], sums[kParity][q][v]);
    }
  };
  const std::int64_t total = kTail ? count + tail.count : count;
  std::int64_t j = 0;
  for (; j + 2 <= total; j += 2) {
    add_position(j, std::integral_constant<int, 0>{});
    add_position(j + 1, std::integral_constant<int, 1>{});
  }
  if (j < total) add_position(j, std::integral_constant<int, 0>{});
  for (int q = 0; q < kQueries; ++q)
    for (int v = 0; v < kVectors; ++v)
      hn::StoreU(hn::Mul(hn::Add(sums[0][q][v], sums[1][q][v]), hn::Set(kF32, factors[q])), kF32,
                 out[q] + channel + v * kLanes);
}

template <CacheFormat kFormat, int kQueries, bool kTail>
void weighted_values_of(const float* const* weights, const CacheRows& values, std::int64_t head_dim, std::int64_t count,
                        const ValueTail& tail, const float* factors, float* const* out) {
  // 2 * kQueries * kVectors sums in registers
  constexpr int kSums = HWY_MAX_BYTES >= 64 ? 16 : 8;
  constexpr int kVectors = kQueries * 2 >= kSums ? 1 : kSums / (2 * kQueries);
  const RowCells cells = value_cells(kFormat, head_dim);
  const std::int64_t stride = round_up(head_dim, kValueChannelPadding);
  std::int64_t channel = 0;
  for (; channel + kVectors * kLanes <= stride; channel += kVectors * kLanes)
    weighted_channels<kFormat, kQueries, kVectors, kTail>(weights, values, cells, count, tail, factors, out, channel);
  for (; channel < stride; channel += kLanes)
    weighted_channels<kFormat, kQueries, 1, kTail>(weights, values, cells, count, tail, factors, out, channel);
}

template <CacheFormat kFormat, bool kTail>
void weighted_values_with(const float* const* weights, std::int64_t query_count, const CacheRows& values,
                          std::int64_t head_dim, std::int64_t count, const ValueTail& tail, const float* factors,
                          float* const* out) {
  switch (query_count) {
    case 4:
      return weighted_values_of<kFormat, 4, kTail>(weights, values, head_dim, count, tail, factors, out);
    case 3:
      return weighted_values_of<kFormat, 3, kTail>(weights, values, head_dim, count, tail, factors, out);
    case 2:
      return weighted_values_of<kFormat, 2, kTail>(weights, values, head_dim, count, tail, factors, out);
    default:
      return weighted_values_of<kFormat, 1, kTail>(weights, values, head_dim, count, tail, factors, out);
  }
}

template <CacheFormat kFormat>
void weighted_values_in(const float* const* weights, std::int64_t query_count, const CacheRows& values,
                        std::int64_t head_dim, std::int64_t count, const ValueTail& tail, const float* factors,
                        float* const* out) {
  if (tail.count == 0) {
    weighted_values_with<kFormat, false>(weights, query_count, values, head_dim, count, tail, factors, out);
  } else {
    weighted_values_with<kFormat, true>(weights, query_count, values, head_dim, count, tail, factors, out);
  }
}

void weighted_values(const float* const* weights, std::int64_t query_count, const CacheRows& values,
                     std::int64_t head_dim, std::int64_t count, const ValueTail& tail, const float* factors,
                     float* const* out) {
  switch (values.format) {
    case CacheFormat::kFP32:
      return weighted_values_in<CacheFormat::kFP32>(weights, query_count, values, head_dim, count, tail, factors, out);
    case CacheFormat::kBF16:
      return weighted_values_in<CacheFormat::kBF16>(weights, query_count, values, head_dim, count, tail, factors, out);
    case CacheFormat::kFP8:
      return weighted_values_in<CacheFormat::kFP8>(weights, query_count, values, head_dim, count, tail, factors, out);
    case CacheFormat::kInt8:
      return weighted_values_in<CacheFormat::kInt8>(weights, query_count, values, head_dim, count, tail, factors, out);
    case CacheFormat::kNVFP4:
      return weighted_values_in<CacheFormat::kNVFP4>(weights, query_count, values, head_dim, count, tail, factors, out);
  }
}

constexpr AttentionKernels kAttentionKernels = {scores, exponentiate, weighted_values};

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
