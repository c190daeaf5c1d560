#include "forced/window_scores.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "engine/decode/sampling.h"

namespace tare::forced {
namespace {

constexpr std::size_t kRowGrain = 8;

}  // namespace

WindowScores make_window_scores(const engine::Reference& reference) {
  return WindowScores(reference.windows.size(),
                      std::vector<PositionScore>(static_cast<std::size_t>(reference.window_tokens - 1)));
}

ReferenceRow reference_row(const engine::Reference& reference, std::int64_t window, std::int64_t position) {
  return {reference.ids_at(window, position), reference.log_probabilities_at(window, position)};
}

void score_rows(ThreadPool& pool, std::span<const float> logits, const engine::Reference& reference,
                std::int64_t window, std::int64_t first, std::vector<PositionScore>& scores, int bits) {
  const auto vocab = static_cast<std::size_t>(reference.vocab_size);
  const std::size_t rows =
      std::min(logits.size() / vocab, static_cast<std::size_t>(reference.window_tokens - 1 - first));
  if (logits.size() % vocab != 0 || scores.size() != static_cast<std::size_t>(reference.window_tokens - 1))
    throw internal_error("rows of logits or scores are not the reference's");
  struct Scratch {
    std::vector<float> row;
    std::vector<float> rounded;
  };
  std::vector<Scratch> scratch(static_cast<std::size_t>(pool.size()));
  pool.parallel_for(rows, kRowGrain, [&](int thread, std::size_t begin, std::size_t end) {
    Scratch& own = scratch[static_cast<std::size_t>(thread)];
    for (std::size_t row = begin; row < end; ++row) {
      const auto position = first + static_cast<std::int64_t>(row);
      std::span<const float> values = logits.subspan(row * vocab, vocab);
      if (bits < kNoRounding) {
        own.rounded.resize(vocab);
        std::transform(values.begin(), values.end(), own.rounded.begin(),
                       [bits](float logit) { return engine::round_mantissa(logit, bits); });
        values = own.rounded;
      }
      const std::int32_t next =
          reference.tokens[static_cast<std::size_t>(window * reference.window_tokens + position + 1)];
      scores[static_cast<std::size_t>(position)] = score_position(
          values, reference_row(reference, window, position), next,
          fmt::format("window {}, position {}", reference.windows[static_cast<std::size_t>(window)].id, position),
          own.row);
    }
  });
}

}  // namespace tare::forced
