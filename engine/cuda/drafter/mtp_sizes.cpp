#include "engine/cuda/drafter/mtp_sizes.h"

#include <algorithm>
#include <vector>

#include "engine/cuda/model_shapes.h"
#include "engine/cuda/product/gate_up_product.h"

namespace tare::engine {
namespace {

std::array<std::int64_t, 4> operand_columns(const ModelConfig& config) {
  return {2 * config.hidden_size, config.hidden_size, config.query_channels(), config.intermediate_size};
}
std::size_t bytes_of(std::int64_t count, std::int64_t size) {
  return static_cast<std::size_t>(count * size);
}

}  // namespace

MtpSizes mtp_sizes(const ModelConfig& config, const EngineOptions& options, std::int64_t capacity,
                   const CudaDevice& device, std::int64_t head_rows) {
  const bool exact = options.activations.format == ActivationFormat::kFP32;
  const auto columns = operand_columns(config);
  const CudaAttentionShape shape = attention_shape_of(config);
  const std::int64_t slots = mtp_slots(capacity);
  MtpSizes sizes;
  sizes.cache = key_value_cache_bytes(shape, options.kv.key, options.kv.value, slots);
  sizes.rope = bytes_of(slots * config.rotary_dim / 2, 4);
  sizes.states = bytes_of(kMtpRing * config.hidden_size, 4);
  sizes.x = bytes_of(kMostRoundTokens * config.hidden_size, 4);
  sizes.chunks = bytes_of(kMostRoundTokens * kMostLogitChunks, 4);
  sizes.stretch_ends = bytes_of(kMostRoundTokens * kMostLogitStretches, 8);
  const std::int64_t bound = attention_bound(slots - 1, slots);
  for (std::int64_t at = attention_bound(0, slots);; at = attention_bound(at, slots)) {
    sizes.workspace = std::max(sizes.workspace, attention_workspace_bytes(shape, at, kMostRoundTokens));
    if (at >= bound) break;
  }
  const MtpPlan plan(config, options);
  std::vector<WeightMatrix> shapes = {
      {.format = options.format_of(TensorClass::kHead, 0), .rows = head_rows, .columns = config.hidden_size}};
  for (const StackedMatrix& matrix : plan.all())
    shapes.push_back({.format = matrix.codec.format, .rows = matrix.rows(), .columns = matrix.columns});
  std::int64_t result_floats = 0;
  for (const WeightMatrix& matrix : shapes) {
    if (exact) result_floats = std::max(result_floats, kMostRoundTokens * matrix.rows);
    for (const std::int64_t blocks : {options.cuda.blocks_per_sm, options.cuda.out_blocks_per_sm}) {
      if (exact) break;
      const ProductSettings settings = drafter_product_settings(options, device, blocks);
      result_floats = std::max(result_floats, product_plane_floats(matrix, settings, kMostRoundTokens));
    }
  }
  if (exact) {
    sizes.row_operand = bytes_of(kMostRoundTokens * *std::max_element(columns.begin(), columns.end()), 4);
  } else {
    const std::int64_t slice = std::min(kDrafterPrefillSlice, options.prefill.chunk);
    sizes.prefill_hidden = bytes_of(options.prefill.chunk * config.hidden_size, 4);
    sizes.x = bytes_of(std::max<std::int64_t>(slice, kMostRoundTokens) * config.hidden_size, 4);
    sizes.row_operand = bytes_of(slice * columns[0], 2);
    sizes.workspace = std::max(sizes.workspace, bytes_of(slice * config.query_channels(), 4));
    result_floats = std::max(result_floats, slice * plan.qkv().rows());
    for (std::size_t kind = 0; kind < kMtpOperandKinds; ++kind)
      for (std::size_t i = 0; i < kDrafterWidths.size(); ++i)
        sizes.panels[kind][i] =
            static_cast<std::size_t>(operand_bytes(OperandLayout::kFP16Panels, columns[kind], kDrafterWidths[i]));
  }
  result_floats = std::max(result_floats,
                           GateUpProduct::plane_floats(config.intermediate_size, config.hidden_size, options, device));
  sizes.gate_up = GateUpProduct::work_bytes(config.intermediate_size, config.hidden_size, options, device);
  sizes.results = bytes_of(result_floats, 4);
  return sizes;
}

}  // namespace tare::engine
