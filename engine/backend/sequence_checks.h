// What every backend checks of its callers, and how many tokens its caches hold.
#pragma once

#include <cstdint>
#include <span>

#include "base/error.h"
#include "engine/backend/backend.h"

namespace tare::engine {

// Option context, or the model's maximum but at most 8,192. Throws Error (input) when the model has fewer positions.
[[nodiscard]] std::int64_t cache_capacity(const ModelConfig& config, const EngineOptions& options);

// Throws Error (input): no tokens, one outside the vocabulary (its position named), more than fit after `frontier`.
void check_tokens(std::span<const std::int32_t> tokens, const ModelConfig& config, std::int64_t frontier,
                  std::int64_t capacity);

// The same of a tree, whose deepest node must fit.
void check_tree(const TokenTree& tree, const ModelConfig& config, std::int64_t frontier, std::int64_t capacity);

// Throws Error (internal) unless 0 <= first < last <= end.
void check_rows(std::int64_t first, std::int64_t last, std::int64_t end);

// Throws Error (internal) when a buffer has not the size that `tokens` tokens need.
void check_capture(const PrefillCapture& capture, std::size_t tokens, const ModelConfig& config);

// Throws Error (input): heads that contradict other options (docs/method/heads.md).
void check_heads(const EngineOptions& options);
// A verify was asked for logits that a screened head has not.
[[nodiscard]] Error screened_logits();

// Logits of a position are not finite.
[[nodiscard]] Error not_finite(std::int64_t position);

}  // namespace tare::engine
