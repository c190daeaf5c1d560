#include "forced/position_score.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "forced/score_kernels.h"

namespace tare::forced {
namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

[[noreturn]] void refuse_logits(std::span<const float> logits, const std::string& where) {
  for (std::size_t token = 0; token < logits.size(); ++token)
    if (std::isnan(logits[token]) || logits[token] == std::numeric_limits<float>::infinity())
      throw Error(ErrorKind::kInvalid,
                  fmt::format("the logit of token {} is {}", token, std::isnan(logits[token]) ? "NaN" : "+inf"), where);
  throw Error(ErrorKind::kInvalid, "every logit is -inf", where);
}

// p ln(p / q), with 0 ln 0 = 0 and +inf where only q is 0.
double divergence_term(double p, double log_p, double log_q) {
  return p == 0 ? 0 : p * (log_p - log_q);
}

double tail_of(std::span<const float> log_probabilities) {
  double tail = -std::expm1(static_cast<double>(log_probabilities.front()));
  for (const float log_p : log_probabilities.subspan(1)) tail -= std::exp(static_cast<double>(log_p));
  return std::max(tail, 0.0);
}

double log_sum_exp(std::span<const float> logits, std::vector<float>& scratch, const std::string& where) {
  scratch.resize(logits.size());
  const auto size = static_cast<std::int64_t>(logits.size());
  const RowMaximum largest = copy_row(logits.data(), size, scratch.data());
  if (!largest.finite || largest.value == kMinusInfinity) refuse_logits(logits, where);
  return largest.value + std::log(sum_of_exp(scratch.data(), size, largest.value));
}

}  // namespace

PositionScore score_position(std::span<const float> logits, const ReferenceRow& reference, std::int32_t next,
                             const std::string& where, std::vector<float>& scratch) {
  const std::size_t count = reference.ids.size();
  const auto outside = [&](std::int32_t id) { return id < 0 || static_cast<std::size_t>(id) >= logits.size(); };
  if (count == 0 || reference.log_probabilities.size() != count ||
      std::any_of(reference.ids.begin(), reference.ids.end(), outside) || outside(next))
    throw input_error(where, fmt::format("the reference's tokens are not those of {} logits", logits.size()));
  scratch.resize(logits.size());
  const auto size = static_cast<std::int64_t>(logits.size());
  const RowMaximum largest = copy_row(logits.data(), size, scratch.data());
  if (!largest.finite || largest.value == kMinusInfinity) refuse_logits(logits, where);
  for (const std::int32_t id : reference.ids) scratch[static_cast<std::size_t>(id)] = kMinusInfinity;
  const double shift = largest.value;
  const double rest = sum_of_exp(scratch.data(), size, shift);
  double head = 0;
  for (const std::int32_t id : reference.ids)
    head += std::exp(static_cast<double>(logits[static_cast<std::size_t>(id)]) - shift);
  const double log_total = std::log(head + rest) + shift;

  PositionScore score;
  for (std::size_t i = 0; i < count; ++i) {
    const auto log_p = static_cast<double>(reference.log_probabilities[i]);
    score.kl64 += divergence_term(std::exp(log_p), log_p,
                                  static_cast<double>(logits[static_cast<std::size_t>(reference.ids[i])]) - log_total);
  }
  score.kl64_tail = score.kl64;
  if (count < logits.size()) {
    const double tail = tail_of(reference.log_probabilities);
    score.kl64_tail += divergence_term(tail, std::log(tail), std::log(rest) + shift - log_total);
  }
  if (!(score.kl64_tail >= -kReferenceRounding))
    throw internal_error(fmt::format("{}: KL64 with the tail is {}", where, score.kl64_tail));
  score.nll = log_total - static_cast<double>(logits[static_cast<std::size_t>(next)]);
  score.best = static_cast<std::int32_t>(std::find(logits.begin(), logits.end(), largest.value) - logits.begin());
  score.agrees = score.best == reference.ids.front();
  return score;
}

double full_divergence(std::span<const float> reference_logits, std::span<const float> logits) {
  if (reference_logits.size() != logits.size() || logits.empty())
    throw input_error("logits", "both rows must have the same length, at least 1");
  std::vector<float> scratch;
  const double log_total_p = log_sum_exp(reference_logits, scratch, "reference logits");
  const double log_total_q = log_sum_exp(logits, scratch, "logits");
  double divergence = 0;
  for (std::size_t token = 0; token < logits.size(); ++token) {
    const double log_p = static_cast<double>(reference_logits[token]) - log_total_p;
    divergence += divergence_term(std::exp(log_p), log_p, static_cast<double>(logits[token]) - log_total_q);
  }
  return divergence;
}

double reference_margin(const ReferenceRow& reference) {
  if (reference.log_probabilities.size() < 2) return 0;
  return static_cast<double>(reference.log_probabilities[0]) - static_cast<double>(reference.log_probabilities[1]);
}

}  // namespace tare::forced
