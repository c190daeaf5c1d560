// Everything a sequence leaves behind in the model: per layer a KV cache, or a recurrent state with its convolution
// columns and the projections of an uncommitted verify.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/cpu/convolution_columns.h"
#include "engine/cpu/gdn_cache.h"
#include "engine/cpu/kv_cache.h"
#include "engine/cpu/row_buffer.h"

namespace tare::engine {

struct GdnLayerState {
  ConvolutionColumns columns;
  GdnCache recurrence;
  RowBuffer verified;  // [T, conv channels] of the last verify, for commit
};

struct LayerState {
  std::optional<GdnLayerState> gdn;
  std::optional<KvCache> attention;
};

[[nodiscard]] inline std::vector<LayerState> make_layer_states(const ModelConfig& config, const EngineOptions& options,
                                                               std::int64_t capacity) {
  std::vector<LayerState> layers;
  for (const LayerKind kind : config.layers) {
    LayerState& layer = layers.emplace_back();
    if (kind == LayerKind::kLinearAttention) {
      layer.gdn.emplace(
          GdnLayerState{ConvolutionColumns(config.conv_channels(), config.conv_kernel, options.state.convolution),
                        GdnCache(config, options.gdn.form, options.rollback, options.state.recurrent),
                        RowBuffer(config.conv_channels())});
    } else {
      layer.attention.emplace(config, options.kv, capacity);
    }
  }
  return layers;
}

}  // namespace tare::engine
