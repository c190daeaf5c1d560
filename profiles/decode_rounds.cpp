#include "profiles/decode_rounds.h"

#include <fmt/format.h>

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
  if (backend_->frontier() + static_cast<std::int64_t>(round_.size()) > backend_->capacity()) restart();
  draw(round_);
  const Clock::time_point start = Clock::now();
  (void)backend_->verify(round_, {.logits = false, .hidden = false});
  backend_->commit(static_cast<int>(round_.size()));
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void DecodeRounds::draw(std::vector<std::int32_t>& tokens) {
  const auto vocabulary = static_cast<std::uint64_t>(backend_->config().vocab_size);
  for (std::int32_t& token : tokens) token = static_cast<std::int32_t>(tokens_.below(vocabulary));
}

}  // namespace tare::profiles
