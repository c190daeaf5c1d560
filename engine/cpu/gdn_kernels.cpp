// Gated DeltaNet on one value head, for every instruction set. Lanes are value channels, so no sum crosses lanes.
// Formulas: docs/method/model.md (recurrence and chunk form).
#include "engine/cpu/aligned_buffer.h"
#include "engine/cpu/gdn_layout.h"
#include "engine/cpu/kernel_tables.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/cpu/gdn_kernels.cpp"
#include <hwy/foreach_target.h>
//
#include "engine/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tare::engine {
namespace HWY_NAMESPACE {

// Vectors of state columns in registers at once: with 32 registers a whole row of 128 channels, so that the state is
// streamed front to back; with 16 registers tiles of two.
constexpr int kStateVectors = HWY_MAX_BYTES >= 64 ? 8 : 2;

// Calls tile<kVectors>(first column) for tiles that cover [0, stride).
template <class Tile>
HWY_INLINE void for_column_tiles(std::int64_t stride, const Tile& tile) {
  std::int64_t column = 0;
  for (; column + kStateVectors * kLanes <= stride; column += kStateVectors * kLanes)
    tile(std::integral_constant<int, kStateVectors>{}, column);
  for (; column < stride; column += kLanes) tile(std::integral_constant<int, 1>{}, column);
}

void convolve_silu(const float* const* rows, const float* weights, std::int64_t taps, std::int64_t weight_stride,
                   std::int64_t count, float* out) {
  std::int64_t channel = 0;
  for (; channel < count; channel += kLanes) {
    VectorF32 sum = hn::Zero(kF32);
    for (std::int64_t tap = 0; tap < taps; ++tap)
      sum = hn::MulAdd(hn::LoadU(kF32, weights + tap * weight_stride + channel), hn::LoadU(kF32, rows[tap] + channel),
                       sum);
    hn::StoreU(silu(sum), kF32, out + channel);
  }
  for (std::int64_t surplus = count; surplus < round_up(count, kStateColumnPadding); ++surplus) out[surplus] = 0;
}

void read_state(const float* state, std::int64_t dk, std::int64_t stride, const float* key, const float* query,
                float* key_product, float* query_product) {
  for_column_tiles(stride, [&](auto vectors, std::int64_t column) HWY_ATTR {
    constexpr int kVectors = vectors;
    VectorF32 by_key[kVectors];
    VectorF32 by_query[kVectors];
    for (int v = 0; v < kVectors; ++v) by_key[v] = by_query[v] = hn::Zero(kF32);
    const float* row = state + column;
    for (std::int64_t i = 0; i < dk; ++i, row += stride) {
      const VectorF32 k = hn::Set(kF32, key[i]);
      const VectorF32 q = hn::Set(kF32, query[i]);
      for (int v = 0; v < kVectors; ++v) {
        const VectorF32 s = hn::LoadU(kF32, row + v * kLanes);
        by_key[v] = hn::MulAdd(k, s, by_key[v]);
        by_query[v] = hn::MulAdd(q, s, by_query[v]);
      }
    }
    for (int v = 0; v < kVectors; ++v) {
      hn::StoreU(by_key[v], kF32, key_product + column + v * kLanes);
      hn::StoreU(by_query[v], kF32, query_product + column + v * kLanes);
    }
  });
}

void fold_and_read_state(const float* in, float* out, std::int64_t dk, std::int64_t stride, float decay,
                         const float* fold_key, const float* fold_value, const float* key, const float* query,
                         float* key_product, float* query_product) {
  for_column_tiles(stride, [&](auto vectors, std::int64_t column) HWY_ATTR {
    constexpr int kVectors = vectors;
    VectorF32 by_key[kVectors];
    VectorF32 by_query[kVectors];
    VectorF32 value[kVectors];
    for (int v = 0; v < kVectors; ++v) {
      by_key[v] = by_query[v] = hn::Zero(kF32);
      value[v] = hn::LoadU(kF32, fold_value + column + v * kLanes);
    }
    const VectorF32 alpha = hn::Set(kF32, decay);
    const float* row = in + column;
    float* out_row = out + column;
    for (std::int64_t i = 0; i < dk; ++i, row += stride, out_row += stride) {
      const VectorF32 fold = hn::Set(kF32, fold_key[i]);
      const VectorF32 k = hn::Set(kF32, key[i]);
      const VectorF32 q = hn::Set(kF32, query[i]);
      for (int v = 0; v < kVectors; ++v) {
        const VectorF32 s = hn::MulAdd(fold, value[v], hn::Mul(alpha, hn::LoadU(kF32, row + v * kLanes)));
        hn::StoreU(s, kF32, out_row + v * kLanes);
        by_key[v] = hn::MulAdd(k, s, by_key[v]);
        by_query[v] = hn::MulAdd(q, s, by_query[v]);
      }
    }
    for (int v = 0; v < kVectors; ++v) {
      hn::StoreU(by_key[v], kF32, key_product + column + v * kLanes);
      hn::StoreU(by_query[v], kF32, query_product + column + v * kLanes);
    }
  });
}

void fold_state(const float* in, float* out, std::int64_t dk, std::int64_t stride, float decay, const float* fold_key,
                const float* fold_value) {
  const VectorF32 alpha = hn::Set(kF32, decay);
  for (std::int64_t i = 0; i < dk; ++i) {
    const VectorF32 fold = hn::Set(kF32, fold_key[i]);
    for (std::int64_t column = 0; column < stride; column += kLanes) {
      const std::int64_t at = i * stride + column;
      hn::StoreU(hn::MulAdd(fold, hn::LoadU(kF32, fold_value + column), hn::Mul(alpha, hn::LoadU(kF32, in + at))), kF32,
                 out + at);
    }
  }
}

void recurrent_output(const float* value, const float* key_product, const float* query_product, std::int64_t stride,
                      float beta, float decay, float key_query, float* u, float* o) {
  const VectorF32 alpha = hn::Set(kF32, decay);
  for (std::int64_t i = 0; i < stride; i += kLanes) {
    const VectorF32 predicted = hn::Mul(alpha, hn::LoadU(kF32, key_product + i));
    const VectorF32 update = hn::Mul(hn::Set(kF32, beta), hn::Sub(hn::LoadU(kF32, value + i), predicted));
    hn::StoreU(update, kF32, u + i);
    const VectorF32 old = hn::Mul(alpha, hn::LoadU(kF32, query_product + i));
    hn::StoreU(hn::MulAdd(hn::Set(kF32, key_query), update, old), kF32, o + i);
  }
}

void block_dots(const float* keys, std::int64_t dk, const float* x, std::int64_t count, float* dots) {
  for (std::int64_t first = 0; first < count; first += kLanes) {
    VectorF32 sum = hn::Zero(kF32);
    for (std::int64_t i = 0; i < dk; ++i)
      sum = hn::MulAdd(hn::Set(kF32, x[i]), hn::LoadU(kF32, keys + i * kGdnBlock + first), sum);
    hn::StoreU(sum, kF32, dots + first);
  }
}

void decay_weights(const float* high, const float* low, std::int64_t last, std::int64_t count, float* weights) {
  const VectorF32 last_high = hn::Set(kF32, high[last]);
  const VectorF32 last_low = hn::Set(kF32, low[last]);
  for (std::int64_t first = 0; first < count; first += kLanes) {
    const VectorF32 high_difference = hn::Sub(last_high, hn::LoadU(kF32, high + first));
    const VectorF32 low_difference = hn::Sub(last_low, hn::LoadU(kF32, low + first));
    hn::StoreU(exponential(hn::Add(high_difference, low_difference)), kF32, weights + first);
  }
}

void add_weighted_rows(const float* rows, const float* weights, std::int64_t count, std::int64_t stride, float* out) {
  for_column_tiles(stride, [&](auto vectors, std::int64_t column) HWY_ATTR {
    constexpr int kVectors = vectors;
    VectorF32 sum[kVectors];
    for (int v = 0; v < kVectors; ++v) sum[v] = hn::LoadU(kF32, out + column + v * kLanes);
    for (std::int64_t j = 0; j < count; ++j) {
      const VectorF32 weight = hn::Set(kF32, weights[j]);
      for (int v = 0; v < kVectors; ++v)
        sum[v] = hn::MulAdd(weight, hn::LoadU(kF32, rows + j * stride + column + v * kLanes), sum[v]);
    }
    for (int v = 0; v < kVectors; ++v) hn::StoreU(sum[v], kF32, out + column + v * kLanes);
  });
}

void fold_block(const float* in, float* out, std::int64_t dk, std::int64_t stride, float decay, const float* keys,
                const float* weights, const float* rows, std::int64_t count) {
  for (std::int64_t i = 0; i < dk; ++i) {
    float row_weights[kGdnBlock];
    for (std::int64_t j = 0; j < count; ++j) row_weights[j] = keys[i * kGdnBlock + j] * weights[j];
    for (std::int64_t column = 0; column < stride; column += kLanes)
      hn::StoreU(hn::Mul(hn::Set(kF32, decay), hn::LoadU(kF32, in + i * stride + column)), kF32,
                 out + i * stride + column);
    add_weighted_rows(rows, row_weights, count, stride, out + i * stride);
  }
}

constexpr GdnKernels kGdnKernels = {convolve_silu, read_state,    fold_and_read_state, fold_state, recurrent_output,
                                    block_dots,    decay_weights, add_weighted_rows,   fold_block};

}  // namespace HWY_NAMESPACE
}  // namespace tare::engine
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tare::engine {

const GdnKernels* gdn_kernels(std::int64_t target) {
  TARE_RETURN_FOR_TARGET(target, kGdnKernels)
}

}  // namespace tare::engine
#endif
