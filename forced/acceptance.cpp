#include "forced/acceptance.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/error.h"

namespace tare::forced {
namespace {

double ratio(std::int64_t part, std::int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0.0;
}

struct Totals {
  std::int64_t rounds = 0;
  std::int64_t tokens = 0;
};

void check(const RoundTally& round) {
  const std::int64_t accepted = round.tokens - 1;
  if (accepted < 0 || accepted > round.drafted || accepted >= round.nodes)
    throw internal_error(fmt::format("a round of {} nodes and {} drafts cannot commit {} tokens", round.nodes,
                                     round.drafted, round.tokens));
}

void count_positions(const RoundTally& round, std::vector<PositionAcceptance>& positions) {
  const std::int64_t accepted = round.tokens - 1;
  // A text that ends inside the accepted path says nothing of what lies behind.
  const std::int64_t decided = round.cut ? accepted : round.drafted;
  if (static_cast<std::int64_t>(positions.size()) < decided) positions.resize(static_cast<std::size_t>(decided));
  for (std::int64_t i = 1; i <= decided; ++i) {
    PositionAcceptance& position = positions[static_cast<std::size_t>(i - 1)];
    ++position.reached;
    if (accepted >= i - 1) ++position.tried;
    if (accepted >= i) ++position.accepted;
  }
}

}  // namespace

double PositionAcceptance::share() const {
  return ratio(accepted, reached);
}

double PositionAcceptance::conditional() const {
  return ratio(accepted, tried);
}

Acceptance measure_acceptance(std::span<const TextTally> texts) {
  Acceptance result;
  std::map<std::string, Totals> categories;
  std::int64_t counted = 0;
  for (const TextTally& text : texts) {
    if (text.rounds.empty()) continue;
    Totals own;
    for (const RoundTally& round : text.rounds) {
      check(round);
      ++own.rounds;
      own.tokens += round.tokens;
      result.nodes += round.nodes;
      result.cut_rounds += round.cut ? 1 : 0;
      count_positions(round, result.positions);
    }
    ++counted;
    result.by_texts += ratio(own.tokens, own.rounds);
    result.rounds += own.rounds;
    result.tokens += own.tokens;
    categories[text.category].rounds += own.rounds;
    categories[text.category].tokens += own.tokens;
  }
  if (counted == 0) return result;
  result.by_texts /= static_cast<double>(counted);
  result.by_rounds = ratio(result.tokens, result.rounds);
  for (const auto& [name, totals] : categories)
    result.by_categories += ratio(totals.tokens, totals.rounds) / static_cast<double>(categories.size());
  return result;
}

}  // namespace tare::forced
