#include "profiles/decode_rounds.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "base/error.h"

namespace tare::profiles {

using Clock = std::chrono::steady_clock;

void check_width(std::int64_t width) {
  if (width < 1 || width > kMostWidth)
    throw input_error("--width", fmt::format("must lie in 1 to {}, is {}", kMostWidth, width));
}

DecodeRounds::DecodeRounds(engine::Backend& backend, std::int64_t context, std::int64_t width, std::uint64_t seed)
    : backend_(&backend), context_(context), seed_(seed), tokens_(seed), round_(static_cast<std::size_t>(width)) {
  restart();
}

double DecodeRounds::restart() {
  tokens_ = Philox(seed_);
  std::vector<std::int32_t> prompt(static_cast<std::size_t>(context_));
  draw(prompt);
  backend_->reset();
  const Clock::time_point start = Clock::now();
  (void)backend_->prefill(prompt);
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double DecodeRounds::run_one() {
  const std::int64_t drafted = draft_tokens();
  const std::int64_t needed = std::max(static_cast<std::int64_t>(round_.size()), drafted + 1);
  if (backend_->frontier() + needed > backend_->capacity()) restart();
  draw(round_);
  const engine::EngineOptions::Speculate& speculate = backend_->options().speculate;
  const Clock::time_point start = Clock::now();
  if (drafted > 0) {
    (void)backend_->draft({.anchor = round_.front(),
                           .tokens = drafted,
                           .candidates = std::min(speculate.candidates, backend_->config().vocab_size),
                           .temperature = speculate.temperature});
  }
  (void)backend_->verify(round_, {.logits = false, .hidden = false});
  backend_->commit(static_cast<int>(round_.size()));
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::int64_t DecodeRounds::draft_tokens() const {
  return backend_->has_drafter() ? std::max<std::int64_t>(1, backend_->options().speculate.draft_tokens) : 0;
}

void DecodeRounds::draw(std::vector<std::int32_t>& tokens) {
  const auto vocabulary = static_cast<std::uint64_t>(backend_->config().vocab_size);
  for (std::int32_t& token : tokens) token = static_cast<std::int32_t>(tokens_.below(vocabulary));
}

}  // namespace tare::profiles
