#include "engine/cuda/product/product.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "base/error.h"
#include "engine/cuda/device/cuda_check.h"
#include "engine/cuda/product/product_stream.h"
#include "engine/cuda/product/tiles.h"

namespace tare::engine {
namespace {

auto codec_launch(WeightCodec codec) {
  const bool bytes = has_tensor_scale(codec);
  switch (codec.format) {
    case WeightFormat::kQ8:
      return bytes ? launch_q8_e4m3_product : launch_q8_product;
    case WeightFormat::kQ5:
      return bytes ? launch_q5_e4m3_product : launch_q5_product;
    case WeightFormat::kQ4:
      return bytes ? launch_q4_e4m3_product : launch_q4_product;
    case WeightFormat::kQ3:
      return bytes ? launch_q3_e4m3_product : launch_q3_product;
    case WeightFormat::kFP8:
      return bytes ? launch_fp8_e4m3_product : launch_fp8_product;
    case WeightFormat::kNVFP4:
      return launch_nvfp4_product;
    case WeightFormat::kBF16:
      return launch_bf16_product;
  }
  throw internal_error("no product of this weight format");
}

void require_hopper() {
  int device = 0;
  int major = 0;
  check_cuda(cudaGetDevice(&device), "cudaGetDevice");
  check_cuda(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), "cudaDeviceGetAttribute");
  if (major != 9) {
    throw Error(ErrorKind::kEnvironment,
                "the weight products of a round need a Hopper GPU (compute capability 9.0); reference products "
                "(activations.format fp32) run on any",
                "product");
  }
}

void check(const WeightMatrix& matrix, const Operand& operand, const SideRows& side, const float* planes) {
  const bool bfloat16 = matrix.format == WeightFormat::kBF16;
  if (operand.layout != (bfloat16 ? OperandLayout::kBF16Panels : OperandLayout::kFP16Panels)) {
    throw internal_error("a product's operand has the layout of another weight format");
  }
  if (operand.width != 8 && operand.width != 16 && operand.width != 32) {
    throw internal_error("a product takes 8, 16 or 32 tokens, not " + std::to_string(operand.width));
  }
  if (operand.columns != matrix.columns) {
    throw internal_error("a product's operand has " + std::to_string(operand.columns) + " columns, its weights " +
                         std::to_string(matrix.columns));
  }
  if (matrix.tiles == nullptr || operand.data == nullptr || planes == nullptr ||
      (side.rows > 0 && (side.weights == nullptr || side.out == nullptr))) {
    throw internal_error("a product without weights, operand, planes or side rows");
  }
}

// A head's planes are written while ten times the L2 cache goes through it, and would be written on to DRAM and read
// from there again, which costs more than their bytes (docs/method/heads.md). So L2 is asked to keep them, up to eight
// tokens: at 16 they are 16 MB each, and a draft's head was 5 us slower.
constexpr std::int64_t kManyWeightBytes = std::int64_t{256} << 20;
constexpr int kKeptWidth = 8;
bool keeps_planes(const WeightMatrix& matrix, int width) {
  return width <= kKeptWidth && tile_bytes(matrix.codec(), matrix.rows, matrix.columns) >= kManyWeightBytes;
}

}  // namespace

TilePlan product_plan(const WeightMatrix& matrix, const ProductSettings& settings, int side_rows) {
  if (settings.blocks < 1) throw internal_error("a product needs at least one thread block");
  const int side_blocks = (side_rows + kSideRowsABlock - 1) / kSideRowsABlock;
  return cut_tiles(matrix.rows, matrix.columns, std::max(1, settings.blocks - side_blocks));
}

std::int64_t product_plane_floats(const WeightMatrix& matrix, const ProductSettings& settings, int width,
                                  int side_rows) {
  const TilePlan plan = product_plan(matrix, settings, side_rows);
  return plane_floats(plan, width) * plan.most_planes();
}

ProductResult launch_product(const WeightMatrix& matrix, const Operand& operand, const SideRows& side, float* planes,
                             const ProductSettings& settings, const CudaLaunch& launch) {
  check(matrix, operand, side, planes);
  require_hopper();
  const float operand_factor = std::ldexp(1.0F, -operand.exponent);
  const TilePlan plan = product_plan(matrix, settings, side.rows);
  const StreamProduct product{.arguments = {.weights = matrix.tiles,
                                            .operand = operand.data,
                                            .planes = planes,
                                            .plan = plan,
                                            .trigger_pairs = settings.trigger_pairs,
                                            .late_stages = settings.late_stages,
                                            .side_weights = side.weights,
                                            .side_out = side.out,
                                            .side_rows = side.rows,
                                            .columns = static_cast<int>(matrix.columns),
                                            .side_factor = operand_factor,
                                            .row_scales = row_scales(matrix),
                                            .keep_planes = keeps_planes(matrix, operand.width)},
                              .width = operand.width,
                              .alone = settings.alone};
  codec_launch(matrix.codec())(product, launch);
  return {.data = planes,
          .rows = static_cast<int>(matrix.rows),
          .width = operand.width,
          .planes = true,
          .factor = stream_sum_factor(matrix.format) * operand_factor,
          .plan = plan};
}

std::int64_t activated_plane_floats(const ActivatedPlan& plan, int width) {
  return plan.shared.row_blocks == 0 ? 0 : plane_floats(plan.shared, width) * plan.shared.most_planes();
}

std::int64_t activated_counters(const ActivatedPlan& plan) {
  return 2 * std::int64_t{plan.shared.row_blocks};
}

void launch_activated_product(const WeightMatrix& matrix, const Operand& operand, const ActivatedPlan& plan,
                              const Operand& out, float* planes, unsigned* counters, const ProductSettings& settings,
                              const CudaLaunch& launch) {
  check(matrix, operand, {}, planes);
  require_hopper();
  if (out.layout != OperandLayout::kBF16Panels && out.layout != OperandLayout::kFP16Panels)
    throw internal_error("a product that activates writes panels");
  if (out.width != operand.width || 2 * out.columns != matrix.rows || out.data == nullptr)
    throw internal_error("what a product activates has another shape than its operand and rows say");
  if (matrix.rows % (2 * kGateRun) != 0 || unit_row_blocks(matrix.rows) != plan.clusters + plan.shared.row_blocks ||
      unit_pairs_a_row_block(matrix.columns) != plan.shared.pairs_a_row_block)
    throw internal_error("a product that activates has the cut of another matrix");
  const StreamProduct product{
      .arguments = {.weights = matrix.tiles,
                    .operand = operand.data,
                    .planes = planes,
                    .plan = plan.shared,
                    .trigger_pairs = settings.trigger_pairs,
                    .late_stages = settings.late_stages,
                    .columns = static_cast<int>(matrix.columns),
                    .row_scales = row_scales(matrix),
                    .activation = {.out = out,
                                   .factor = stream_sum_factor(matrix.format) * std::ldexp(1.0F, -operand.exponent),
                                   .counters = counters}},
      .width = operand.width,
      .activating_blocks = plan.blocks()};
  codec_launch(matrix.codec())(product, launch);
}

}  // namespace tare::engine
