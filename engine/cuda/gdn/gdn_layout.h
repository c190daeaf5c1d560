// Where a GDN layer's memory lies. dk and dv are padded with zeros to kGdnHead, so that one kernel serves every shape.
// Kernels count its elements in 32 bits.
//
//   state        [value head][column of dv / 8][row of dk / 64][row % 4][row / 4 % 16][column % 8]: S' with
//                S = scale S', FP32; or S itself (the scale is 1 then), BF16, FP16, or INT8 codes. So the lanes of a
//                warp, which have rows 4 apart of 8 or 16 columns (gdn_state.cuh), read and write whole lines.
//   block scales of INT8 [value head][column of dv / 64][row of dk] BF16: of a row's 64 columns (formats/state_codec.h)
//   scales       [value head][half of the columns] FP32. A token multiplies the scale by its decay instead of the
//                state; when the scale would fall below kGdnLeastScale it is multiplied into S' and starts again at 1.
//                Zero memory is the state before the first token: the first decay gives 0, S' starts again at 0.
//   columns      [value head][oldest .. newest][q | k | v], FP32 or BF16. Heads that share a key head each keep its
//                columns, so that no thread block reads what another one writes.
//   records      by half of the verifies: keys [token][key head][dk], updates [token][value head][dv] (u / scale),
//                decays [token][value head], projections [token][q heads | k heads | v heads], all FP32
//   mixed        [token][value_heads * dv] FP32: outputs on their way into an operand whose groups heads share
//   snapshots    of rollback snapshot: [node] of states as above, FP32 whatever the state's format, then [node] of
//   scales
#pragma once

#include <cstdint>

#include "engine/cuda/gdn/gdn.h"
#include "engine/cuda/product/operand.h"

namespace tare::engine {

constexpr int kGdnHead = 128;
constexpr int kGdnTaps = 4;
constexpr int kGdnPast = kGdnTaps - 1;
constexpr int kGdnScaleCopies = 2;
constexpr int kGdnMostRows = 128 * 256;  // of q, k, v and z together: twice what the largest known layer has
constexpr float kGdnLeastScale = 0x1p-20F;

struct GdnMemory {
  void* state = nullptr;
  float* scales = nullptr;
  void* columns = nullptr;
  float* keys = nullptr;
  float* updates = nullptr;
  float* decays = nullptr;
  float* projections = nullptr;
  float* mixed = nullptr;
  float* snapshots = nullptr;  // null unless the cache keeps them
  float* snapshot_scales = nullptr;
  StateFormat state_format = StateFormat::kFP32;  // snapshots are fp32
  bool narrow_columns = false;
  std::uint16_t* block_scales = nullptr;  // of int8
};

// Within a head.
[[nodiscard]] constexpr int gdn_state_place(int row, int column) {
  return (((column / 8 * 2 + row / 64) * 4 + row % 4) * 16 + row / 4 % 16) * 8 + column % 8;
}
[[nodiscard]] constexpr std::int64_t gdn_state_elements(const CudaGdnShape& shape) {
  return static_cast<std::int64_t>(shape.value_heads) * kGdnHead * kGdnHead;
}
constexpr int kGdnStateBlock = 64;  // columns of a row that share a scale in INT8
[[nodiscard]] constexpr int gdn_block_scale_place(int row, int column) {
  return column / kGdnStateBlock * kGdnHead + row;
}
[[nodiscard]] constexpr std::int64_t gdn_block_scales(const CudaGdnShape& shape) {
  return static_cast<std::int64_t>(shape.value_heads) * (kGdnHead / kGdnStateBlock) * kGdnHead;
}
[[nodiscard]] constexpr std::int64_t gdn_column_elements(const CudaGdnShape& shape) {
  return static_cast<std::int64_t>(shape.value_heads) * kGdnPast * 3 * kGdnHead;
}
// Elements of one half of the records.
[[nodiscard]] constexpr std::int64_t gdn_key_elements(const CudaGdnShape& shape) {
  return static_cast<std::int64_t>(kMostRoundTokens) * shape.key_heads * kGdnHead;
}
[[nodiscard]] constexpr std::int64_t gdn_update_elements(const CudaGdnShape& shape) {
  return static_cast<std::int64_t>(kMostRoundTokens) * shape.value_heads * kGdnHead;
}
[[nodiscard]] constexpr std::int64_t gdn_decay_elements(const CudaGdnShape& shape) {
  return static_cast<std::int64_t>(kMostRoundTokens) * shape.value_heads;
}
[[nodiscard]] constexpr std::int64_t gdn_projection_elements(const CudaGdnShape& shape) {
  return static_cast<std::int64_t>(kMostRoundTokens) * (2 * shape.key_heads + shape.value_heads) * kGdnHead;
}
[[nodiscard]] constexpr std::int64_t gdn_mixed_elements(const CudaGdnShape& shape) {
  return static_cast<std::int64_t>(kMostRoundTokens) * shape.value_heads * shape.dv;
}
// Where each part of a cache lies.
[[nodiscard]] GdnMemory gdn_memory(const CudaGdnCache& cache);

}  // namespace tare::engine
