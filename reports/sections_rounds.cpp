// Rounds with drafts: tokens a round, how far drafts were accepted, and which part of a round took how long.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "reports/escape.h"
#include "reports/numbers.h"
#include "reports/sections.h"

namespace tare::reports {
namespace {

constexpr int kTokenDecimals = 3;
constexpr int kMicroDecimals = 1;

double ratio(std::int64_t part, std::int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : kMissing;
}

std::string number_or_dash(double value, int decimals) {
  return std::isnan(value) ? kNotAvailable : fixed(value, decimals);
}

std::string share_or_dash(double share) {
  return std::isnan(share) ? kNotAvailable : share_text(share);
}

std::string name_of(const Findings& findings, const ArmRounds& rounds) {
  return visible_text(shown_name(findings.arms[rounds.arm]));
}

Table tokens_table(const Findings& findings) {
  Table table;
  table.id = "tokens-a-round";
  table.caption = "Tokens a round, in three weightings, and what a round verifies";
  table.columns = {
      {"Arm"},          {"by rounds", true}, {"by texts", true},  {"by categories", true}, {"nodes a round", true},
      {"rounds", true}, {"tokens", true},    {"round, us", true}, {"tok/s of both", true}};
  for (const ArmRounds& rounds : findings.rounds) {
    constexpr double kUsPerSecond = 1e6;
    table.rows.push_back({.cells = {{name_of(findings, rounds)},
                                    {number_or_dash(rounds.by_rounds, kTokenDecimals)},
                                    {number_or_dash(rounds.by_texts, kTokenDecimals)},
                                    {number_or_dash(rounds.by_categories, kTokenDecimals)},
                                    {number_or_dash(ratio(rounds.nodes, rounds.rounds), 1)},
                                    {count_text(rounds.rounds)},
                                    {count_text(rounds.tokens)},
                                    {number_or_dash(rounds.round_us, kMicroDecimals)},
                                    {number_or_dash(rounds.by_rounds / rounds.round_us * kUsPerSecond, 1)}}});
  }
  table.note =
      "By rounds: all tokens over all rounds, the factor of this suite's speed. By texts: mean of each text's own. By "
      "categories: mean over categories of all tokens over all rounds. Rounds and tokens are of one run; the time of a "
      "round is the mean of all counted runs.";
  return table;
}

Table positions_table(const Findings& findings) {
  Table table;
  table.id = "acceptance";
  table.caption =
      "Share of rounds that accept the i-th drafted token; in brackets, of those that accepted all before it";
  table.columns = {{"Position", true}};
  std::size_t deepest = 0;
  for (const ArmRounds& rounds : findings.rounds) {
    if (rounds.positions.empty()) continue;
    table.columns.push_back({name_of(findings, rounds), true});
    deepest = std::max(deepest, rounds.positions.size());
  }
  for (std::size_t i = 0; i < deepest; ++i) {
    Row row{.cells = {{count_text(i + 1)}}};
    for (const ArmRounds& rounds : findings.rounds) {
      if (rounds.positions.empty()) continue;
      if (i >= rounds.positions.size()) {
        row.cells.push_back({kNotAvailable});
        continue;
      }
      const DraftPosition& position = rounds.positions[i];
      row.cells.push_back({fmt::format("{} ({})", share_or_dash(ratio(position.accepted, position.reached)),
                                       share_or_dash(ratio(position.accepted, position.tried)))});
    }
    table.rows.push_back(std::move(row));
  }
  table.said_when_empty = "No draft was decided on.";
  table.note = "A round that the text's end cut short counts for the positions it decided.";
  return table;
}

Table categories_table(const Findings& findings) {
  Table table;
  table.id = "rounds-by-category";
  table.caption = "Tokens a round by category of the texts";
  table.columns = {{"Category"}};
  std::set<std::string> names;
  for (const ArmRounds& rounds : findings.rounds) {
    table.columns.push_back({name_of(findings, rounds), true});
    for (const CategoryRounds& category : rounds.categories) names.insert(category.category);
  }
  for (const std::string& name : names) {
    Row row{.cells = {{visible_text(name)}}};
    for (const ArmRounds& rounds : findings.rounds) {
      const auto found = std::find_if(rounds.categories.begin(), rounds.categories.end(),
                                      [&](const CategoryRounds& category) { return category.category == name; });
      row.cells.push_back({found == rounds.categories.end()
                               ? std::string(kNotAvailable)
                               : number_or_dash(ratio(found->tokens, found->rounds), kTokenDecimals)});
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

Table phases_table(const Findings& findings) {
  Table table;
  table.id = "phases";
  table.caption = "Time of a round by phase, microseconds by the host's clock";
  table.columns = {{"Arm"}};
  std::vector<std::string> names;
  for (const ArmRounds& rounds : findings.rounds)
    for (const RoundPhase& phase : rounds.phases)
      if (std::find(names.begin(), names.end(), phase.name) == names.end()) names.push_back(phase.name);
  for (const std::string& name : names) table.columns.push_back({name, true});
  table.columns.push_back({"rest", true});
  table.columns.push_back({"round", true});
  for (const ArmRounds& rounds : findings.rounds) {
    if (rounds.phases.empty()) continue;
    Row row{.cells = {{name_of(findings, rounds)}}};
    double rest = rounds.round_us;
    for (const std::string& name : names) {
      double us = kMissing;
      for (const RoundPhase& phase : rounds.phases)
        if (phase.name == name) us = phase.us;
      if (!std::isnan(us)) rest -= us;
      row.cells.push_back({number_or_dash(us, kMicroDecimals)});
    }
    row.cells.push_back({number_or_dash(rest, kMicroDecimals)});
    row.cells.push_back({number_or_dash(rounds.round_us, kMicroDecimals)});
    table.rows.push_back(std::move(row));
  }
  table.said_when_empty = "No worker told the phases of its rounds.";
  table.note =
      "Draft: until the candidates are at hand. Tree: growing it. Verify: until the target's choices are at "
      "hand. Rest: the session's own, and what an instrument spun.";
  return table;
}

}  // namespace

Section rounds_section(const Findings& findings) {
  Section section{"rounds", "Rounds and drafts", {}};
  if (findings.rounds.empty()) return section;
  section.blocks.emplace_back(
      Paragraph{"Under a forced text a draft is accepted when it is the text, so what an arm accepts depends on its "
                "drafter and not on roundings of its target. Speed is tokens a round over the time of a round."});
  section.blocks.emplace_back(tokens_table(findings));
  section.blocks.emplace_back(positions_table(findings));
  section.blocks.emplace_back(categories_table(findings));
  section.blocks.emplace_back(phases_table(findings));
  return section;
}

}  // namespace tare::reports
