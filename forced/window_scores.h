// The scores of whole windows against a reference, from logits as they are computed: a piece of rows is scored and
// forgotten, so that no file and no window of logits is kept.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/thread_pool.h"
#include "engine/streamed/reference_file.h"
#include "forced/position_score.h"

namespace tare::forced {

// [W][T - 1]: position t of window w predicts the token t + 1; the last position of a window has none and is not
// scored.
using WindowScores = std::vector<std::vector<PositionScore>>;

[[nodiscard]] WindowScores make_window_scores(const engine::Reference& reference);
[[nodiscard]] ReferenceRow reference_row(const engine::Reference& reference, std::int64_t window,
                                         std::int64_t position);

inline constexpr int kNoRounding = 23;  // mantissa bits of a float: all of them

// Scores positions first .. first + rows - 1 of a window from `logits` [rows, vocab_size] on the pool's threads; the
// last position, if it is among them, is left out. `bits` < 23: every logit is first rounded to so many mantissa bits,
// as option perturb.place=logits rounds it. Throws as score_position does, with window and position as the place.
void score_rows(ThreadPool& pool, std::span<const float> logits, const engine::Reference& reference,
                std::int64_t window, std::int64_t first, std::vector<PositionScore>& scores, int bits = kNoRounding);

}  // namespace tare::forced
