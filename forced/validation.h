// Is the instrument sound? The baseline is forced onto its own free-running texts; at every position its natural choice
// must equal the text, and its round boundaries those of the free run: N of N, or no number is reported.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "forced/replay_text.h"

namespace tare::forced {

// What a forced run of one prompt returned.
struct ForcedRun {
  std::vector<std::int32_t> committed;
  std::vector<std::int32_t> natural;
  std::vector<std::int32_t> round_tokens;
};

enum class DifferenceKind { kCommitted, kNatural, kRounds, kLength };
[[nodiscard]] std::string to_text(DifferenceKind kind);

// The first place where a forced run and its text differ.
struct Difference {
  std::string prompt_id;
  DifferenceKind kind = DifferenceKind::kNatural;
  std::int64_t position = 0;  // index into the text (kRounds: index of the round)
  std::int32_t wanted = 0;
  std::int32_t got = 0;
};
// "prompt 12, position 40: natural choice 17, the text has 9".
[[nodiscard]] std::string to_text(const Difference& difference);

// Nothing when the run reproduces the text in tokens, natural choices and rounds.
[[nodiscard]] std::optional<Difference> compare(const ReplayText& text, const ForcedRun& run);

struct Validation {
  std::int64_t prompts = 0;
  std::int64_t reproduced = 0;
  std::optional<Difference> first_difference;
  [[nodiscard]] bool passed() const { return prompts > 0 && reproduced == prompts; }
};

// Adds one prompt's comparison to the count.
void add(Validation& validation, const ReplayText& text, const ForcedRun& run);

// Positive controls: texts that are wrong on purpose. Forcing the baseline onto one must be caught by `compare`.
// Each needs a text of at least two tokens; nothing when the change would leave the text as it is.
//
// The text moved by one: position i holds token i+1 of the true text (the classic off-by-one of forcing).
[[nodiscard]] std::optional<ReplayText> off_by_one_control(const ReplayText& text);
// One token in the middle replaced by another id below vocab_size.
[[nodiscard]] std::optional<ReplayText> flipped_token_control(const ReplayText& text, std::int32_t vocab_size);
// The tokens of another text of the suite: what this model would not have written here.
[[nodiscard]] std::optional<ReplayText> other_text_control(const ReplayText& text, std::span<const ReplayText> suite);

}  // namespace tare::forced
