// y = W x for up to 32 tokens: the weight product of a decoding round, in every weight format, and what it leaves
// behind for the next kernel.
//
// A product's blocks each sum a run of K; the partial sums go to planes (tile_plan.h) that the *next* kernel adds in
// order while it reads them (product_result.cuh). So a product needs no second pass, and the bits do not depend on
// which block ends first, nor on the number of tokens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "engine/cuda/device/launch.h"
#include "engine/cuda/product/activated_plan.h"
#include "engine/cuda/product/operand.h"
#include "engine/cuda/product/tile_plan.h"
#include "engine/formats/weight_format.h"

namespace tare::engine {

// A weight matrix in device memory (one projection, or several of one input stacked), in the tiles of its format.
struct WeightMatrix {
  WeightFormat format = WeightFormat::kBF16;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  const std::byte* tiles = nullptr;  // 128-byte aligned, tile_bytes(codec(), rows, columns)
  ScaleFormat scales = ScaleFormat::kFP16;
  [[nodiscard]] WeightCodec codec() const { return {format, scales}; }
};
// Units, and the rows' scales behind them (tiles.h).
[[nodiscard]] std::int64_t tile_bytes(WeightCodec codec, std::int64_t rows, std::int64_t columns);
[[nodiscard]] std::int64_t unit_run_bytes(WeightCodec codec, std::int64_t rows, std::int64_t columns);  // units alone
// What an inventory calls it: "q4", "q4, e4m3 scales".
[[nodiscard]] std::string stored_format(const WeightMatrix& matrix);
// The scale of each row's tensor, in device memory; null where scales are FP16 or none.
[[nodiscard]] const float* row_scales(const WeightMatrix& matrix);

// BF16 rows beside a product, of the same input (GDN's b and a projections): y[token][row] FP32, summed in FP32.
struct SideRows {
  const std::uint16_t* weights = nullptr;  // [rows][columns] BF16, row-major
  int rows = 0;                            // 0: none
  float* out = nullptr;                    // [width][rows]; written for all tokens of the width
};

// What a product left: read with product_value or gather_rows.
struct ProductResult {
  const float* data = nullptr;
  int rows = 0;
  int width = 0;        // planes: tokens a plane; rows: not used
  bool planes = false;  // false: data is [token][rows], one plane
  float factor = 1;     // y = factor * sum of planes (2^-exponent of the operand)
  TilePlan plan{};
};

// Planes: [plane][row / 256][token / 2][row % 256][token % 2] FP32.
[[nodiscard]] constexpr std::int64_t plane_place(int width, int row, int token) {
  return ((static_cast<std::int64_t>(row / 256) * (width / 2) + token / 2) * 256 + row % 256) * 2 + token % 2;
}
[[nodiscard]] constexpr std::int64_t plane_floats(const TilePlan& plan, int width) {
  return static_cast<std::int64_t>(plan.row_blocks) * 256 * width;
}

// How a product is cut and when it lets its successor start: engine options.
struct ProductSettings {
  int blocks = 132;  // thread blocks, the number of SMs or a multiple
  // The successor's blocks may start at once (-1), or when a block has this many unit pairs left to ask for.
  int trigger_pairs = -1;
  // No two thread blocks of the launch on one SM: those that start early else meet on the few SMs that have room.
  bool alone = false;
  // Stages of weights that the later half of the thread blocks asks for before the preceding grid ends; 0: all that its
  // ring holds, as the earlier half does. Those blocks start where blocks of the launches before end, and what they ask
  // for stands in line before what a small kernel between two products reads.
  int late_stages = 0;
};
[[nodiscard]] constexpr ProductSettings with_late_stages(ProductSettings settings, std::int64_t stages) {
  settings.late_stages = static_cast<int>(stages);
  return settings;
}

// The blocks of side rows are taken from settings.blocks: all blocks must run at once, or the last ones wait for the
// first to end.
[[nodiscard]] TilePlan product_plan(const WeightMatrix& matrix, const ProductSettings& settings, int side_rows = 0);
// Floats that the planes of this product need.
[[nodiscard]] std::int64_t product_plane_floats(const WeightMatrix& matrix, const ProductSettings& settings, int width,
                                                int side_rows = 0);

// Launches one kernel and says what it will leave. operand: kBF16Panels for BF16 weights, kFP16Panels for others;
// planes: product_plane_floats long. Throws Error (environment) when the device is no Hopper or the launch fails.
ProductResult launch_product(const WeightMatrix& matrix, const Operand& operand, const SideRows& side, float* planes,
                             const ProductSettings& settings, const CudaLaunch& launch);

// gate and up rows of one input, in turn (gate_up_rows.h): writes silu(gate) up to `out`, an operand of `rows` / 2
// columns and the same width. Cut as activated_plan.h has it;
// planes: activated_plane_floats long; counters: activated_counters words, zero at first, which it leaves zero.
[[nodiscard]] std::int64_t activated_plane_floats(const ActivatedPlan& plan, int width);
[[nodiscard]] std::int64_t activated_counters(const ActivatedPlan& plan);
void launch_activated_product(const WeightMatrix& matrix, const Operand& operand, const ActivatedPlan& plan,
                              const Operand& out, float* planes, unsigned* counters, const ProductSettings& settings,
                              const CudaLaunch& launch);

// launch_product in FP32 on any device, from the same tiles, with a kFP32Rows operand: a few lines, slow, exact up to
// FP32 sums in order of K. y: [operand.width][rows] (layout rows). SideRows as above.
ProductResult launch_reference_product(const WeightMatrix& matrix, const Operand& operand, const SideRows& side,
                                       float* y, const CudaLaunch& launch);

}  // namespace tare::engine
