#include "forced/validation.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace tare::forced {
namespace {

std::optional<Difference> first_difference(const std::string& prompt_id, DifferenceKind kind,
                                           std::span<const std::int32_t> wanted, std::span<const std::int32_t> got) {
  const std::size_t common = std::min(wanted.size(), got.size());
  for (std::size_t i = 0; i < common; ++i)
    if (wanted[i] != got[i]) return Difference{prompt_id, kind, static_cast<std::int64_t>(i), wanted[i], got[i]};
  if (wanted.size() != got.size())
    return Difference{prompt_id, kind == DifferenceKind::kRounds ? kind : DifferenceKind::kLength,
                      static_cast<std::int64_t>(common), static_cast<std::int32_t>(wanted.size()),
                      static_cast<std::int32_t>(got.size())};
  return std::nullopt;
}

}  // namespace

std::string to_text(DifferenceKind kind) {
  switch (kind) {
    case DifferenceKind::kCommitted:
      return "committed";
    case DifferenceKind::kNatural:
      return "natural";
    case DifferenceKind::kRounds:
      return "rounds";
    case DifferenceKind::kLength:
      return "length";
  }
  throw internal_error("a kind of difference has no name");
}

std::string to_text(const Difference& difference) {
  const std::string place = fmt::format("prompt {}, position {}", difference.prompt_id, difference.position);
  switch (difference.kind) {
    case DifferenceKind::kCommitted:
      return fmt::format("{}: committed token {}, the text has {}", place, difference.got, difference.wanted);
    case DifferenceKind::kNatural:
      return fmt::format("{}: natural choice {}, the text has {}", place, difference.got, difference.wanted);
    case DifferenceKind::kRounds:
      return fmt::format("prompt {}, round {}: {} against {} in the free run", difference.prompt_id,
                         difference.position, difference.got, difference.wanted);
    case DifferenceKind::kLength:
      return fmt::format("{}: {} tokens, the text has {}", place, difference.got, difference.wanted);
  }
  throw internal_error("a kind of difference has no name");
}

std::optional<Difference> compare(const ReplayText& text, const ForcedRun& run) {
  if (auto difference = first_difference(text.prompt_id, DifferenceKind::kCommitted, text.tokens, run.committed))
    return difference;
  if (auto difference =
          first_difference(text.prompt_id, DifferenceKind::kNatural, text.expected_natural(), run.natural))
    return difference;
  return first_difference(text.prompt_id, DifferenceKind::kRounds, text.round_tokens, run.round_tokens);
}

void add(Validation& validation, const ReplayText& text, const ForcedRun& run) {
  ++validation.prompts;
  const std::optional<Difference> difference = compare(text, run);
  if (!difference) {
    ++validation.reproduced;
  } else if (!validation.first_difference) {
    validation.first_difference = difference;
  }
}

std::optional<ReplayText> off_by_one_control(const ReplayText& text) {
  if (text.tokens.size() < 2) return std::nullopt;
  ReplayText moved = text;
  moved.tokens.erase(moved.tokens.begin());
  moved.tokens.push_back(text.tokens.back());
  if (moved.tokens == text.tokens) return std::nullopt;
  return moved;
}

std::optional<ReplayText> flipped_token_control(const ReplayText& text, std::int32_t vocab_size) {
  if (text.tokens.size() < 2 || vocab_size < 2) return std::nullopt;
  ReplayText flipped = text;
  std::int32_t& token = flipped.tokens[flipped.tokens.size() / 2];
  token = token + 1 < vocab_size ? token + 1 : 0;
  return flipped;
}

std::optional<ReplayText> other_text_control(const ReplayText& text, std::span<const ReplayText> suite) {
  for (const ReplayText& other : suite) {
    if (other.prompt_id == text.prompt_id || other.tokens == text.tokens || other.tokens.size() < 2) continue;
    ReplayText swapped = text;
    swapped.tokens = other.tokens;
    swapped.round_tokens = other.round_tokens;
    return swapped;
  }
  return std::nullopt;
}

}  // namespace tare::forced
