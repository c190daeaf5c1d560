#include "forced/decision_agreement.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "base/error.h"
#include "forced/score_kernels.h"
#include "stats/proportions.h"

namespace tare::forced {
namespace {

// The `count` best tokens, most likely first, ties to the lowest id.
std::vector<std::int32_t> best_tokens(std::span<const float> logits, std::size_t count) {
  std::vector<std::int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  const auto better = [&](std::int32_t a, std::int32_t b) {
    const float x = logits[static_cast<std::size_t>(a)];
    const float y = logits[static_cast<std::size_t>(b)];
    return x != y ? x > y : a < b;
  };
  count = std::min(count, ids.size());
  std::partial_sort(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(count), ids.end(), better);
  ids.resize(count);
  return ids;
}

double log_sum_exp(std::span<const float> logits) {
  std::vector<float> copy(logits.size());
  const auto size = static_cast<std::int64_t>(logits.size());
  const RowMaximum largest = copy_row(logits.data(), size, copy.data());
  if (!largest.finite) throw Error(ErrorKind::kInvalid, "a logit is NaN or +inf", "decision");
  return largest.value + std::log(sum_of_exp(copy.data(), size, largest.value));
}

bool holds(const std::vector<std::int32_t>& ids, std::int32_t id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

}  // namespace

DecisionScore compare_decisions(std::span<const float> baseline, std::span<const float> arm) {
  if (baseline.size() != arm.size() || baseline.size() < 2)
    throw input_error("decision", "needs two rows of the same length, at least 2");
  const double total_p = log_sum_exp(baseline);
  const double total_q = log_sum_exp(arm);
  const std::vector<std::int32_t> best_p = best_tokens(baseline, kCommonTokens);
  const std::vector<std::int32_t> best_q = best_tokens(arm, kCommonTokens);
  const std::vector<std::int32_t> few_p(
      best_p.begin(), best_p.begin() + static_cast<std::ptrdiff_t>(std::min(kOverlapTokens, best_p.size())));
  const std::vector<std::int32_t> few_q(best_q.begin(), best_q.begin() + static_cast<std::ptrdiff_t>(few_p.size()));
  const auto p_at = [&](std::int32_t id) {
    return static_cast<double>(baseline[static_cast<std::size_t>(id)]) - total_p;
  };
  const auto q_at = [&](std::int32_t id) { return static_cast<double>(arm[static_cast<std::size_t>(id)]) - total_q; };
  DecisionScore score;
  score.matches = best_p[0] == best_q[0];
  const auto near_end = best_q.begin() + static_cast<std::ptrdiff_t>(std::min(kWinnersSought, best_q.size()));
  score.winner_is_near = std::find(best_q.begin(), near_end, best_p[0]) != near_end;
  const auto shared = std::count_if(few_p.begin(), few_p.end(), [&](std::int32_t id) { return holds(few_q, id); });
  score.overlap = static_cast<double>(shared) / static_cast<double>(few_p.size());
  double error = 0;
  std::int64_t common = 0;
  for (const std::int32_t id : best_p) {
    if (!holds(best_q, id)) continue;
    error += std::abs(p_at(id) - q_at(id));
    ++common;
  }
  score.log_probability_error = common > 0 ? error / static_cast<double>(common) : HUGE_VAL;
  score.margin = p_at(best_p[0]) - p_at(best_p[1]);
  score.identical = std::memcmp(baseline.data(), arm.data(), baseline.size_bytes()) == 0;
  return score;
}

DecisionAgreement summarise_decisions(std::span<const DecisionScore> scores, double level) {
  if (scores.empty()) throw input_error("decisions", "there are none");
  DecisionAgreement agreement;
  agreement.states = static_cast<std::int64_t>(scores.size());
  for (const DecisionScore& score : scores) {
    agreement.matches += score.matches ? 1 : 0;
    agreement.winners_near += score.winner_is_near ? 1 : 0;
    agreement.identical += score.identical ? 1 : 0;
    agreement.mean_overlap += score.overlap / static_cast<double>(scores.size());
    agreement.mean_log_probability_error += score.log_probability_error / static_cast<double>(scores.size());
    agreement.largest_log_probability_error =
        std::max(agreement.largest_log_probability_error, score.log_probability_error);
    if (score.margin < kHighMargin) continue;
    ++agreement.high_margin_states;
    agreement.high_margin_matches += score.matches ? 1 : 0;
  }
  agreement.match_interval = stats::wilson_interval(static_cast<std::uint64_t>(agreement.matches),
                                                    static_cast<std::uint64_t>(agreement.states), level);
  return agreement;
}

Json to_json(const DecisionAgreement& agreement) {
  return {{"states", agreement.states},
          {"matches", agreement.matches},
          {"match_interval", {agreement.match_interval.low, agreement.match_interval.high}},
          {"winners_near", agreement.winners_near},
          {"mean_overlap", agreement.mean_overlap},
          {"mean_log_probability_error", agreement.mean_log_probability_error},
          {"largest_log_probability_error", agreement.largest_log_probability_error},
          {"high_margin_states", agreement.high_margin_states},
          {"high_margin_matches", agreement.high_margin_matches},
          {"identical", agreement.identical}};
}

}  // namespace tare::forced
