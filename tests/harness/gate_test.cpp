// The gate on simulated ledgers with a known truth: what must fire fires, what is null passes, and nothing that was not
// compared ever passes.
#include "harness/gate/gate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "base/file.h"
#include "harness/analysis/analysis.h"
#include "tests/harness/analysed.h"
#include "tests/harness/schema_check.h"

namespace tare::harness {
namespace {

using reports::GateCheck;
using reports::GateFindings;
using reports::GateOutcome;
using stats::Verdict;
using testing::HasSubstr;

SimulatedRun two_arms(double log_effect) {
  SimulatedRun run;
  run.arms = {"before", "after"};
  run.blocks = 2;
  run.clock = restless_clock({0, log_effect});
  return run;
}

GatePolicy policy_of(const std::string& text) {
  return parse_policy(text, "policy.json");
}

const char* const kSpeedWithinTwo =
    R"({"version": 1, "speed": {"decode_speed": {"non_inferiority_margin_percent": 2}}})";

GateFindings gate_of(const SimulatedRun& run, const std::string& policy, const std::string& fidelity = {}) {
  const FreshFolder fresh;
  (void)write_simulated_ledger(run, fresh.path());
  if (!fidelity.empty()) write_file_atomically(fresh.path() / "fidelity.json", fidelity);
  return judge_gate(Ledger::open_for_reading(fresh.path() / kLedgerFile), policy_of(policy), "policy.json",
                    fresh.path());
}

// `run` against a run that was kept.
GateFindings gate_against(const SimulatedRun& run, const SimulatedRun& kept_run, const std::string& policy,
                          const std::string& arm = {}) {
  const FreshFolder here;
  const FreshFolder there;
  (void)write_simulated_ledger(run, here.path());
  (void)write_simulated_ledger(kept_run, there.path());
  const Ledger baseline = Ledger::open_for_reading(there.path() / kLedgerFile);
  return judge_gate(Ledger::open_for_reading(here.path() / kLedgerFile), policy_of(policy), "policy.json", here.path(),
                    StoredBaseline{&baseline, arm, "kept"});
}

// The worst check, which must be the reason for the outcome.
GateCheck worst(const GateFindings& findings) {
  return reports::worst_first(findings).at(0);
}

TEST(Gate, ARegressionByTwoFires) {
  const GateFindings findings = gate_of(two_arms(std::log(0.5)), kSpeedWithinTwo);
  EXPECT_EQ(reports::outcome_of(findings), GateOutcome::kFail);
  EXPECT_EQ(reports::exit_code_of(findings), 1);
  EXPECT_EQ(worst(findings).verdict, Verdict::kWorse);
  EXPECT_THAT(worst(findings).text, HasSubstr("difference shown"));
}

TEST(Gate, ANullChangePassesWithinItsMargin) {
  for (const std::uint64_t seed : {1U, 2U, 3U, 4U}) {
    SimulatedRun run = two_arms(0);
    run.seed = seed;
    const GateFindings findings = gate_of(run, kSpeedWithinTwo);
    EXPECT_EQ(reports::exit_code_of(findings), 0) << worst(findings).text;
    for (const GateCheck& check : findings.checks) EXPECT_EQ(check.outcome, GateOutcome::kPass) << check.text;
  }
}

TEST(Gate, WithoutEvidenceItIsInconclusiveOrFailsWhereThePolicySaysSo) {
  SimulatedRun run = two_arms(0);
  run.blocks = 1;
  run.clock.launch_sd = 0.02;
  const std::string narrow =
      R"({"version": 1, INCONCLUSIVE "speed": {"decode_speed": {"non_inferiority_margin_percent": 0.1}}})";
  const auto with = [&](const std::string& word) {
    std::string text = narrow;
    return text.replace(text.find("INCONCLUSIVE"), 12, word);
  };
  const GateFindings skipped = gate_of(run, with(""));
  EXPECT_EQ(worst(skipped).verdict, Verdict::kInconclusive);
  EXPECT_EQ(reports::exit_code_of(skipped), 3);
  EXPECT_EQ(reports::exit_code_of(gate_of(run, with(R"("inconclusive": "fail",)"))), 1);
}

TEST(Gate, EachRequirementAsksItsOwn) {
  const auto outcome = [](double effect, const std::string& rule) {
    return reports::outcome_of(gate_of(two_arms(effect), R"({"version": 1, "speed": {"decode_speed": )" + rule + "}}"));
  };
  const std::string better = R"({"require": "better"})";
  EXPECT_EQ(outcome(std::log(1.3), better), GateOutcome::kPass);
  EXPECT_EQ(outcome(std::log(0.7), better), GateOutcome::kFail);
  EXPECT_EQ(outcome(0, better), GateOutcome::kInconclusive);
  const std::string equivalent = R"({"require": "equivalent", "equivalence_margin_percent": 2})";
  EXPECT_EQ(outcome(0, equivalent), GateOutcome::kPass);
  EXPECT_EQ(outcome(std::log(1.3), equivalent), GateOutcome::kFail);
  const std::string not_worse = R"({"require": "not_worse"})";
  EXPECT_EQ(outcome(0, not_worse), GateOutcome::kPass);
  EXPECT_EQ(outcome(std::log(0.9), not_worse), GateOutcome::kFail);
}

TEST(Gate, SeveralMeasuresAreOneFamily) {
  const GateFindings findings =
      gate_of(two_arms(0), R"({"version": 1, "speed": {"decode_speed": {"non_inferiority_margin_percent": 3},
                               "time_to_first_token": {"require": "not_worse"}}})");
  std::vector<std::string> names;
  for (const GateCheck& check : findings.checks)
    if (check.section == "speed") names.push_back(check.name);
  EXPECT_THAT(names, testing::ElementsAre("decode_speed of after", "time_to_first_token of after"));
}

