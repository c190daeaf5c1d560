#include "engine/decode/token_policy.h"

#include <utility>

#include "base/digest.h"
#include "base/error.h"
#include "base/philox.h"
#include "base/text.h"
#include "engine/decode/sampling.h"

namespace tare::engine {
namespace {

class GreedyPolicy final : public TokenPolicy {
 public:
  TokenChoice choose(const TokenScores& scores, std::int64_t, std::int64_t) override {
    return {scores.best, scores.best};
  }
  bool needs_logits() const override { return false; }
  bool exhausted(std::int64_t) const override { return false; }
  bool stops_at_end_of_text() const override { return true; }
};

class SampledPolicy final : public TokenPolicy {
 public:
  SampledPolicy(double temperature, std::uint64_t seed, const std::string& prompt_id)
      : temperature_(temperature), numbers_(seed, hash64(prompt_id)) {}

  TokenChoice choose(const TokenScores& scores, std::int64_t, std::int64_t position) override {
    const double uniform = numbers_.uniform_at(static_cast<std::uint64_t>(position));
    const std::int32_t token = draw(scores.logits, temperature_, uniform, scratch_);
    return {token, token};
  }
  bool needs_logits() const override { return true; }
  bool exhausted(std::int64_t) const override { return false; }
  bool stops_at_end_of_text() const override { return true; }

 private:
  double temperature_;
  Philox numbers_;
  std::vector<float> scratch_;
};

class ForcedPolicy final : public TokenPolicy {
 public:
  ForcedPolicy(std::vector<std::int32_t> text, std::unique_ptr<TokenPolicy> natural)
      : text_(std::move(text)), natural_(std::move(natural)) {}

  TokenChoice choose(const TokenScores& scores, std::int64_t index, std::int64_t position) override {
    const TokenChoice free = natural_->choose(scores, index, position);
    return {text_.at(static_cast<std::size_t>(index)), free.natural};
  }
  bool needs_logits() const override { return natural_->needs_logits(); }
  bool exhausted(std::int64_t produced) const override { return produced >= static_cast<std::int64_t>(text_.size()); }
  bool stops_at_end_of_text() const override { return false; }
  std::optional<std::int32_t> known(std::int64_t index) const override {
    if (index >= static_cast<std::int64_t>(text_.size())) return std::nullopt;
    return text_[static_cast<std::size_t>(index)];
  }

 private:
  std::vector<std::int32_t> text_;
  std::unique_ptr<TokenPolicy> natural_;
};

}  // namespace

std::unique_ptr<TokenPolicy> make_greedy_policy() {
  return std::make_unique<GreedyPolicy>();
}

std::unique_ptr<TokenPolicy> make_sampled_policy(double temperature, std::uint64_t seed, const std::string& prompt_id) {
  if (!(temperature > 0))
    throw input_error("policy.temperature", "must be above 0, is " + shortest(temperature),
                      "use the greedy policy for 0");
  return std::make_unique<SampledPolicy>(temperature, seed, prompt_id);
}

std::unique_ptr<TokenPolicy> make_forced_policy(std::vector<std::int32_t> text, std::unique_ptr<TokenPolicy> natural) {
  if (text.empty()) throw input_error("forced text", "is empty");
  return std::make_unique<ForcedPolicy>(std::move(text), std::move(natural));
}

}  // namespace tare::engine
