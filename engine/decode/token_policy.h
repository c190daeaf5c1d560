// Which token is committed at a position. Forcing enters the engine here and only here: a forced policy still asks the
// policy beneath for its natural choice at every position, so a forced round costs what a free one costs.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tare::engine {

// What a policy chooses from.
struct TokenScores {
  std::int32_t best = 0;          // the largest logit's token, ties to the lowest id
  std::span<const float> logits;  // empty unless needs_logits()
};

struct TokenChoice {
  std::int32_t committed = 0;  // enters the caches
  std::int32_t natural = 0;    // what the policy would have chosen from these scores
};

class TokenPolicy {
 public:
  virtual ~TokenPolicy() = default;
  // `index` counts the tokens produced for this prompt (0 is the first after the prompt), `position` is the token's
  // place in the sequence (prompt length + index).
  [[nodiscard]] virtual TokenChoice choose(const TokenScores& scores, std::int64_t index, std::int64_t position) = 0;
  // False when the best token is all it looks at: then a backend need not hand out the logits.
  [[nodiscard]] virtual bool needs_logits() const = 0;
  // True when nothing may follow after `produced` tokens whatever the text says (a forced text has ended).
  [[nodiscard]] virtual bool exhausted(std::int64_t produced) const = 0;
  // The token that will be committed at `index` whatever the scores; nothing when it depends on them.
  [[nodiscard]] virtual std::optional<std::int32_t> known(std::int64_t index) const {
    (void)index;
    return std::nullopt;
  }
  // True when an end-of-text token ends the generation (a forced text goes on to its own end).
  [[nodiscard]] virtual bool stops_at_end_of_text() const = 0;
};

// The largest logit; ties to the lowest id.
[[nodiscard]] std::unique_ptr<TokenPolicy> make_greedy_policy();

// softmax(logits / temperature), drawn with the random number of (seed, prompt_id, position): the same prompt draws the
// same numbers whatever ran before it. Throws Error (input) unless temperature > 0.
[[nodiscard]] std::unique_ptr<TokenPolicy> make_sampled_policy(double temperature, std::uint64_t seed,
                                                               const std::string& prompt_id);

// Commits `text`, token by token, and ends with it. `natural` gives the natural choices.
[[nodiscard]] std::unique_ptr<TokenPolicy> make_forced_policy(std::vector<std::int32_t> text,
                                                              std::unique_ptr<TokenPolicy> natural);

}  // namespace tare::engine
