// Does a fact come back from far away? A text (the hay) with a *fact* in it, a key and a value of random tokens, ends
// with the key again; the value that followed it has to be more probable than fifteen others of the same kind. No text
// explains it but the fact: with another fact in its place one in sixteen is right.
//
// Tokens are drawn from those that the windows have, each as often as any other: a value of frequent ones would be
// probable without a fact. So any model can be asked, with or without a tokenizer. It asks for copying, which small
// models do, and not for understanding.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/json_reader.h"
#include "engine/streamed/reference_file.h"
#include "stats/effect.h"

namespace tare::forced {

inline constexpr std::int64_t kNeedleKey = 6;  // tokens: enough that hay never holds one by chance
inline constexpr std::int64_t kNeedleValue = 3;
inline constexpr std::int64_t kNeedleChoices = 16;
inline constexpr double kNeedleDepths[] = {0.1, 0.5, 0.9};  // of the hay that stands before the fact
inline constexpr std::int64_t kShortestNeedle = 64;

struct Needle {
  std::int64_t length = 0;  // of prompt, key and value
  double depth = 0;
  std::int64_t fact = 0;                          // position of the fact in the prompt: key, then value
  std::vector<std::int32_t> prompt;               // hay with the fact, then the key but for its last token
  std::int32_t anchor = 0;                        // the key's last token
  std::vector<std::vector<std::int32_t>> values;  // the fact's first
};

// One for every window, depth and length (a quarter of a window and a whole one), from a counter-based stream of the
// window alone. `absent`: the fact that is in the hay is another one, the question the same. Throws Error (input) for
// windows of fewer than 4 * kShortestNeedle tokens.
[[nodiscard]] std::vector<Needle> make_needles(const engine::Reference& reference, bool absent = false);

struct NeedleScore {
  bool found = false;  // the fact's value is more probable than every other
  double margin = 0;   // ln p a token of the fact's value less the best other's
};
// `log_probabilities` of the values, of all their tokens, as `values` of the needle.
[[nodiscard]] NeedleScore score_needle(std::span<const double> log_probabilities);
// Sum over a value's tokens of ln softmax(logits)[token]; row k [vocab] is what is said before token k.
[[nodiscard]] double value_log_probability(std::span<const float> logits, std::span<const std::int32_t> value);

struct NeedleSummary {
  std::int64_t needles = 0;
  std::int64_t found = 0;
  stats::Interval interval;  // Wilson, of the share found; needles of one window are not independent
  double mean_margin = 0;
};
// Throws Error (input) for none.
[[nodiscard]] NeedleSummary summarise_needles(std::span<const NeedleScore> scores, double level = 0.95);
[[nodiscard]] Json to_json(const NeedleSummary& summary);

}  // namespace tare::forced
