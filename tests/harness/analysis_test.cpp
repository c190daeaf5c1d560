// The whole chain from ledger rows to verdicts on simulated clocks with a known truth, seeds fixed.
#include "harness/analysis/analysis.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/file.h"
#include "base/sqlite/sqlite.h"
#include "reports/report.h"
#include "tests/harness/analysed.h"
#include "tests/harness/ledger_rows.h"
#include "tests/harness/schema_check.h"
#include "tests/harness/simulated_ledger.h"

namespace tare::harness {
namespace {

using reports::Effect;
using reports::Findings;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::StartsWith;

const Effect& effect_of(const Findings& findings, std::size_t arm) {
  const Effect* effect = reports::find_effect(findings, arm, findings.effect_measure);
  if (effect == nullptr) throw internal_error("no effect of the arm");
  return *effect;
}

bool holds(const Effect& effect, double truth) {
  const reports::Interval* interval = reports::verdict_interval(effect);
  return interval != nullptr && interval->low_log <= truth && truth <= interval->high_log;
}

class ThreeArms : public testing::TestWithParam<std::uint64_t> {};

TEST_P(ThreeArms, TheFasterArmIsBetterAndTheNullArmShowsNothing) {
  SimulatedRun run;
  run.arms = {"q8", "q4", "q8-again"};
  run.blocks = 2;
  run.seed = GetParam();
  run.clock = restless_clock({0, std::log(1.3), 0});
  const auto [findings, truth] = analysed(run);
  ASSERT_TRUE(findings.validity.valid) << findings.validity.why_invalid;
  EXPECT_TRUE(findings.complete);
  const Effect& q4 = effect_of(findings, 1);
  EXPECT_EQ(q4.verdict, "better");
  EXPECT_TRUE(q4.difference_shown);
  EXPECT_TRUE(holds(q4, truth.log_effects[1]));
  const Effect& null = effect_of(findings, 2);
  EXPECT_EQ(null.verdict, "inconclusive");
  EXPECT_FALSE(null.difference_shown);
  EXPECT_TRUE(holds(null, 0));
  EXPECT_EQ(findings.methods.family_size, 2U);
  for (const Effect* effect : {&q4, &null}) {
    EXPECT_TRUE(effect->in_family);
    EXPECT_GE(effect->p_adjusted, effect->p);
    EXPECT_EQ(effect->intervals.size(), 5U);
    for (const reports::Interval& interval : effect->intervals) EXPECT_TRUE(reports::is_known(interval));
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, ThreeArms, testing::Values(1, 2, 3));

struct Handicapped {
  Granularity granularity;
  int blocks;
  std::uint64_t seed;
};

class Handicap : public testing::TestWithParam<Handicapped> {};

TEST_P(Handicap, OnePercentIsFoundAndItsTruthHeld) {
  SimulatedRun run;
  run.arms = {"plain", "handicap"};
  run.granularity = GetParam().granularity;
  run.blocks = GetParam().blocks;
  run.seed = GetParam().seed;
  run.clock = restless_clock({});
  run.clock.reaction_sd = 0;
  run.handicap_share = {0, 0.01};
  const auto [findings, truth] = analysed(run);
  ASSERT_TRUE(findings.validity.valid) << findings.validity.why_invalid;
  const Effect& effect = effect_of(findings, 1);
  ASSERT_TRUE(effect.truth);
  // The instrument's own account of what it spun agrees with what the simulation was told.
  EXPECT_NEAR(effect.truth->effect_log, truth.log_effects[1], 1e-6);
  EXPECT_EQ(reports::holds_truth(*reports::verdict_interval(effect), *effect.truth), true);
  EXPECT_EQ(effect.verdict, "worse");
  EXPECT_TRUE(effect.difference_shown);
}

INSTANTIATE_TEST_SUITE_P(BothGranularities, Handicap,
                         testing::Values(Handicapped{Granularity::kRun, 2, 1}, Handicapped{Granularity::kRun, 2, 2},
                                         Handicapped{Granularity::kPrompt, 6, 1},
                                         Handicapped{Granularity::kPrompt, 6, 2}));

TEST(Analysis, ARegressionByTwoFires) {
  SimulatedRun run;
  run.arms = {"before", "after"};
  run.clock = restless_clock({0, std::log(0.5)});
  const auto [findings, truth] = analysed(run);
  const Effect& effect = effect_of(findings, 1);
  EXPECT_EQ(effect.verdict, "worse");
  EXPECT_TRUE(effect.difference_shown);
  EXPECT_NEAR(reports::percent_of_log(effect.estimate_log), -50, 1);
}

TEST(Analysis, TheNullArmIsEquivalentWithinAMarginSetBeforehand) {
  SimulatedRun run;
  run.arms = {"a", "b"};
  run.blocks = 2;
  run.clock = restless_clock({});
  run.patch = Json::parse(R"({"analysis": {"equivalence_margin_percent": 2}})");
  const auto [findings, truth] = analysed(run);
  EXPECT_EQ(effect_of(findings, 1).verdict, "equivalent");
  EXPECT_NEAR(findings.methods.equivalence_margin_log, -std::log(0.98), 1e-12);
}

TEST(Analysis, FewBlocksOfResidentWorkersAreInconclusive) {
  SimulatedRun run;
  run.arms = {"a", "b"};
  run.granularity = Granularity::kPrompt;
  run.clock = restless_clock({0, 0.3});
  for (const int blocks : {1, 3}) {
    run.blocks = blocks;
    const Findings findings = analysed(run).findings;
    ASSERT_TRUE(findings.validity.valid) << findings.validity.why_invalid;
    EXPECT_EQ(effect_of(findings, 1).verdict, "inconclusive") << blocks;
    EXPECT_TRUE(has_warning(effect_of(findings, 1).warnings, "few_blocks")) << blocks;
  }
}

TEST(Analysis, EveryMeasureHasValuesOfItsUnit) {
  SimulatedRun run;
  run.arms = {"a", "b"};
  run.clock = restless_clock({});
  const Findings findings = analysed(run).findings;
  ASSERT_EQ(findings.measures.size(), 4U);
  const auto value = [&](const char* key, std::size_t arm) {
    for (std::size_t i = 0; i < findings.measures.size(); ++i)
      if (findings.measures[i].key == key) return reports::find_value(findings, arm, i)->value;
    return reports::kMissing;
  };
  double tokens = 0;
  double seconds = 0;
  for (const reports::Run& row : findings.runs) {
    if (row.state != reports::RunState::kCounted || row.arm != 0) continue;
    tokens += static_cast<double>(row.tokens);
    seconds += row.decode_s;
  }
  EXPECT_NEAR(value("decode_speed", 0), tokens / seconds, 1e-9 * tokens / seconds);
  EXPECT_GT(value("time_to_first_token", 0), 1);  // ms: a prompt of some 17 tokens at a quarter of a round each
  EXPECT_LT(value("time_to_first_token", 0), 1000);
  EXPECT_GT(value("prefill_speed", 0), value("decode_speed", 0));
  EXPECT_EQ(value("peak_memory", 1), 100'004'096);
  EXPECT_EQ(findings.arms[1].peak_memory_bytes, 100'004'096);
}

TEST(Analysis, WarmUpRunsAreListedAndLeftOut) {
  SimulatedRun run;
  run.arms = {"a", "b"};
  run.clock = restless_clock({});
  const auto [findings, truth] = analysed(run);
  const auto warm_ups = std::count_if(findings.runs.begin(), findings.runs.end(),
                                      [](const reports::Run& row) { return row.state == reports::RunState::kWarmUp; });
  EXPECT_EQ(warm_ups, 1);
  EXPECT_EQ(findings.runs.size(), 9U);
  // A warm-up is three times as slow: one among eight would move an arm's speed by a fifth.
  EXPECT_NEAR(effect_of(findings, 1).estimate_log, 0, 0.02);
}

TEST(Analysis, AnInterruptedBlockIsListedAndLeftOut) {
  SimulatedRun run;
  run.arms = {"a", "b"};
  run.blocks = 2;
  run.blocks_measured = 1;
  run.clock = restless_clock({});
  const FreshFolder fresh;
  const std::filesystem::path& folder = fresh.path();
  (void)write_simulated_ledger(run, folder);
  {
    const Experiment experiment = simulated_experiment(run);
    Ledger ledger = Ledger::open_for_writing(folder / kLedgerFile,
                                             {experiment_digest(experiment), to_json(experiment), experiment.name});
    (void)ledger.begin_run({1, 0, false}, "a", ledger.launches().back().id, 1);
    (void)ledger.interrupt_incomplete_blocks(8, "stopped by the user");
  }
  const Findings findings = analyse(Ledger::open_for_reading(folder / kLedgerFile));
  ASSERT_TRUE(findings.validity.valid) << findings.validity.why_invalid;
  EXPECT_FALSE(findings.complete);
  EXPECT_TRUE(has_warning(findings.warnings, "incomplete"));
  EXPECT_EQ(findings.schedule.blocks, 1U);
  const reports::Run& last = findings.runs.back();
  EXPECT_EQ(last.state, reports::RunState::kInterrupted);
  EXPECT_EQ(last.note, "stopped by the user");
  EXPECT_TRUE(std::isnan(last.fitted));
  EXPECT_EQ(reports::find_value(findings, 0, 0)->run_count, 4U);
}

TEST(Analysis, TextsThatLoopAreWarnedOf) {
  SimulatedRun run;
  run.arms = {"a", "b"};
  run.clock = restless_clock({});
  run.change_texts = [](std::vector<TextRecord>& texts) {
    texts[3].repetitive = true;
    texts[3].distinct_4gram_share = 0.1;
  };
  const auto [findings, truth] = analysed(run);
  EXPECT_TRUE(has_warning(findings.warnings, "texts_repeat"));
  EXPECT_EQ(findings.texts.most_repetitive_prompt, "p3");
  EXPECT_DOUBLE_EQ(findings.texts.repetition_highest, 0.9);
}

TEST(Analysis, ATextThatEndedAtOnceIsCountedAndNotMeasured) {
  SimulatedRun run;
  run.arms = {"a", "b"};
  run.clock = restless_clock({});
  run.change_texts = [](std::vector<TextRecord>& texts) {
    texts[0].tokens.resize(1);
    texts[0].outcome = "immediate_end";
  };
  run.change_validations = [](std::vector<ValidationRecord>& validations) {
    --validations[0].prompts;
    --validations[0].prompts_equal;
  };
  const auto [findings, truth] = analysed(run);
  ASSERT_TRUE(findings.validity.valid) << findings.validity.why_invalid;
  EXPECT_EQ(findings.prompts.size(), run.prompts - 1);
  EXPECT_TRUE(has_warning(findings.warnings, "texts_without_rounds"));
  EXPECT_EQ(findings.texts.outcomes.size(), 2U);
}

TEST(Analysis, AMeasureThatAWorkerDoesNotReportIsNamed) {
  SimulatedRun run;
  run.arms = {"a", "b"};
  run.clock = restless_clock({});
  run.change_launch = [](LaunchRecord& launch) {
    if (launch.arm == "b") launch.peak_memory_bytes.reset();
  };
  run.change_run = [](const RunRecord&, RunEnd& end) {
    for (PromptResult& result : end.prompts) result.prefill_ns = 0;
  };
  const auto [findings, truth] = analysed(run);
  ASSERT_TRUE(findings.validity.valid) << findings.validity.why_invalid;
  EXPECT_EQ(std::count_if(findings.warnings.begin(), findings.warnings.end(),
                          [](const auto& warning) { return warning.code == "not_measured"; }),
            2);
  EXPECT_EQ(reports::find_value(findings, 0, 2), nullptr);
  EXPECT_NE(reports::find_value(findings, 0, 1), nullptr);
}

TEST(Analysis, ClocksThatDisagreeAreWarnedOf) {
  SimulatedRun run;
  run.arms = {"a", "b"};
  run.clock = restless_clock({});
  run.change_run = [](const RunRecord& record, RunEnd& end) {
    if (record.slot == 2) end.prompts[4].outer_ns += 20'000'000;
  };
  const auto [findings, truth] = analysed(run);
  ASSERT_TRUE(findings.validity.clock);
  EXPECT_FALSE(findings.validity.clock->agreed);
  EXPECT_NEAR(findings.validity.clock->worst_ns, 20'050'000, 1);
  EXPECT_TRUE(has_warning(findings.warnings, "clocks_disagree"));
}

TEST(Analysis, AnOutlierIsNamedByItsArmAndKept) {
  SimulatedRun run;
  run.arms = {"plain", "other"};
  run.blocks = 2;
  run.clock = restless_clock({});
  std::string arm;
  run.change_run = [&](const RunRecord& record, RunEnd& end) {
    if (record.warmup || record.block != 1 || record.slot != 3) return;
    arm = record.arm;
    for (PromptResult& prompt : end.prompts) {
      prompt.decode_ns = 0;
      for (std::int64_t& duration : prompt.rounds.duration_ns) {
        duration += duration / 2;
        prompt.decode_ns += duration;
      }
    }
  };
  const auto [findings, truth] = analysed(run);
  ASSERT_TRUE(findings.validity.valid) << findings.validity.why_invalid;
  const auto found = std::find_if(findings.warnings.begin(), findings.warnings.end(),
                                  [](const reports::Warning& warning) { return warning.code == "outlier_run"; });
  ASSERT_NE(found, findings.warnings.end());
  EXPECT_THAT(found->text, testing::HasSubstr("the run of " + arm + " in block 2, slot 4 lies -"));
}

TEST(Analysis, OptionsThatDifferFromTheBaselineAreNamed) {
  SimulatedRun run;
  run.arms = {"a", "b"};
  run.clock = restless_clock({});
  run.change_launch = [](LaunchRecord& launch) {
    launch.options = {{"weights", {{"format", launch.arm == "a" ? "q8" : "q4"}, {"overrides", Json::array()}}},
                      {"context", 0}};
  };
  const auto [findings, truth] = analysed(run);
  EXPECT_EQ(findings.arms[0].options_differing_json, "{}");
  EXPECT_EQ(findings.arms[1].options_differing_json, R"({"weights":{"format":"q4"}})");
}

// ---- what must not be compared ----

struct Refused {
  std::string why;
  std::string code;
  std::function<void(SimulatedRun&)> spoil;
};

class RefusedLedger : public testing::TestWithParam<Refused> {};

TEST_P(RefusedLedger, IsInvalidWithoutNumbers) {
  SimulatedRun run;
  run.arms = {"a", "b"};
  run.clock = restless_clock({0, 0.3});
  GetParam().spoil(run);
  const Findings findings = analysed(run).findings;
  EXPECT_FALSE(findings.validity.valid);
  EXPECT_FALSE(findings.validity.why_invalid.empty());
  EXPECT_TRUE(has_warning(findings.warnings, GetParam().code)) << findings.validity.why_invalid;
  EXPECT_THAT(findings.values, IsEmpty());
  EXPECT_THAT(findings.prompts, IsEmpty());
  ASSERT_EQ(findings.effects.size(), 1U);
  EXPECT_EQ(findings.effects[0].verdict, "invalid");
  EXPECT_TRUE(std::isnan(findings.effects[0].estimate_log));
  for (const reports::Run& row : findings.runs)
    for (const double value : row.values) EXPECT_TRUE(std::isnan(value));
  const Json verdict = verdict_json(findings);
  EXPECT_EQ(SchemaCheck("verdict.schema.json").faults(verdict), "");
  EXPECT_EQ(verdict["experiment_verdict"], "invalid");
  EXPECT_TRUE(verdict["effects"][0]["effect_percent"].is_null());
}

void spoil_one_launch(SimulatedRun& run, const std::function<void(LaunchRecord&)>& spoil) {
  auto count = std::make_shared<int>(0);
  run.change_launch = [spoil, count](LaunchRecord& launch) {
    if (++*count == 6) spoil(launch);
  };
}

std::vector<Refused> refused_ledgers() {
  return {
      {"never validated", "not_validated",
       [](SimulatedRun& run) { run.change_validations = [](auto& validations) { validations.clear(); }; }},
      {"controls but no validation", "not_validated",
       [](SimulatedRun& run) {
         run.change_validations = [](auto& validations) { validations.erase(validations.begin()); };
       }},
      {"one prompt not reproduced", "validation_failed",
       [](SimulatedRun& run) { run.change_validations = [](auto& validations) { --validations[0].prompts_equal; }; }},
      {"fewer texts validated than measured", "validation_incomplete",
       [](SimulatedRun& run) {
         run.change_validations = [](auto& validations) { validations[0].prompts = validations[0].prompts_equal = 3; };
       }},
      {"no text validated", "validation_failed",
       [](SimulatedRun& run) {
         run.change_validations = [](auto& validations) { validations[0].prompts = validations[0].prompts_equal = 0; };
       }},
      {"a control that was not caught", "control_not_caught",
       [](SimulatedRun& run) { run.change_validations = [](auto& validations) { validations[2].prompts_equal = 1; }; }},
      {"another checkpoint in one launch", "mixed_checkpoints",
       [](SimulatedRun& run) {
         spoil_one_launch(run, [](LaunchRecord& launch) { launch.checkpoint_digest = "other"; });
       }},
      {"other options in one launch", "mixed_options",
       [](SimulatedRun& run) {
         spoil_one_launch(run, [](LaunchRecord& launch) { launch.options["weights"]["format"] = "q4"; });
       }},
      {"another build in one launch", "mixed_builds",
       [](SimulatedRun& run) {
         spoil_one_launch(run, [](LaunchRecord& launch) { launch.build["commit"] = "fedcba"; });
       }},
      {"a launch without a checkpoint digest", "unknown_checkpoint",
       [](SimulatedRun& run) {
         spoil_one_launch(run, [](LaunchRecord& launch) { launch.checkpoint_digest.clear(); });
       }},
      {"a replay of another text", "other_text",
       [](SimulatedRun& run) {
         run.change_run = [](const RunRecord& record, RunEnd& end) {
           if (record.slot == 3) end.prompts[2].text_digest = "other";
         };
       }},
      {"a prompt that lacks", "rows_do_not_fit",
       [](SimulatedRun& run) {
         run.change_run = [](const RunRecord& record, RunEnd& end) {
           if (record.slot == 3) end.prompts.pop_back();
         };
       }},
      {"a replay without decode time", "no_decode_time",
       [](SimulatedRun& run) {
         run.change_run = [](const RunRecord& record, RunEnd& end) {
           if (record.slot == 3) end.prompts[2].decode_ns = 0;
         };
       }},
      {"no block yet", "no_block", [](SimulatedRun& run) { run.blocks_measured = 0; }},
  };
}

INSTANTIATE_TEST_SUITE_P(All, RefusedLedger, testing::ValuesIn(refused_ledgers()), [](const auto& info) {
  std::string name = info.param.why;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
  return name;
});

// Rows changed from outside, by SQL.
struct ChangedRows {
  std::string sql;
  std::string code;
};

class ChangedLedger : public testing::TestWithParam<ChangedRows> {};

TEST_P(ChangedLedger, IsInvalid) {
  SimulatedRun run;
  run.arms = {"a", "b"};
  run.clock = restless_clock({});
  const FreshFolder fresh;
  (void)write_simulated_ledger(run, fresh.path());
  Connection(fresh.path() / kLedgerFile, OpenMode::kCreate, "").execute(GetParam().sql);
  const Findings findings = analyse(Ledger::open_for_reading(fresh.path() / kLedgerFile));
  EXPECT_FALSE(findings.validity.valid);
  EXPECT_TRUE(has_warning(findings.warnings, GetParam().code)) << findings.validity.why_invalid;
}

INSTANTIATE_TEST_SUITE_P(
    All, ChangedLedger,
    testing::Values(
        ChangedRows{"UPDATE runs SET arm = CASE arm WHEN 'a' THEN 'b' ELSE 'a' END WHERE slot = 2", "rows_do_not_fit"},
        ChangedRows{"UPDATE runs SET launch_id = (SELECT max(launch_id) FROM runs WHERE arm = 'a') WHERE arm = 'a'",
                    "rows_do_not_fit"},
        ChangedRows{"UPDATE runs SET launch_id = (SELECT max(launch_id) FROM runs WHERE arm = 'b') WHERE slot = 0",
                    "rows_do_not_fit"},
        ChangedRows{"UPDATE prompt_results SET text_digest = 'x' WHERE run_id = 5 AND position = 0", "other_text"},
        ChangedRows{"INSERT INTO sittings SELECT 2, started_utc_ns, replace(machine, 'Some CPU', 'Other CPU'), "
                    "harness_build, prompts_digest FROM sittings",
                    "mixed_machines"}));

TEST(Analysis, TheLastValidationOfANameCounts) {
  SimulatedRun run;
  run.arms = {"a", "b"};
  run.clock = restless_clock({});
  run.change_validations = [](std::vector<ValidationRecord>& validations) {
    ValidationRecord failed = validations[0];
    failed.prompts_equal = 1;
    validations.insert(validations.begin(), failed);
  };
  EXPECT_TRUE(analysed(run).findings.validity.valid);
}

// ---- verdict.json ----

TEST(Verdict, FitsItsSchemaAndIsWrittenByRename) {
  SimulatedRun run;
  run.arms = {"q8", "q4", "q8-again"};
  run.clock = restless_clock({0, 0.3, 0});
  run.handicap_share = {0, 0, 0.01};
  const Findings findings = analysed(run).findings;
  const FreshFolder fresh;
  const std::filesystem::path& folder = fresh.path();
  write_verdict(findings, folder);
  const Json verdict = read_json_file(folder / kVerdictFile);
  EXPECT_EQ(SchemaCheck("verdict.schema.json").faults(verdict), "");
  EXPECT_EQ(verdict["effects"].size(), 2U);
  EXPECT_EQ(verdict["effects"][0]["arm"], "q4");
  EXPECT_EQ(verdict["effects"][0]["verdict"], "better");
  EXPECT_TRUE(verdict["effects"][0]["true_effect_percent"].is_null());
  EXPECT_NEAR(verdict["effects"][1]["true_effect_percent"].get<double>(), 100 * (1 / 1.01 - 1), 1e-4);
  EXPECT_EQ(verdict["validation"]["prompts_validated"], run.prompts);
  EXPECT_EQ(verdict["validation"]["controls_caught"], 2);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), std::filesystem::directory_iterator{}), 1)
      << "no temporary file is left";
}

TEST(Verdict, IsInconclusiveWhenOneArmIs) {
  SimulatedRun run;
  run.arms = {"q8", "q4", "q8-again"};
  run.clock = restless_clock({0, 0.3, 0});
  Findings findings = analysed(run).findings;
  EXPECT_EQ(verdict_json(findings)["experiment_verdict"], "inconclusive");
  for (Effect& effect : findings.effects) effect.verdict = "better";
  EXPECT_EQ(verdict_json(findings)["experiment_verdict"], "conclusive");
}

TEST(Report, IsWrittenFromWhatTheAnalysisFound) {
  SimulatedRun run;
  run.title = "simulated";
  run.arms = {"q8", "q4"};
  run.clock = restless_clock({0, 0.3});
  const Findings findings = analysed(run).findings;
  const FreshFolder fresh;
  const std::filesystem::path& folder = fresh.path();
  const reports::WrittenReport written =
      reports::write_report(findings, folder, {.gnuplot = "no-such-gnuplot-program"});
  EXPECT_FALSE(written.missing.empty());
  EXPECT_THAT(read_text_file(folder / "report.html"), testing::HasSubstr("q4"));
}

}  // namespace
}  // namespace tare::harness
