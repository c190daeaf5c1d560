#include "harness/analysis/rounds_of_arms.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "forced/acceptance.h"

namespace tare::harness {
namespace {

constexpr double kUsPerNs = 1e-3;

bool drafts(const CountedRun& run) {
  return std::any_of(run.results.begin(), run.results.end(),
                     [](const PromptResult& result) { return !result.rounds.nodes.empty(); });
}

// Walked along recorded rounds an arm without a drafter proposes nothing, so nothing of its is accepted.
bool proposes(const CountedRun& run) {
  return std::any_of(run.results.begin(), run.results.end(), [](const PromptResult& result) {
    const std::vector<std::int64_t>& drafted = result.rounds.drafted;
    return std::any_of(drafted.begin(), drafted.end(), [](std::int64_t tokens) { return tokens > 0; });
  });
}

std::vector<forced::TextTally> tallies_of(const Gathered& gathered, const CountedRun& run) {
  std::vector<forced::TextTally> tallies;
  for (std::size_t i = 0; i < run.results.size(); ++i) {
    const Rounds& rounds = run.results[i].rounds;
    forced::TextTally& tally = tallies.emplace_back();
    tally.category = gathered.texts[gathered.measured[i]].category;
    for (std::size_t round = 0; round < rounds.size(); ++round) {
      const bool drafted = !rounds.nodes.empty();
      // Recorded rounds may accept more than this arm's drafter proposes.
      const std::int64_t accepted = rounds.tokens[round] - 1;
      tally.rounds.push_back({rounds.tokens[round], drafted ? rounds.nodes[round] : 1,
                              drafted ? std::max(rounds.drafted[round], accepted) : 0,
                              drafted && rounds.cut[round] != 0});
    }
  }
  return tallies;
}

bool same_rounds(const CountedRun& a, const CountedRun& b) {
  return std::equal(a.results.begin(), a.results.end(), b.results.begin(), b.results.end(),
                    [](const PromptResult& one, const PromptResult& other) {
                      return one.rounds.tokens == other.rounds.tokens && one.rounds.nodes == other.rounds.nodes;
                    });
}

// Means a round over all runs of the arm.
void add_times(const std::vector<const CountedRun*>& runs, reports::ArmRounds& result) {
  double round_ns = 0;
  std::array<double, engine::kRoundPhases.size()> phase_ns{};
  double rounds = 0;
  bool told = false;
  for (const CountedRun* run : runs)
    for (const PromptResult& prompt : run->results) {
      rounds += static_cast<double>(prompt.rounds.size());
      round_ns += static_cast<double>(prompt.decode_ns);
      for (std::size_t phase = 0; phase < phase_ns.size(); ++phase)
        for (const std::int64_t ns : prompt.rounds.phase_ns[phase]) {
          phase_ns[phase] += static_cast<double>(ns);
          told = true;
        }
    }
  if (rounds == 0) return;
  result.round_us = kUsPerNs * round_ns / rounds;
  for (std::size_t phase = 0; told && phase < phase_ns.size(); ++phase)
    result.phases.push_back({engine::kRoundPhases[phase], kUsPerNs * phase_ns[phase] / rounds});
}

}  // namespace

std::vector<reports::ArmRounds> rounds_of_arms(const Gathered& gathered, std::vector<reports::Warning>& warnings) {
  std::map<std::size_t, std::vector<const CountedRun*>> by_arm;
  for (const CountedRun& run : gathered.counted)
    if (!run.results.empty()) by_arm[run.arm].push_back(&run);
  if (std::none_of(gathered.counted.begin(), gathered.counted.end(), drafts)) return {};
  std::vector<reports::ArmRounds> result;
  for (const auto& [arm, runs] : by_arm) {
    const std::vector<forced::TextTally> tallies = tallies_of(gathered, *runs.front());
    const forced::Acceptance acceptance = forced::measure_acceptance(tallies);
    reports::ArmRounds& rounds = result.emplace_back();
    rounds.arm = arm;
    rounds.rounds = acceptance.rounds;
    rounds.tokens = acceptance.tokens;
    rounds.nodes = acceptance.nodes;
    rounds.cut = acceptance.cut_rounds;
    rounds.by_rounds = acceptance.by_rounds;
    rounds.by_texts = acceptance.by_texts;
    rounds.by_categories = acceptance.by_categories;
    std::map<std::string, reports::CategoryRounds> categories;
    for (const forced::TextTally& tally : tallies) {
      reports::CategoryRounds& category = categories[tally.category];
      category.category = tally.category;
      for (const forced::RoundTally& round : tally.rounds) {
        ++category.rounds;
        category.tokens += round.tokens;
      }
    }
    for (auto& [name, category] : categories) rounds.categories.push_back(std::move(category));
    if (proposes(*runs.front()))
      for (const forced::PositionAcceptance& position : acceptance.positions)
        rounds.positions.push_back({position.reached, position.tried, position.accepted});
    add_times(runs, rounds);
    const bool same =
        std::all_of(runs.begin(), runs.end(), [&](const CountedRun* run) { return same_rounds(*runs.front(), *run); });
    if (!same)
      warnings.push_back({reports::Severity::kWarning, "rounds_differ",
                          fmt::format("the runs of arm '{}' do not have the same rounds", runs.front()->record.arm),
                          "under a forced text a configuration drafts the same tokens in every run; look for numbers "
                          "that depend on timing"});
  }
  return result;
}

}  // namespace tare::harness
