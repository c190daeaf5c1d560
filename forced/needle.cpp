#include "forced/needle.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/philox.h"
#include "stats/proportions.h"

namespace tare::forced {
namespace {

constexpr std::uint64_t kNeedleSeed = 0x6E65'6564'6C65;  // "needle"

using Tokens = std::vector<std::int32_t>;

class Draw {
 public:
  Draw(std::span<const std::int32_t> tokens, std::uint64_t stream) : tokens_(tokens), random_(kNeedleSeed, stream) {}
  Tokens tokens(std::int64_t count) {
    Tokens drawn(static_cast<std::size_t>(count));
    for (std::int32_t& token : drawn) token = tokens_[static_cast<std::size_t>(random_.below(tokens_.size()))];
    return drawn;
  }
  // Unlike all of `others`.
  Tokens other(std::int64_t count, const std::vector<Tokens>& others) {
    constexpr int kMostDraws = 1000;  // windows of very few different tokens have no others
    for (int draw = 0; draw < kMostDraws; ++draw) {
      Tokens drawn = tokens(count);
      if (std::find(others.begin(), others.end(), drawn) == others.end()) return drawn;
    }
    throw input_error("--needle", "the windows have too few different tokens to draw other values from");
  }

 private:
  std::span<const std::int32_t> tokens_;
  Philox random_;
};

}  // namespace

std::vector<Needle> make_needles(const engine::Reference& reference, bool absent) {
  if (reference.window_tokens < 4 * kShortestNeedle)
    throw input_error("--needle", fmt::format("needs windows of {} tokens, the reference's have {}",
                                              4 * kShortestNeedle, reference.window_tokens));
  Tokens vocabulary = reference.tokens;
  std::sort(vocabulary.begin(), vocabulary.end());
  vocabulary.erase(std::unique(vocabulary.begin(), vocabulary.end()), vocabulary.end());
  std::vector<Needle> needles;
  for (std::int64_t window = 0; window < reference.window_count(); ++window) {
    Draw draw(vocabulary, static_cast<std::uint64_t>(window));
    const auto hay = std::span(reference.tokens)
                         .subspan(static_cast<std::size_t>(window * reference.window_tokens),
                                  static_cast<std::size_t>(reference.window_tokens));
    for (const std::int64_t length : {reference.window_tokens / 4, reference.window_tokens})
      for (const double depth : kNeedleDepths) {
        Needle needle;
        needle.length = length;
        needle.depth = depth;
        const Tokens key = draw.tokens(kNeedleKey);
        for (std::int64_t i = 0; i < kNeedleChoices; ++i)
          needle.values.push_back(draw.other(kNeedleValue, needle.values));
        const Tokens other_key = draw.other(kNeedleKey, {key});
        const Tokens other_value = draw.other(kNeedleValue, needle.values);
        const std::int64_t hay_tokens = length - 2 * (kNeedleKey + kNeedleValue);
        needle.fact = static_cast<std::int64_t>(depth * static_cast<double>(hay_tokens));
        const auto fact = static_cast<std::ptrdiff_t>(needle.fact);
        const auto append = [&](const auto& begin, const auto& end) {
          needle.prompt.insert(needle.prompt.end(), begin, end);
        };
        append(hay.begin(), hay.begin() + fact);
        const Tokens& told_key = absent ? other_key : key;
        const Tokens& told_value = absent ? other_value : needle.values.front();
        append(told_key.begin(), told_key.end());
        append(told_value.begin(), told_value.end());
        append(hay.begin() + fact, hay.begin() + static_cast<std::ptrdiff_t>(hay_tokens));
        append(key.begin(), key.end() - 1);
        needle.anchor = key.back();
        needles.push_back(std::move(needle));
      }
  }
  return needles;
}

double value_log_probability(std::span<const float> logits, std::span<const std::int32_t> value) {
  const std::size_t vocab = logits.size() / value.size();
  double sum = 0;
  for (std::size_t row = 0; row < value.size(); ++row) {
    const std::span<const float> said = logits.subspan(row * vocab, vocab);
    const double largest = *std::max_element(said.begin(), said.end());
    double total = 0;
    for (const float logit : said) total += std::exp(static_cast<double>(logit) - largest);
    sum += static_cast<double>(said[static_cast<std::size_t>(value[row])]) - largest - std::log(total);
  }
  return sum;
}

NeedleScore score_needle(std::span<const double> log_probabilities) {
  const double best = *std::max_element(log_probabilities.begin() + 1, log_probabilities.end());
  const double margin = log_probabilities.front() - best;
  return {margin > 0, margin / static_cast<double>(kNeedleValue)};
}

NeedleSummary summarise_needles(std::span<const NeedleScore> scores, double level) {
  if (scores.empty()) throw input_error("needles", "there are none");
  NeedleSummary summary;
  summary.needles = static_cast<std::int64_t>(scores.size());
  for (const NeedleScore& score : scores) {
    summary.found += score.found ? 1 : 0;
    summary.mean_margin += score.margin / static_cast<double>(scores.size());
  }
  summary.interval = stats::wilson_interval(static_cast<std::uint64_t>(summary.found),
                                            static_cast<std::uint64_t>(scores.size()), level);
  return summary;
}

Json to_json(const NeedleSummary& summary) {
  return {{"needles", summary.needles},
          {"found", summary.found},
          {"interval", {summary.interval.low, summary.interval.high}},
          {"mean_margin", summary.mean_margin}};
}

}  // namespace tare::forced
