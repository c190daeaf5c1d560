// From the logits of one position to what a reference keeps of it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/streamed/streamed_backend.h"

namespace tare::engine {

// max + ln(sum of exp(logit - max)), summed in double.
[[nodiscard]] double log_sum_exp(std::span<const float> logits);

// Writes position `position` of `scores`: the K = scores.top_ids.size() / tokens most likely tokens, equal ones by
// rising id; log-probabilities are logit - log_sum_exp in double, rounded once. `next` is the token that follows, or
// -1. Logits that are not finite set first_not_finite (the first position stays) and leave zeros. `order` is work
// space.
void score_position(std::span<const float> logits, std::int64_t position, std::int32_t next, WindowScores& scores,
                    std::vector<std::int32_t>& order);

}  // namespace tare::engine
