#include "harness/fidelity/decision_states.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include "base/error.h"
#include "engine/backends/make_backend.h"
#include "engine/decode/prefix_cache.h"

namespace tare::harness {
namespace {

using Rows = std::vector<std::vector<float>>;

constexpr std::int64_t kShortestWindow = 32;  // its shortest history is one token
constexpr std::int64_t kRestarted = 8;        // states that a second engine decides again

std::vector<float> kept(std::span<const float> logits) {
  return {logits.begin(), logits.end()};
}

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kCacheBytes = 1'000'000'000;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::vector<std::int32_t> whole(const DecisionState& state) {
  std::vector<std::int32_t> tokens = state.history;
  tokens.insert(tokens.end(), state.branch.begin(), state.branch.end());
  return tokens;
}

std::vector<float> decide_cold(engine::Backend& backend, const DecisionState& state) {
  backend.reset();
  return kept(backend.prefill(whole(state)));
}

engine::EngineOptions::PrefixCache cache_of(const engine::EngineOptions& options) {
  engine::EngineOptions::PrefixCache cache = options.prefix_cache;
  if (cache.bytes == 0) {
    cache.bytes = kCacheBytes;
    cache.page_tokens = kStatePageTokens;
  }
  return cache;
}

std::vector<float> decide_continued(engine::Backend& backend, const DecisionState& state) {
  backend.reset();
  (void)backend.prefill(state.history);
  std::vector<float> last;
  for (const std::int32_t& token : state.branch) {
    const engine::VerifyOutput output = backend.verify(std::span(&token, 1), {.logits = true, .hidden = false});
    last = kept(output.logits);
    backend.commit(1);
  }
  return last;
}

forced::DecisionAgreement agreement_of(const Rows& baseline, const Rows& arm) {
  std::vector<forced::DecisionScore> scores;
  for (std::size_t i = 0; i < arm.size(); ++i) scores.push_back(forced::compare_decisions(baseline[i], arm[i]));
  return forced::summarise_decisions(scores);
}

// Histories are prefilled once each before the clock runs, so that every state finds its own.
CachedDecisions decide_cached(const engine::Checkpoint& checkpoint, engine::Backend& backend,
                              const std::vector<DecisionState>& states, const Rows& cold, double cold_s) {
  const engine::EngineOptions::PrefixCache settings = cache_of(backend.options());
  engine::PrefixCache cache(settings);
  const std::string identity = engine::prefix_identity(checkpoint, backend);
  for (std::size_t i = 0; i < states.size(); i += kStateBranches)
    (void)cache.prefill(backend, identity, whole(states[i]));
  CachedDecisions decisions;
  decisions.cold_s = cold_s;
  Rows rows;
  const Clock::time_point start = Clock::now();
  for (const DecisionState& state : states) {
    const engine::PrefixCache::Prefilled prefilled = cache.prefill(backend, identity, whole(state));
    rows.push_back(kept(prefilled.logits));
    decisions.restored_tokens += prefilled.restored;
    decisions.tokens += static_cast<std::int64_t>(state.history.size() + state.branch.size());
  }
  decisions.cached_s = seconds_since(start);
  decisions.agreement = agreement_of(cold, rows);
  decisions.cache = engine::to_json(cache.statistics());
  decisions.cache["budget"] = settings.bytes;
  decisions.cache["page_tokens"] = settings.page_tokens;
  decisions.cache["checkpoint"] = engine::to_text(settings.checkpoint);
  return decisions;
}

}  // namespace

std::vector<DecisionState> decision_states(const engine::Reference& reference) {
  const std::int64_t length = reference.window_tokens;
  if (reference.window_count() < 2 * kStateHistories || length < kShortestWindow)
    throw input_error("--decisions",
                      fmt::format("needs {} windows of {} tokens, the reference has {} of {}", 2 * kStateHistories,
                                  kShortestWindow, reference.window_count(), length));
  const auto part = [&](std::int64_t window, std::int64_t first, std::int64_t count) {
    const auto begin = reference.tokens.begin() + static_cast<std::ptrdiff_t>(window * length + first);
    return std::vector<std::int32_t>(begin, begin + static_cast<std::ptrdiff_t>(count));
  };
  std::vector<DecisionState> states;
  for (std::int64_t history = 0; history < kStateHistories; ++history)
    for (const std::int64_t tokens : {length / 32, length / 8, length / 2, length - kBranchTokens})
      for (std::int64_t branch = 0; branch < kStateBranches; ++branch)
        states.push_back(
            {part(history, 0, tokens), part(kStateHistories + branch, branch * kBranchTokens / 2, kBranchTokens)});
  return states;
}

std::vector<ArmDecisions> compare_arms(const engine::Reference& reference, const FidelitySettings& settings,
                                       const FidelityProgress& progress) {
  const std::vector<DecisionState> states = decision_states(reference);
  const std::unique_ptr<engine::Checkpoint> checkpoint = engine::open_checkpoint(settings.model);
  const auto total = static_cast<std::int64_t>(settings.arms.size() * states.size());
  std::vector<ArmDecisions> decisions;
  Rows baseline_cold;
  Rows baseline_continued;
  std::int64_t done = 0;
  for (const FidelityArm& arm : settings.arms) {
    const std::unique_ptr<engine::Backend> backend = engine::make_backend(*checkpoint, arm.options);
    Rows cold;
    Rows continued;
    double cold_s = 0;
    for (const DecisionState& state : states) {
      progress(arm.name + ", decisions", done++, total);
      const Clock::time_point start = Clock::now();
      cold.push_back(decide_cold(*backend, state));
      cold_s += seconds_since(start);
      continued.push_back(decide_continued(*backend, state));
    }
    std::optional<CachedDecisions> cached;
    if (arm.options.backend == engine::BackendKind::kCpu || arm.options.prefix_cache.bytes > 0)
      cached = decide_cached(*checkpoint, *backend, states, cold, cold_s);
    const std::unique_ptr<engine::Backend> restarted = engine::make_backend(*checkpoint, arm.options);
    Rows again;
    for (std::int64_t i = 0; i < kRestarted; ++i)
      again.push_back(decide_cold(*restarted, states[static_cast<std::size_t>(i)]));
    if (decisions.empty()) {
      baseline_cold = cold;
      baseline_continued = continued;
    }
    decisions.push_back({arm.name, agreement_of(baseline_cold, cold), agreement_of(baseline_continued, continued),
                         agreement_of(cold, continued), std::move(cached), agreement_of(cold, again)});
  }
  progress("decisions", total, total);
  return decisions;
}

Json to_json(const ArmDecisions& decisions) {
  Json json = {{"arm", decisions.arm},
               {"cold", forced::to_json(decisions.cold)},
               {"continued", forced::to_json(decisions.continued)},
               {"ways", forced::to_json(decisions.ways)},
               {"restarted", forced::to_json(decisions.restarted)}};
  if (decisions.cached) {
    const CachedDecisions& cached = *decisions.cached;
    json["cached"] = forced::to_json(cached.agreement);
    json["prefix_cache"] = {{"tokens", cached.tokens},
                            {"restored_tokens", cached.restored_tokens},
                            {"cold_s", cached.cold_s},
                            {"cached_s", cached.cached_s},
                            {"cache", cached.cache}};
  }
  return json;
}

}  // namespace tare::harness