struct InvalidCase {
  const char* name;
  std::string policy;
  std::function<void(SimulatedRun&)> spoil;
  const char* says;
};

class NeverAPass : public testing::TestWithParam<InvalidCase> {};

TEST_P(NeverAPass, IsInvalidAndSaysWhy) {
  SimulatedRun run = two_arms(0);
  if (GetParam().spoil) GetParam().spoil(run);
  const GateFindings findings = gate_of(run, GetParam().policy);
  EXPECT_EQ(reports::outcome_of(findings), GateOutcome::kInvalid);
  EXPECT_EQ(reports::exit_code_of(findings), 2);
  EXPECT_EQ(worst(findings).verdict, Verdict::kInvalid);
  EXPECT_THAT(worst(findings).text, HasSubstr(GetParam().says));
}

const char* const kMemory = R"({"version": 1, "memory": {"most_increase_percent": 1}})";

INSTANTIATE_TEST_SUITE_P(
    Cases, NeverAPass,
    testing::Values(
        InvalidCase{"arm_that_is_not_there",
                    R"({"version": 1, "arms": ["aftre"], "speed": {"decode_speed": {"require": "better"}}})", nullptr,
                    "no arm 'aftre'"},
        InvalidCase{"baseline_against_itself",
                    R"({"version": 1, "arms": ["before"], "speed": {"decode_speed": {"require": "better"}}})", nullptr,
                    "baseline itself"},
        InvalidCase{"measure_that_was_not_measured",
                    R"({"version": 1, "speed": {"energy_per_token": {"require": "better"}}})", nullptr,
                    "does not measure it"},
        InvalidCase{"nothing_measured_yet", kSpeedWithinTwo, [](SimulatedRun& run) { run.blocks_measured = 0; },
                    "no block"},
        InvalidCase{"half_of_it_measured", kSpeedWithinTwo, [](SimulatedRun& run) { run.blocks_measured = 1; },
                    "1 of 2 blocks"},
        InvalidCase{
            "validation_failed", kSpeedWithinTwo,
            [](SimulatedRun& run) { run.change_validations = [](auto& records) { records[0].prompts_equal -= 1; }; },
            "reproduced 23 of 24"},
        InvalidCase{
            "control_not_caught", kSpeedWithinTwo,
            [](SimulatedRun& run) { run.change_validations = [](auto& records) { records[1].prompts_equal = 1; }; },
            "was not caught"},
        InvalidCase{"no_controls_at_all", kSpeedWithinTwo,
                    [](SimulatedRun& run) { run.change_validations = [](auto& records) { records.resize(1); }; },
                    "0 positive controls"},
        InvalidCase{"too_few_texts",
                    R"({"version": 1, "validation": {"fewest_prompts": 64}, "memory": {"most_bytes": 1e12}})", nullptr,
                    "24 texts of 64"},
        InvalidCase{"memory_not_known", kMemory,
                    [](SimulatedRun& run) {
                      run.change_launch = [](LaunchRecord& launch) { launch.peak_memory_bytes.reset(); };
                    },
                    "not known"},
        InvalidCase{"launches_without_twins", R"({"version": 1, "launches": {"must_launch": ["gdn*"]}})", nullptr,
                    "no twin launch"},
        InvalidCase{"fidelity_without_a_file", R"({"version": 1, "fidelity": {"margins": {"kl64": 0.1}}})", nullptr,
                    "fidelity.json"},
        InvalidCase{"another_checkpoint", kSpeedWithinTwo,
                    [](SimulatedRun& run) {
                      // Another model for the arm, as its experiment says: so the rows alone are comparable.
                      run.patch = Json::parse(R"({"arms": [{"name": "before"}, {"name": "after", "model": "n"}]})");
                      run.change_launch = [](LaunchRecord& launch) {
                        if (launch.arm == "after") launch.checkpoint_digest = "other";
                      };
                    },
                    "checkpoint: other here, checkpoint in the baseline"}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(Gate, WithoutAnyCheckItIsInvalid) {
  EXPECT_EQ(reports::outcome_of(GateFindings{}), GateOutcome::kInvalid);
  EXPECT_EQ(reports::exit_code_of(GateFindings{}), 2);
}

TEST(Gate, MemoryHasItsLimits) {
  const auto outcome = [](std::int64_t after_bytes, const std::string& rule) {
    SimulatedRun run = two_arms(0);
    run.change_launch = [after_bytes](LaunchRecord& launch) {
      launch.peak_memory_bytes = launch.arm == "after" ? after_bytes : 100'000'000;
    };
    return reports::outcome_of(gate_of(run, R"({"version": 1, "memory": )" + rule + "}"));
  };
  EXPECT_EQ(outcome(100'900'000, R"({"most_increase_percent": 1})"), GateOutcome::kPass);
  EXPECT_EQ(outcome(101'100'000, R"({"most_increase_percent": 1})"), GateOutcome::kFail);
  EXPECT_EQ(outcome(100'900'000, R"({"most_bytes": 100000000})"), GateOutcome::kFail);
}

// ---- a stored baseline ----------------------------------------------------------------------------------------------

const char* const kStored =
    R"({"version": 1, "between_sittings_percent": 0.5, "speed": {"decode_speed": {"non_inferiority_margin_percent": 4}}})";

SimulatedRun sitting(double log_effect, std::uint64_t seed) {
  SimulatedRun run = two_arms(log_effect);
  run.clock.base_spread = 0;  // the same texts take the same time in both
  run.clock.drift = stats::DriftKind::kNone;
  run.seed = seed;
  return run;
}

TEST(StoredBaseline, TheSameSpeedPassesAndARegressionByTwoFires) {
  const GateFindings same = gate_against(sitting(0, 2), sitting(0, 1), kStored);
  EXPECT_EQ(reports::exit_code_of(same), 0) << worst(same).text;
  EXPECT_THAT(same.against, HasSubstr("arm before of kept"));
  const GateFindings half = gate_against(sitting(std::log(0.5), 2), sitting(0, 1), kStored);
  EXPECT_EQ(reports::exit_code_of(half), 1);
  // Both arms of the run are held against the kept one: the unchanged one passes.
  EXPECT_EQ(worst(half).name, "decode_speed of after");
}

TEST(StoredBaseline, TheSpreadBetweenSittingsWidensIt) {
  const auto low_percent = [](const char* between) {
    std::string policy = kStored;
    policy.replace(policy.find("0.5"), 3, between);
    for (const GateCheck& check : gate_against(sitting(0, 2), sitting(0, 1), policy).checks)
      if (check.section == "speed") return std::stod(check.numbers.at(1).second);
    return 0.0;
  };
  EXPECT_LT(low_percent("2.0"), low_percent("0.1") - 2);
}

struct RefusedCase {
  const char* name;
  std::function<void(SimulatedRun&)> change;  // of the run, not of the kept one
  const char* says;
  const char* word;  // in may_differ; empty: nothing lets it pass
};

class Refused : public testing::TestWithParam<RefusedCase> {};

TEST_P(Refused, UnlessToldOtherwise) {
  const auto base = [](std::uint64_t seed) {
    SimulatedRun run = sitting(0, seed);
    run.gpus = {"0000:01:00.0"};
    run.change_gpu = [](GpuFacts& gpu) {
      gpu.uuid = "GPU-1";
      gpu.driver_version = "580.1";
    };
    return run;
  };
  EXPECT_EQ(reports::exit_code_of(gate_against(base(2), base(1), kStored)), 0);
  SimulatedRun changed = base(2);
  GetParam().change(changed);
  const GateFindings refused = gate_against(changed, base(1), kStored);
  EXPECT_EQ(reports::exit_code_of(refused), 2);
  EXPECT_THAT(worst(refused).text, HasSubstr(GetParam().says));
  for (const GateCheck& check : refused.checks) EXPECT_NE(check.name, "decode_speed of after");  // no number is read
  if (std::string(GetParam().word).empty()) return;
  std::string told = kStored;
  told.insert(told.size() - 1, std::string(R"(, "may_differ": [")") + GetParam().word + R"("])");
  EXPECT_EQ(reports::exit_code_of(gate_against(changed, base(1), told)), 0);
}

INSTANTIATE_TEST_SUITE_P(Cases, Refused,
                         testing::Values(RefusedCase{"other_gpu",
                                                     [](SimulatedRun& run) {
                                                       run.change_gpu = [](GpuFacts& gpu) {
                                                         gpu.uuid = "GPU-2";
                                                         gpu.driver_version = "580.1";
                                                       };
                                                     },
                                                     "gpu: Simulated GPU (GPU-2) here", "gpu"},
                                         RefusedCase{"other_driver",
                                                     [](SimulatedRun& run) {
                                                       run.change_gpu = [](GpuFacts& gpu) {
                                                         gpu.uuid = "GPU-1";
                                                         gpu.driver_version = "581.0";
                                                       };
                                                     },
                                                     "driver: 581.0 here", "driver"},
                                         RefusedCase{"other_checkpoint",
                                                     [](SimulatedRun& run) {
                                                       run.change_launch = [](LaunchRecord& launch) {
                                                         launch.checkpoint_digest = "c2";
                                                       };
                                                     },
                                                     "checkpoint: c2 here", "checkpoint"},
                                         RefusedCase{"other_harness",
                                                     [](SimulatedRun& run) {
                                                       run.change_sitting = [](SittingRecord& sitting) {
                                                         sitting.harness_build = {{"commit", "d"}};
                                                       };
                                                     },
                                                     "harness:", "harness"},
                                         RefusedCase{"other_machine",
                                                     [](SimulatedRun& run) {
                                                       run.change_sitting = [](SittingRecord& sitting) {
                                                         sitting.machine["cpu_model"] = "Another CPU";
                                                       };
                                                     },
                                                     "machine: cpu_model Another CPU here", "machine"}),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(StoredBaseline, NeedsTheSameTextsAnArmThatIsThereAndASpread) {
  SimulatedRun other_texts = sitting(0, 2);
  other_texts.change_texts = [](std::vector<TextRecord>& texts) { texts[3].tokens[2] += 1; };
  EXPECT_THAT(worst(gate_against(other_texts, sitting(0, 1), kStored)).text, HasSubstr("text 3 ('p3') is another"));
  EXPECT_THAT(worst(gate_against(sitting(0, 2), sitting(0, 1), kStored, "nobody")).text, HasSubstr("no arm 'nobody'"));
  EXPECT_THAT(worst(gate_against(sitting(0, 2), sitting(0, 1), kSpeedWithinTwo)).text,
              HasSubstr("between_sittings_percent"));
  SimulatedRun empty = sitting(0, 1);
  empty.blocks_measured = 0;
  const GateFindings against_nothing = gate_against(sitting(0, 2), empty, kStored);
  EXPECT_EQ(reports::exit_code_of(against_nothing), 2);
  EXPECT_THAT(worst(against_nothing).name, HasSubstr("of the baseline"));
}

// ---- fidelity -------------------------------------------------------------------------------------------------------

// A fidelity.json with one arm beside the baseline, as tare fidelity writes it, as far as a gate reads it.
Json fidelity_of(double loss, double lower, double upper, std::int64_t windows = 22) {
  return {{"version", 1},
          {"baseline", "before"},
          {"arms", {{{"name", "before"}}, {{"name", "after"}}}},
          {"rows",
           {{{"arm", "after"},
             {"path", "decode"},
             {"nodes", 1},
             {"head", "own"},
             {"kind", "prose"},
             {"windows", windows},
             {"difference", {{"kl64", {{"mean", loss}, {"lower_bound", lower}, {"upper_bound", upper}}}}}}}}};
}

TEST(FidelityGate, TheBoundsAgainstTheMarginDecide) {
  const std::string policy = R"({"version": 1, "fidelity": {"kinds": ["prose"], "margins": {"kl64": 0.02}}})";
  const auto outcome = [&](const Json& fidelity) {
    return reports::outcome_of(gate_of(two_arms(0), policy, fidelity.dump()));
  };
  EXPECT_EQ(outcome(fidelity_of(0.015, 0.010, 0.019)), GateOutcome::kPass);
  EXPECT_EQ(outcome(fidelity_of(0.025, 0.021, 0.030)), GateOutcome::kFail);
  EXPECT_EQ(outcome(fidelity_of(0.018, 0.015, 0.025)), GateOutcome::kInconclusive);
  EXPECT_EQ(outcome(fidelity_of(0.015, 0.010, 0.019, 5)), GateOutcome::kInconclusive);
  // Nothing scored, another path only, another version: none of them is a pass.
  Json nothing = fidelity_of(0.015, 0.010, 0.019);
  nothing["rows"] = Json::array();
  EXPECT_EQ(outcome(nothing), GateOutcome::kInvalid);
  Json other_path = fidelity_of(0.015, 0.010, 0.019);
  other_path["rows"][0]["path"] = "prefill";
  EXPECT_EQ(outcome(other_path), GateOutcome::kInvalid);
  Json other_version = fidelity_of(0.015, 0.010, 0.019);
  other_version["version"] = 2;
  EXPECT_EQ(outcome(other_version), GateOutcome::kInvalid);
}

// ---- the policy file and verdict.json -------------------------------------------------------------------------------

struct PolicyFault {
  const char* name;
  const char* text;
  const char* says;
};

class PolicyFaults : public testing::TestWithParam<PolicyFault> {};

TEST_P(PolicyFaults, AreNamed) {
  try {
    (void)policy_of(GetParam().text);
    FAIL() << "was read";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    EXPECT_THAT(error.what(), HasSubstr(GetParam().says));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Cases, PolicyFaults,
    testing::Values(
        PolicyFault{"no_version", R"({"speed": {"decode_speed": {"require": "better"}}})", "version"},
        PolicyFault{"version_to_come", R"({"version": 2, "memory": {"most_bytes": 1}})", "version"},
        PolicyFault{"asks_nothing", R"({"version": 1})", "asks nothing"},
        PolicyFault{"no_measure", R"({"version": 1, "speed": {}})", "names no measure"},
        PolicyFault{"unknown_measure", R"({"version": 1, "speed": {"decode_sped": {"require": "better"}}})",
                    "decode_sped"},
        PolicyFault{"no_margin", R"({"version": 1, "speed": {"decode_speed": {}}})", "non_inferiority_margin_percent"},
        PolicyFault{"wide_equivalence",
                    R"({"version": 1, "speed": {"decode_speed": {"non_inferiority_margin_percent": 1,
                        "equivalence_margin_percent": 2}}})",
                    "wider"},
        PolicyFault{"unknown_key", R"({"version": 1, "memory": {"most_byte": 1}})", "most_byte"},
        PolicyFault{"empty_memory", R"({"version": 1, "memory": {}})", "asks nothing"},
        PolicyFault{"empty_launches", R"({"version": 1, "launches": {}})", "asks nothing"},
        PolicyFault{"bad_pattern", R"({"version": 1, "launches": {"must_launch": ["a*b"]}})", "must_launch"},
        PolicyFault{"no_margins", R"({"version": 1, "fidelity": {"margins": {}}})", "margins"},
        PolicyFault{"no_such_metric", R"({"version": 1, "fidelity": {"margins": {"kl65": 1}}})", "kl65"},
        PolicyFault{"unknown_difference", R"({"version": 1, "memory": {"most_bytes": 1}, "may_differ": ["gpus"]})",
                    "gpus"}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(Policy, TheDocumentedExampleIsReadAndFitsItsSchema) {
  const std::string page = read_text_file(std::filesystem::path(TARE_SOURCE_DIR) / "docs" / "protocol" / "policy.md");
  const std::size_t begin = page.find("```\n{") + 4;
  const std::string example = page.substr(begin, page.find("```", begin) - begin);
  const GatePolicy policy = policy_of(example);
  EXPECT_EQ(policy.speed.size(), 2U);
  EXPECT_TRUE(policy.fidelity && policy.launches && policy.memory);
  const SchemaCheck schema("policy.schema.json");
  EXPECT_EQ(schema.faults(parse_json(example, "example", JsonComments::kAllowed)), "");
  EXPECT_NE(schema.faults(Json::parse(R"({"version": 1, "sped": {}})")), "");
}

TEST(VerdictFile, TheGateInItFitsTheSchema) {
  const FreshFolder fresh;
  (void)write_simulated_ledger(two_arms(0), fresh.path());
  const Ledger ledger = Ledger::open_for_reading(fresh.path() / kLedgerFile);
  Json verdict = verdict_json(analyse(ledger));
  verdict["gate"] = to_json(judge_gate(ledger, policy_of(kSpeedWithinTwo), "policy.json", fresh.path()));
  const SchemaCheck schema("verdict.schema.json");
  EXPECT_EQ(schema.faults(verdict), "");
  EXPECT_EQ(verdict["gate"]["outcome"], "pass");
  EXPECT_EQ(verdict["gate"]["exit_code"], 0);
  verdict["gate"]["outcome"] = "passed";
  EXPECT_NE(schema.faults(verdict), "");
}

}  // namespace
}  // namespace tare::harness
