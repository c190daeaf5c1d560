#include "engine/decode/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "base/error.h"
#include "engine/backend/argmax.h"
#include "engine/decode/sampling.h"

namespace tare::engine {
namespace {

using Clock = std::chrono::steady_clock;

std::int64_t nanoseconds(Clock::duration duration) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(duration).count();
}

// Spins the host's handicap and returns what was really spun.
std::int64_t spin(const EngineOptions::Handicap& handicap, Clock::time_point round_start) {
  if (handicap.place != HandicapPlace::kHost) return 0;
  const Clock::time_point start = Clock::now();
  const double share_ns = handicap.share * static_cast<double>(nanoseconds(start - round_start));
  const auto target = std::chrono::nanoseconds(handicap.ns + static_cast<std::int64_t>(share_ns));
  Clock::time_point now = start;
  while (now - start < target) now = Clock::now();
  return nanoseconds(now - start);
}

class Perturbation {
 public:
  explicit Perturbation(const EngineOptions::Perturb& perturb) : perturb_(perturb) {}

  // It rounds logits, so it needs them whatever the policy looks at.
  [[nodiscard]] bool needs_logits() const { return perturb_.place == PerturbPlace::kLogits; }
  [[nodiscard]] TokenScores apply(const TokenScores& scores) {
    if (perturb_.place == PerturbPlace::kNone) return scores;
    rounded_.resize(scores.logits.size());
    for (std::size_t i = 0; i < rounded_.size(); ++i)
      rounded_[i] = round_mantissa(scores.logits[i], static_cast<int>(perturb_.bits));
    return {argmax(rounded_), rounded_};
  }

 private:
  EngineOptions::Perturb perturb_;
  std::vector<float> rounded_;
};

void check(const Backend& backend, std::span<const std::int32_t> prompt, const TokenPolicy& policy,
           const GenerationLimits& limits) {
  if (prompt.empty()) throw input_error("prompt", "has no tokens");
  if (policy.stops_at_end_of_text() && limits.max_tokens < 1)
    throw input_error("max_tokens", fmt::format("must be at least 1, is {}", limits.max_tokens));
  if (static_cast<std::int64_t>(prompt.size()) > backend.capacity())
    throw input_error("prompt", fmt::format("has {} tokens, the caches hold {}", prompt.size(), backend.capacity()),
                      "raise the option 'context' or shorten the prompt");
}

}  // namespace

std::string to_text(Outcome outcome) {
  switch (outcome) {
    case Outcome::kEndOfText:
      return "end_of_text";
    case Outcome::kImmediateEnd:
      return "immediate_end";
    case Outcome::kLength:
      return "length";
    case Outcome::kForcedText:
      return "forced_text";
    case Outcome::kContextFull:
      return "context_full";
    case Outcome::kStopped:
      return "stopped";
  }
  throw internal_error("an outcome has no name");
}

Generation generate(Backend& backend, std::span<const std::int32_t> prompt, TokenPolicy& policy,
                    const GenerationLimits& limits, const TokenCallback& on_token) {
  check(backend, prompt, policy, limits);
  const EngineOptions& options = backend.options();
  Perturbation perturbation(options.perturb);
  const auto prompt_tokens = static_cast<std::int64_t>(prompt.size());
  const auto ends_text = [&](std::int32_t token) {
    return std::find(limits.end_of_text_tokens.begin(), limits.end_of_text_tokens.end(), token) !=
           limits.end_of_text_tokens.end();
  };

  backend.reset();
  Generation result;
  const auto record = [&](const TokenChoice& choice) {
    result.tokens.push_back(choice.committed);
    result.natural.push_back(choice.natural);
  };
  // True, with the outcome set, when nothing more is to be produced.
  const auto ended = [&] {
    const auto produced = static_cast<std::int64_t>(result.tokens.size());
    if (policy.exhausted(produced)) {
      result.outcome = Outcome::kForcedText;
    } else if (policy.stops_at_end_of_text() && ends_text(result.tokens.back())) {
      result.outcome = produced == 1 ? Outcome::kImmediateEnd : Outcome::kEndOfText;
    } else if (policy.stops_at_end_of_text() && produced >= limits.max_tokens) {
      result.outcome = Outcome::kLength;
    } else if (backend.frontier() >= backend.capacity()) {
      result.outcome = Outcome::kContextFull;
    } else if (on_token && !on_token(result.tokens.back())) {
      result.outcome = Outcome::kStopped;
      return true;
    } else {
      return false;
    }
    if (on_token) on_token(result.tokens.back());
    return true;
  };

  const Clock::time_point start = Clock::now();
  const std::span<const float> logits = backend.prefill(prompt);
  result.prefill_ns = nanoseconds(Clock::now() - start);
  record(policy.choose(perturbation.apply({argmax(logits), logits}), 0, prompt_tokens));
  result.first_token_ns = nanoseconds(Clock::now() - start);
  const VerifyRequest request{.logits = policy.needs_logits() || perturbation.needs_logits(), .hidden = false};
  while (!ended()) {
    const auto index = static_cast<std::int64_t>(result.tokens.size());
    const std::int32_t anchor = result.tokens.back();
    const Clock::time_point round_start = Clock::now();
    const VerifyOutput output = backend.verify(std::span(&anchor, 1), request);
    const TokenScores scores = perturbation.apply({output.best.front(), output.logits});
    const TokenChoice choice = policy.choose(scores, index, prompt_tokens + index);
    backend.commit(1);
    const std::int64_t spun_ns = output.spun_ns + spin(options.handicap, round_start);
    const Clock::time_point round_end = Clock::now();
    record(choice);
    result.rounds.push_back({nanoseconds(round_end - round_start), spun_ns, 1});
    result.decode_ns += result.rounds.back().duration_ns;
  }
  result.total_ns = nanoseconds(Clock::now() - start);
  return result;
}

}  // namespace tare::engine
