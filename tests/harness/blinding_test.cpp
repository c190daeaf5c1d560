// Blind experiments on simulated clocks: nothing tells an arm before the analysis is frozen, everything does after.
#include "harness/analysis/blinding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "base/sqlite/sqlite.h"
#include "harness/analysis/analysis.h"
#include "reports/findings_json.h"
#include "reports/report.h"
#include "tests/harness/analysed.h"

namespace tare::harness {
namespace {

namespace fs = std::filesystem;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr double kEffect = 0.05;  // of the second arm

// Every text that names an arm: its name, what it sets, its program's path, its build and checkpoint.
const std::vector<std::string>& tells() {
  static const std::vector<std::string> all = {"onyx", "quartz", "basalt",      "/opt/engines/", "handicap",
                                               "q3",   "slow",   "0ddba11c0de", "gemfile"};
  return all;
}

SimulatedRun blind_run() {
  SimulatedRun run;
  run.arms = {"onyx", "quartz", "basalt"};
  run.granularity = Granularity::kPrompt;
  run.blocks = 8;
  run.clock = restless_clock({0, kEffect, -0.02});
  run.patch = {{"blind", true},
               {"name", "quartz-against-onyx"},
               {"description", "is quartz faster?"},
               {"model", "gemfile"},
               {"measures", {"decode_speed", "peak_memory"}}};
  run.change_launch = [](LaunchRecord& launch) {
    launch.options = {{"weights", {{"format", launch.arm == "quartz" ? "q3" : "bf16"}}}};
    launch.peak_memory_bytes = launch.arm == "quartz" ? 777 : 999;
    launch.build["commit"] = "0ddba11c0de";
  };
  return run;
}

class Blinding : public testing::Test {
 protected:
  FreshFolder folder_;
  SimulatedTruth truth_;

  void write(const SimulatedRun& run) {
    truth_ = write_simulated_ledger(run, folder_.path());
    Connection connection(file(), OpenMode::kCreate, "");
    Statement(connection, "UPDATE launches SET program = ?").bind(R"(["/opt/engines/slow"])").run();
    Statement(connection, "UPDATE runs SET reason = ? WHERE warmup = 1").bind("before quartz's first block").run();
  }
  [[nodiscard]] fs::path file() const { return folder_.path() / kLedgerFile; }
  [[nodiscard]] reports::Findings findings() const { return analyse(Ledger::open_for_reading(file())); }

