#include "engine/cuda/drafter/drafter_sizes.h"

#include <algorithm>
#include <vector>

#include "engine/backend/options.h"
#include "engine/cuda/attention/attention_layout.h"
#include "engine/cuda/product/gate_up_product.h"

namespace tare::engine {
namespace {

// Columns of the kinds of operand.
std::array<std::int64_t, kDrafterOperandKinds> operand_columns(const BlockDrafterConfig& config) {
  return {config.tap_count() * config.hidden_size, config.hidden_size, config.hidden_size, config.query_channels(),
          config.intermediate_size};
}

// Shapes of every product of a draft, the head's last.
std::vector<WeightMatrix> product_shapes(const BlockDrafterConfig& config, const EngineOptions& options,
                                         std::int64_t head_rows) {
  const auto shape = [&](std::int64_t rows, std::int64_t columns) {
    return WeightMatrix{.format = options.format_of(TensorClass::kDrafter, 0), .rows = rows, .columns = columns};
  };
  const std::int64_t hidden = config.hidden_size;
  const std::int64_t key_values = 2 * config.key_value_channels();
  return {shape(hidden, config.tap_count() * hidden),
          shape(config.layer_count() * key_values, hidden),
          shape(config.query_channels() + key_values, hidden),
          shape(hidden, config.query_channels()),
          shape(2 * config.intermediate_size, hidden),
          shape(hidden, config.intermediate_size),
          {.format = options.format_of(TensorClass::kHead, 0), .rows = head_rows, .columns = hidden}};
}

}  // namespace

DrafterShape drafter_shape(const BlockDrafterConfig& config) {
  return {.heads = static_cast<int>(config.heads),
          .kv_heads = static_cast<int>(config.key_value_heads),
          .head_dim = static_cast<int>(config.head_dim),
          .layers = static_cast<int>(config.layer_count()),
          .eps = config.eps};
}

CacheFormat drafter_cache_format(const EngineOptions& options) {
  return options.activations.format == ActivationFormat::kFP32 ? CacheFormat::kFP32 : CacheFormat::kBF16;
}

ProductSettings drafter_product_settings(const EngineOptions& options, const CudaDevice& device,
                                         std::int64_t blocks_per_sm) {
  return {.blocks = device.multiprocessors * static_cast<int>(blocks_per_sm),
          .trigger_pairs = static_cast<int>(options.cuda.trigger),
          .alone = blocks_per_sm == 1};
}

DrafterSizes drafter_sizes(const BlockDrafterConfig& config, const EngineOptions& options, std::int64_t capacity,
                           const CudaDevice& device, std::int64_t head_rows) {
  const bool exact = options.activations.format == ActivationFormat::kFP32;
  const auto bytes = [](std::int64_t count, std::int64_t size) { return static_cast<std::size_t>(count * size); };
  const DrafterShape shape = drafter_shape(config);
  const auto columns = operand_columns(config);
  DrafterSizes sizes;
  sizes.round_taps = bytes(kMostRoundTokens * columns[0], 4);
  sizes.cache = bytes(config.layer_count() * config.key_value_channels() * capacity,
                      element_bytes(drafter_cache_format(options)));
  sizes.rope = bytes(capacity * config.head_dim / 2, 4);
  sizes.x = bytes(kMostRoundTokens * config.hidden_size, 4);
  sizes.chunk_largest = bytes(kMostRoundTokens * kMostLogitChunks, 4);
  sizes.stretch_ends = bytes(kMostRoundTokens * kMostLogitStretches, 8);
  std::int64_t result_floats = 0;
  for (const WeightMatrix& matrix : product_shapes(config, options, head_rows)) {
    if (exact) result_floats = std::max(result_floats, kMostRoundTokens * matrix.rows);
    for (const std::int64_t blocks : {options.cuda.blocks_per_sm, options.cuda.out_blocks_per_sm}) {
      if (exact) break;
      const ProductSettings settings = drafter_product_settings(options, device, blocks);
      result_floats = std::max(result_floats, product_plane_floats(matrix, settings, kMostRoundTokens));
    }
  }
  if (exact) {
    sizes.row_operand = bytes(kMostRoundTokens * *std::max_element(columns.begin(), columns.end()), 4);
  } else {
    const std::int64_t slice = std::min(kDrafterPrefillSlice, options.prefill.chunk);
    sizes.prefill_taps = bytes(options.prefill.chunk * columns[0], 2);
    sizes.row_operand = bytes(slice * config.hidden_size, 2);
    const std::int64_t rows = std::max(config.hidden_size, 2 * config.layer_count() * config.key_value_channels());
    result_floats = std::max(result_floats, slice * rows);
    for (std::size_t kind = 0; kind < kDrafterOperandKinds; ++kind)
      for (std::size_t i = 0; i < kDrafterWidths.size(); ++i)
        sizes.panels[kind][i] =
            static_cast<std::size_t>(operand_bytes(OperandLayout::kFP16Panels, columns[kind], kDrafterWidths[i]));
  }
  result_floats = std::max(result_floats,
                           GateUpProduct::plane_floats(config.intermediate_size, config.hidden_size, options, device));
  sizes.gate_up = GateUpProduct::work_bytes(config.intermediate_size, config.hidden_size, options, device);
  sizes.results = bytes(result_floats, 4);
  const bool tensor_cores = draft_uses_tensor_cores(shape, drafter_cache_format(options));
  sizes.queries = bytes(kMostRoundTokens * config.query_channels(), 4);
  for (int block = 1; block <= kMostRoundTokens; ++block) {
    const std::int64_t rows = static_cast<std::int64_t>(most_draft_parts(shape, block, tensor_cores)) * block;
    sizes.sums = std::max(sizes.sums, bytes(rows * config.query_channels(), 4));
    sizes.ends = std::max(sizes.ends, bytes(rows * config.heads, 8));
  }
  return sizes;
}

}  // namespace tare::engine
