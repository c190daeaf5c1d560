#include "harness/cli/acceptance_table.h"

#include <fmt/format.h>

namespace tare::harness {

void print_acceptance(const forced::Acceptance& acceptance) {
  fmt::print("{} rounds, {} tokens: {:.3f} tokens a round by rounds, {:.3f} by texts, {:.3f} by categories\n",
             acceptance.rounds, acceptance.tokens, acceptance.by_rounds, acceptance.by_texts, acceptance.by_categories);
  fmt::print("{:>9} {:>9} {:>9} {:>9} {:>12}\n", "position", "drafted", "accepted", "share", "conditional");
  for (std::size_t i = 0; i < acceptance.positions.size(); ++i) {
    const forced::PositionAcceptance& position = acceptance.positions[i];
    fmt::print("{:>9} {:>9} {:>9} {:>8.1f}% {:>11.1f}%\n", i + 1, position.reached, position.accepted,
               100 * position.share(), 100 * position.conditional());
  }
}

Json to_json(const forced::Acceptance& acceptance) {
  Json positions = Json::array();
  for (const forced::PositionAcceptance& position : acceptance.positions)
    positions.push_back({{"drafted", position.reached},
                         {"accepted", position.accepted},
                         {"tried", position.tried},
                         {"share", position.share()},
                         {"conditional", position.conditional()}});
  return {{"rounds", acceptance.rounds},
          {"tokens", acceptance.tokens},
          {"nodes", acceptance.nodes},
          {"cut_rounds", acceptance.cut_rounds},
          {"tokens_per_round",
           {{"by_rounds", acceptance.by_rounds},
            {"by_texts", acceptance.by_texts},
            {"by_categories", acceptance.by_categories}}},
          {"positions", std::move(positions)}};
}

}  // namespace tare::harness