  // What of the report tells an arm: file and word.
  [[nodiscard]] std::vector<std::string> told_by_report() const {
    const fs::path out = folder_.path() / "report";
    static_cast<void>(reports::write_report(findings(), out));
    write_verdict(findings(), out);
    std::vector<std::string> told;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(out)) {
      if (!entry.is_regular_file()) continue;
      const std::string text = read_text_file(entry.path());
      for (const std::string& word : tells())
        if (text.find(word) != std::string::npos) told.push_back(entry.path().filename().string() + ": " + word);
    }
    return told;
  }
};

TEST_F(Blinding, TheReportTellsNoArmUntilTheAnalysisIsFrozen) {
  write(blind_run());
  EXPECT_TRUE(is_blind(Ledger::open_for_reading(file())));
  EXPECT_THAT(told_by_report(), IsEmpty());
  EXPECT_TRUE(has_warning(findings().warnings, "blind"));
  EXPECT_THROW(refuse_blind(Ledger::open_for_reading(file())), Error);

  const UnblindingRecord unblinding = unblind(folder_.path());
  EXPECT_EQ(unblinding.findings_digest.size(), 32U);
  EXPECT_FALSE(is_blind(Ledger::open_for_reading(file())));
  EXPECT_NO_THROW(refuse_blind(Ledger::open_for_reading(file())));
  // Positive control: now the same report tells.
  const std::vector<std::string> told = told_by_report();
  for (const char* word : {"onyx", "quartz", "basalt", "q3", "gemfile", "0ddba11c0de"})
    EXPECT_THAT(told, Contains(std::string("report.html: ") + word));
  EXPECT_THAT(told, Contains("verdict.json: quartz"));
  EXPECT_FALSE(has_warning(findings().warnings, "blind"));
  EXPECT_FALSE(has_warning(findings().warnings, "changed_since_unblinding"));
  EXPECT_EQ(findings().blinding.findings_digest, unblinding.findings_digest);
}

TEST_F(Blinding, LettersHoldTheSameEffectsAgainstTheArmCalledA) {
  write(blind_run());
  const reports::Findings blind = findings();
  const reports::Findings open = analyse_openly(Ledger::open_for_reading(file()));
  ASSERT_TRUE(blind.validity.valid) << blind.validity.why_invalid;
  ASSERT_EQ(blind.arms.size(), 3U);
  EXPECT_EQ(blind.arms[0].name, "A");
  EXPECT_EQ(blind.measures.size(), 1U);
  // The speeds are the same three, and so is each effect the log of a ratio of two of them.
  std::vector<double> of_letters;
  std::vector<double> of_names;
  for (std::size_t arm = 0; arm < 3; ++arm) {
    of_letters.push_back(reports::find_value(blind, arm, 0)->value);
    of_names.push_back(reports::find_value(open, arm, open.effect_measure)->value);
  }
  EXPECT_THAT(of_letters, testing::UnorderedElementsAreArray(of_names));
  const auto place = [&](std::size_t letter) {
    return static_cast<std::size_t>(std::find(of_names.begin(), of_names.end(), of_letters[letter]) - of_names.begin());
  };
  for (std::size_t letter = 1; letter < 3; ++letter) {
    const reports::Effect* effect = reports::find_effect(blind, letter, 0);
    ASSERT_NE(effect, nullptr);
    const double truth = truth_.log_effects[place(letter)] - truth_.log_effects[place(0)];
    EXPECT_NEAR(effect->estimate_log, truth, 0.01);
    EXPECT_TRUE(effect->difference_shown);
  }
}

// An order that never moved the baseline would hide nothing.
TEST_F(Blinding, AnotherSeedGivesAnotherOrder) {
  std::set<double> first_speeds;
  for (const std::uint64_t seed : {1U, 2U, 3U, 4U, 5U, 6U}) {
    SimulatedRun run = blind_run();
    run.blocks = 5;
    run.seed = seed;
    run.clock = {};
    run.clock.base_seconds = 0.05;
    run.clock.log_effects = {0, 0.5, 1};
    fs::remove(file());
    write(run);
    first_speeds.insert(std::round(std::log(reports::find_value(findings(), 0, 0)->value) * 2));
  }
  EXPECT_GE(first_speeds.size(), 2U);
}

TEST_F(Blinding, IsFrozenOnceAndOnlyAtTheEnd) {
  SimulatedRun run = blind_run();
  run.blocks_measured = 6;
  write(run);
  EXPECT_THROW(static_cast<void>(unblind(folder_.path())), Error);  // two blocks are missing
  EXPECT_TRUE(is_blind(Ledger::open_for_reading(file())));
  fs::remove(file());
  write(blind_run());
  static_cast<void>(unblind(folder_.path()));
  EXPECT_THROW(static_cast<void>(unblind(folder_.path())), Error);
  fs::remove(file());
  SimulatedRun open = blind_run();
  open.patch.erase("blind");
  write(open);
  EXPECT_THROW(static_cast<void>(unblind(folder_.path())), Error);  // never blind
}

TEST_F(Blinding, FindingsThatChangeAfterwardsAreSaid) {
  write(blind_run());
  static_cast<void>(unblind(folder_.path()));
  {
    Connection connection(file(), OpenMode::kCreate, "");
    connection.execute("UPDATE texts SET category = 'other' WHERE position = 0");
  }
  EXPECT_TRUE(has_warning(findings().warnings, "changed_since_unblinding"));
}

TEST(BlindExperiment, IsTheSameExperiment) {
  SimulatedRun run = blind_run();
  const Experiment blind = simulated_experiment(run);
  run.patch.erase("blind");
  const Experiment open = simulated_experiment(run);
  EXPECT_TRUE(blind.blind);
  EXPECT_FALSE(open.blind);
  EXPECT_EQ(experiment_digest(blind), experiment_digest(open));
  EXPECT_EQ(to_json(blind)["blind"], true);
  EXPECT_FALSE(to_json(open).contains("blind"));
}

}  // namespace
}  // namespace tare::harness
