#include "forced/replay_text.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "base/digest.h"

namespace tare::forced {
namespace {

constexpr std::int64_t kLeastTokens = 16;  // below, "repetitive" has no meaning
constexpr double kLeastDistinctShare = 0.5;
constexpr double kMostDominantShare = 0.5;
constexpr double kMostPeriodicShare = 0.25;
constexpr std::size_t kLeastRepeats = 3;

// Length of the longest suffix in which every token equals the one `period` before it, the first period included.
std::size_t periodic_suffix(std::span<const std::int32_t> tokens, std::size_t period) {
  std::size_t matched = 0;
  while (matched + period < tokens.size() &&
         tokens[tokens.size() - 1 - matched] == tokens[tokens.size() - 1 - matched - period])
    ++matched;
  return matched + period;
}

}  // namespace

Repetition measure_repetition(std::span<const std::int32_t> tokens) {
  Repetition result;
  if (tokens.empty()) return result;
  std::map<std::int32_t, std::size_t> counts;
  for (const std::int32_t token : tokens) ++counts[token];
  const auto dominant =
      std::max_element(counts.begin(), counts.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  result.dominant_token_share = static_cast<double>(dominant->second) / static_cast<double>(tokens.size());
  result.distinct_tokens = static_cast<std::int64_t>(counts.size());
  std::int64_t run = 0;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    run = i > 0 && tokens[i] == tokens[i - 1] ? run + 1 : 1;
    result.longest_run = std::max(result.longest_run, run);
  }
  if (tokens.size() >= 4) {
    std::set<std::array<std::int32_t, 4>> distinct;
    const std::size_t grams = tokens.size() - 3;
    for (std::size_t i = 0; i < grams; ++i) distinct.insert({tokens[i], tokens[i + 1], tokens[i + 2], tokens[i + 3]});
    result.distinct_4gram_share = static_cast<double>(distinct.size()) / static_cast<double>(grams);
  }
  for (std::size_t period = 1; period * kLeastRepeats <= tokens.size(); ++period) {
    const std::size_t length = periodic_suffix(tokens, period);
    if (length >= kLeastRepeats * period && static_cast<std::int64_t>(length) > result.periodic_suffix_tokens) {
      result.periodic_suffix_tokens = static_cast<std::int64_t>(length);
      result.period = static_cast<std::int64_t>(period);
    }
  }
  return result;
}

bool is_repetitive(const Repetition& repetition, std::int64_t tokens) {
  if (tokens < kLeastTokens) return false;
  const double periodic_share = static_cast<double>(repetition.periodic_suffix_tokens) / static_cast<double>(tokens);
  return repetition.distinct_4gram_share < kLeastDistinctShare ||
         repetition.dominant_token_share > kMostDominantShare || periodic_share > kMostPeriodicShare;
}

std::string replay_digest(const ReplayText& text) {
  std::string all = digest_tokens(text.prompt_tokens) + digest_tokens(text.tokens);
  for (const engine::RoundShape& shape : text.rounds) all += digest_tokens(shape.parents) + digest_tokens(shape.path);
  return digest(all);
}

std::string suite_digest(std::span<const ReplayText> texts) {
  std::string all;
  for (const ReplayText& text : texts) all += text.prompt_id + " " + replay_digest(text) + "\n";
  return digest(all);
}

}  // namespace tare::forced
