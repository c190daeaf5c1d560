#include "engine/cuda/cuda_options.h"

#include <fmt/format.h>

#include "base/error.h"
#include "engine/backend/sequence_checks.h"
#include "engine/cuda/attention/attention_layout.h"
#include "engine/cuda/drafter/block_drafter.h"
#include "engine/cuda/drafter/mtp_drafter.h"
#include "engine/cuda/gdn/gdn_layout.h"
#include "engine/cuda/head/screened_head.h"
#include "engine/cuda/model_shapes.h"

namespace tare::engine {
namespace {

constexpr std::int64_t kDefaultChunk = 4096;

// Rows are exported in tiles, states in the kernels' order, a drafter's context not at all.
void check_prefix_cache(const EngineOptions& options, const ModelConfig& config) {
  if (options.prefix_cache.bytes == 0) return;
  const auto refuse = [](bool found, const std::string& what, const std::string& hint) {
    if (found) throw input_error("prefix_cache.bytes", what, hint);
  };
  refuse(options.speculate.drafter != "none", "backend cuda keeps no drafter's context with a prefix",
         "set speculate.drafter to none, or use backend cpu");
  refuse(options.activations.format == ActivationFormat::kFP32,
         "prefills of activations.format fp32 are rounds, "
         "whose states cannot be kept",
         "use activations.format bf16");
  refuse(options.prefix_cache.page_tokens % kTilePositions != 0,
         fmt::format("pages on backend cuda are multiples of {} tokens, not {}", kTilePositions,
                     options.prefix_cache.page_tokens),
         "set prefix_cache.page_tokens");
  refuse(config.linear_key_head_dim != kGdnHead || config.linear_value_head_dim != kGdnHead,
         fmt::format("backend cuda keeps prefixes of models with linear heads of {}", kGdnHead), "use backend cpu");
}

}  // namespace

bool drafts_with_mtp(const EngineOptions& options) {
  return options.speculate.drafter == "mtp";
}

EngineOptions settle_cuda_options(EngineOptions options, const ModelConfig& config, const BlockDrafterConfig* drafter) {
  if (options.activations.format == ActivationFormat::kQ8) {
    throw input_error("activations.format", "q8 needs backend cpu", "cuda has fp32 and bf16");
  }
  if (options.activations.format == ActivationFormat::kAuto) options.activations.format = ActivationFormat::kBF16;
  if (options.handicap.place == HandicapPlace::kKernel && options.handicap.share > 0) {
    throw input_error("handicap.share", "is spun on the host only", "give handicap.ns for place kernel");
  }
  check_heads(options);
  check_prefix_cache(options, config);
  CudaScreenedHead::check(config, options);
  if (options.prefill.chunk == 0) options.prefill.chunk = kDefaultChunk;
  const bool snapshots = options.rollback == Rollback::kSnapshot;
  if (snapshots && options.gdn.form == GdnForm::kChunked) {
    throw input_error("rollback", "snapshot needs gdn.form recurrent on backend cuda",
                      "the chunk form has no state of a node; with it ring and tree_chunk are the same");
  }
  const int most_nodes = snapshots || options.speculate.candidates > 1 ? kMostTreeNodes : kMostRoundTokens;
  if (options.speculate.drafter != "none" && options.speculate.tree_nodes > most_nodes) {
    throw input_error("speculate.tree_nodes",
                      fmt::format("{} nodes; backend cuda verifies {}", options.speculate.tree_nodes, most_nodes),
                      "16 of a tree, or with rollback snapshot; 32 of a chain (speculate.candidates 1)");
  }
  if (drafter != nullptr) {
    CudaBlockDrafter::check(*drafter, options);
    if (options.speculate.draft_tokens == 0) options.speculate.draft_tokens = drafter->block_size - 1;
  }
  if (drafts_with_mtp(options)) {
    CudaMtpDrafter::check(config, options);
    if (options.speculate.draft_tokens == 0) options.speculate.draft_tokens = CudaMtpDrafter::kDefaultTokens;
  }
  return options;
}

void check_cuda_shape(const ModelConfig& config) {
  check_gdn_shape(gdn_shape_of(config));
  check_attention_shape(attention_shape_of(config));
  const auto even = [](std::int64_t size, const char* name) {
    if (size % 2 != 0) throw input_error(name, fmt::format("{} is odd; backend cuda needs an even size", size));
  };
  even(config.hidden_size, "hidden_size");
  even(config.intermediate_size, "intermediate_size");
}

}  // namespace tare::engine
