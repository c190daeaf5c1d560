#include "engine/backend/sequence_checks.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace tare::engine {
namespace {

constexpr std::int64_t kDefaultContext = 8192;

void check_token(std::int32_t token, const ModelConfig& config, std::int64_t position) {
  if (token < 0 || token >= config.vocab_size)
    throw input_error(fmt::format("position {}", position),
                      fmt::format("token {} is outside the vocabulary of {}", token, config.vocab_size));
}

void check_room(std::int64_t tokens, std::int64_t frontier, std::int64_t capacity) {
  if (frontier + tokens > capacity)
    throw input_error(
        "context", fmt::format("{} tokens after {} do not fit the {} that the caches hold", tokens, frontier, capacity),
        "set a larger context");
}

}  // namespace

std::int64_t cache_capacity(const ModelConfig& config, const EngineOptions& options) {
  if (options.context > config.max_positions)
    throw input_error("context",
                      fmt::format("{} is more than the model's {} positions", options.context, config.max_positions));
  return options.context > 0 ? options.context : std::min(config.max_positions, kDefaultContext);
}

void check_tokens(std::span<const std::int32_t> tokens, const ModelConfig& config, std::int64_t frontier,
                  std::int64_t capacity) {
  if (tokens.empty()) throw input_error("tokens", "there are none");
  for (std::size_t i = 0; i < tokens.size(); ++i)
    check_token(tokens[i], config, frontier + static_cast<std::int64_t>(i));
  check_room(static_cast<std::int64_t>(tokens.size()), frontier, capacity);
}

void check_tree(const TokenTree& tree, const ModelConfig& config, std::int64_t frontier, std::int64_t capacity) {
  for (std::size_t node = 0; node < tree.tokens().size(); ++node)
    check_token(tree.tokens()[node], config, frontier + tree.depths()[node]);
  check_room(tree.deepest() + 1, frontier, capacity);
}

void check_rows(std::int64_t first, std::int64_t last, std::int64_t end) {
  if (first < 0 || first >= last || last > end)
    throw internal_error(fmt::format("rows {} to {} of a sequence that ends at {}", first, last, end));
}

void check_capture(const PrefillCapture& capture, std::size_t tokens, const ModelConfig& config) {
  const auto fits = [&](std::span<const float> span, std::int64_t width) {
    return span.empty() || span.size() == tokens * static_cast<std::size_t>(width);
  };
  bool good = fits(capture.logits, config.vocab_size) &&
              (capture.hidden.empty() || static_cast<std::int64_t>(capture.hidden.size()) == config.layer_count() + 1);
  for (const std::span<float>& rows : capture.hidden) good = good && fits(rows, config.hidden_size);
  if (!good) throw internal_error("prefill: a capture buffer has the wrong size");
}

void check_heads(const EngineOptions& options) {
  if (options.head.screen != HeadScreen::kNone && options.perturb.place == PerturbPlace::kLogits)
    throw input_error("perturb.place", "logits needs all logits, and head.screen keeps none but its candidates'",
                      "set head.screen to none");
  const EngineOptions::ProposalHead& proposals = options.proposal_head;
  if (options.speculate.drafter == "none" && (proposals.shortlist > 0 || proposals.screen != HeadScreen::kNone))
    throw input_error(proposals.shortlist > 0 ? "proposal_head.shortlist" : "proposal_head.screen",
                      "is the head of a drafter, and speculate.drafter is none");
}

Error screened_logits() {
  return input_error("head.screen", "a screened head has no logits of all tokens, and a verify was asked for them",
                     "set head.screen to none");
}

Error not_finite(std::int64_t position) {
  return {ErrorKind::kInvalid, "logits are not finite", fmt::format("position {}", position),
          "the weights or their format overflow; nothing computed from here on means anything"};
}

}  // namespace tare::engine
