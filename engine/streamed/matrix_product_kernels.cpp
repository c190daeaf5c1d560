// Compiled once for every instruction set.
#include <algorithm>
#include <cstring>

#include "engine/streamed/matrix_product.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/streamed/matrix_product_kernels.cpp"
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace tare::engine {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

constexpr hn::CappedTag<float, 16> kF32;
using Vector = hn::Vec<decltype(kF32)>;
constexpr int kLanes = static_cast<int>(hn::MaxLanes(kF32));
constexpr int kVectors = static_cast<int>(kPanelRows) / kLanes;  // a panel's width
// Sums of a tile that fill the registers: AVX-512 has 32 of them, the others 16.
constexpr int kSums = kLanes == 16 ? 24 : 12;
constexpr int kTileRows = kSums / kVectors < 1 ? 1 : kSums / kVectors;
constexpr std::int64_t kColumnBlock = 512;  // 64 KB of a panel

struct Tile {
  const float* a;
  std::int64_t a_stride;
  const float* panel;  // [columns][32]
  std::int64_t columns;
  float* c;
  std::int64_t c_stride;
  std::int64_t valid;  // of the panel's 32 rows
  bool add;
};

template <int kRows>
void multiply_tile(const Tile& tile) {
  Vector sums[kRows][kVectors];
  for (int i = 0; i < kRows; ++i)
    for (int v = 0; v < kVectors; ++v) sums[i][v] = hn::Zero(kF32);
  for (std::int64_t l = 0; l < tile.columns; ++l) {
    Vector weights[kVectors];
    for (int v = 0; v < kVectors; ++v) weights[v] = hn::LoadU(kF32, tile.panel + l * kPanelRows + v * kLanes);
    for (int i = 0; i < kRows; ++i) {
      const Vector x = hn::Set(kF32, tile.a[i * tile.a_stride + l]);
      for (int v = 0; v < kVectors; ++v) sums[i][v] = hn::MulAdd(x, weights[v], sums[i][v]);
    }
  }
  for (int i = 0; i < kRows; ++i) {
    float* c = tile.c + i * tile.c_stride;
    if (tile.valid == kPanelRows) {
      for (int v = 0; v < kVectors; ++v) {
        const Vector sum = tile.add ? hn::Add(hn::LoadU(kF32, c + v * kLanes), sums[i][v]) : sums[i][v];
        hn::StoreU(sum, kF32, c + v * kLanes);
      }
      continue;
    }
    HWY_ALIGN float whole[kPanelRows];
    for (int v = 0; v < kVectors; ++v) hn::StoreU(sums[i][v], kF32, whole + v * kLanes);
    for (std::int64_t n = 0; n < tile.valid; ++n) c[n] = tile.add ? c[n] + whole[n] : whole[n];
  }
}

void product_range(const RowsIn& a, const PackedMatrix& b, const RowsOut& c, const ProductRange& range,
                   ProductTarget target) {
  for (std::int64_t begin = 0; begin < range.columns; begin += kColumnBlock)
    for (std::int64_t panel = range.first_panel; panel < range.last_panel; ++panel) {
      const std::int64_t row = panel * kPanelRows;
      Tile tile{.a = nullptr,
                .a_stride = a.stride,
                .panel = b.panel(panel) + begin * kPanelRows,
                .columns = std::min(kColumnBlock, range.columns - begin),
                .c = nullptr,
                .c_stride = c.stride,
                .valid = std::min(kPanelRows, range.row_limit - row),
                .add = begin > 0 || target == ProductTarget::kAdd};
      const auto at = [&](std::int64_t i) {
        tile.a = a.data + i * a.stride + begin;
        tile.c = c.data + i * c.stride + row;
      };
      std::int64_t i = 0;
      for (; i + kTileRows <= range.count; i += kTileRows) {
        at(i);
        multiply_tile<kTileRows>(tile);
      }
      for (; i < range.count; ++i) {
        at(i);
        multiply_tile<1>(tile);
      }
    }
}

// Columns [0, 32) of a head's state: they stay in the first cache for all tokens.
void recurrence_columns(const HeadTokens& head, std::int64_t first_column, float* state) {
  const std::int64_t valid = std::min(kPanelRows, head.value_dim - first_column);
  std::memset(state, 0, static_cast<std::size_t>(head.key_dim * kPanelRows) * sizeof(float));
  HWY_ALIGN float values[kPanelRows] = {};
  HWY_ALIGN float results[kPanelRows];
  for (std::int64_t t = 0; t < head.tokens; ++t) {
    const float* query = head.query.data + t * head.query.stride;
    const float* key = head.key.data + t * head.key.stride;
    std::memcpy(values, head.value.data + t * head.value.stride + first_column,
                static_cast<std::size_t>(valid) * sizeof(float));
    const Vector alpha = hn::Set(kF32, head.alpha[t * head.gate_stride]);
    const Vector beta = hn::Set(kF32, head.beta[t * head.gate_stride]);
    // Even and odd rows apart, so that additions of one column do not wait for each other.
    Vector sums[2][kVectors];
    for (int v = 0; v < kVectors; ++v) sums[0][v] = sums[1][v] = hn::Zero(kF32);
    for (std::int64_t i = 0; i < head.key_dim; ++i) {
      const Vector k = hn::Set(kF32, key[i]);
      for (int v = 0; v < kVectors; ++v)
        sums[i & 1][v] = hn::MulAdd(hn::LoadU(kF32, state + i * kPanelRows + v * kLanes), k, sums[i & 1][v]);
    }
    Vector update[kVectors];
    for (int v = 0; v < kVectors; ++v) {
      const Vector predicted = hn::Mul(alpha, hn::Add(sums[0][v], sums[1][v]));
      update[v] = hn::Mul(beta, hn::Sub(hn::LoadU(kF32, values + v * kLanes), predicted));
      sums[0][v] = sums[1][v] = hn::Zero(kF32);
    }
    for (std::int64_t i = 0; i < head.key_dim; ++i) {
      const Vector k = hn::Set(kF32, key[i]);
      const Vector q = hn::Set(kF32, query[i]);
      for (int v = 0; v < kVectors; ++v) {
        float* place = state + i * kPanelRows + v * kLanes;
        const Vector next = hn::MulAdd(k, update[v], hn::Mul(alpha, hn::LoadU(kF32, place)));
        hn::StoreU(next, kF32, place);
        sums[i & 1][v] = hn::MulAdd(next, q, sums[i & 1][v]);
      }
    }
    for (int v = 0; v < kVectors; ++v) hn::StoreU(hn::Add(sums[0][v], sums[1][v]), kF32, results + v * kLanes);
    std::memcpy(head.out.data + t * head.out.stride + first_column, results,
                static_cast<std::size_t>(valid) * sizeof(float));
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tare::engine
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tare::engine {
namespace {

HWY_EXPORT(product_range);
HWY_EXPORT(recurrence_columns);

}  // namespace

void multiply_range(const RowsIn& a, const PackedMatrix& b, const RowsOut& c, const ProductRange& range,
                    ProductTarget target) {
  HWY_DYNAMIC_DISPATCH(product_range)(a, b, c, range, target);
}

void run_recurrence(const HeadTokens& head, std::vector<float>& state) {
  state.resize(static_cast<std::size_t>(head.key_dim * kPanelRows));
  for (std::int64_t column = 0; column < head.value_dim; column += kPanelRows)
    HWY_DYNAMIC_DISPATCH(recurrence_columns)(head, column, state.data());
}

}  // namespace tare::engine
#endif
