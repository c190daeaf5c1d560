// What this backend makes of the options and refuses of them and of a model, before anything is loaded.
#pragma once

#include "engine/backend/options.h"
#include "engine/checkpoint/model_config.h"
#include "engine/speculate/block_drafter_config.h"

namespace tare::engine {

[[nodiscard]] bool drafts_with_mtp(const EngineOptions& options);

// The options with what they leave open settled; `drafter`: of the block drafter, or null. Throws Error (input) naming
// what backend cuda does not do.
[[nodiscard]] EngineOptions settle_cuda_options(EngineOptions options, const ModelConfig& config,
                                                const BlockDrafterConfig* drafter);

// Throws Error (input) naming the size when a kernel does not support it.
void check_cuda_shape(const ModelConfig& config);

}  // namespace tare::engine
