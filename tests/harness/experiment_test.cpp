#include "harness/experiment/experiment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "harness/experiment/plan.h"
#include "tests/harness/experiment_texts.h"

namespace tare::harness {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

std::string fault_of(const Json& json) {
  try {
    (void)parse_experiment(json.dump(), "folder/exp.json");
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    return std::string(error.what()) + " | " + error.parts().hint;
  }
  return "no error";
}

Experiment parse(const Json& json) {
  return parse_experiment(json.dump(), "folder/exp.json");
}

TEST(Experiment, ReadsEveryField) {
  Json json = small_experiment();
  json["description"] = "why";
  json["prompts"] = {{"file", "p.jsonl"}, {"limit", 3}, {"ids", {7, "x8"}}, {"categories", {"code"}}};
  json["texts"] = {{"mode", "sampled"}, {"temperature", 0.5}, {"seed", 9}, {"max_tokens", 40}};
  json["schedule"] = {{"granularity", "prompt"}, {"blocks", 6}, {"seed", 5}, {"warmup", false}};
  json["measures"] = {"peak_memory", "decode_speed"};
  json["analysis"] = {{"alpha", 0.01}, {"equivalence_margin_percent", 0.5}, {"non_inferiority_margin_percent", 1}};
  json["pinning"] = {{"cores", {1, 0}}};
  json["environment"] = {{"sampler_hz", 2.5}};
  json["arms"][1]["sampler_hz"] = 0;
  json["profile"] = {{"prompts", 5}};
  json["limits"] = {{"worker_start_s", 7}, {"prompt_s", 8}};
  const Experiment experiment = parse(json);
  EXPECT_EQ(experiment.name, "small");
  EXPECT_EQ(experiment.description, "why");
  EXPECT_THAT(experiment.prompts.ids, ElementsAre("7", "x8"));
  EXPECT_EQ(experiment.prompts.limit, 3);
  EXPECT_EQ(experiment.texts.temperature, 0.5);
  EXPECT_EQ(experiment.texts.seed, 9U);
  EXPECT_EQ(experiment.texts.max_tokens, 40);
  EXPECT_EQ(experiment.schedule.granularity, Granularity::kPrompt);
  EXPECT_EQ(experiment.schedule.blocks, 6);
  EXPECT_EQ(experiment.schedule.seed, 5U);
  EXPECT_FALSE(experiment.schedule.warmup);
  EXPECT_THAT(experiment.measures, ElementsAre(Measure::kDecodeSpeed, Measure::kPeakMemory));
  EXPECT_EQ(experiment.analysis.alpha, 0.01);
  EXPECT_EQ(experiment.analysis.equivalence_margin_percent, 0.5);
  EXPECT_EQ(experiment.analysis.non_inferiority_margin_percent, 1);
  EXPECT_THAT(experiment.pinned_cores, ElementsAre(1, 0));
  EXPECT_EQ(experiment.limits.worker_start_s, 7);
  EXPECT_EQ(experiment.limits.prompt_s, 8);
  EXPECT_EQ(experiment.profile.prompts, 5);
  EXPECT_EQ(sampler_hz(experiment, experiment.arms[0]), 2.5);
  EXPECT_EQ(sampler_hz(experiment, experiment.arms[1]), 0);
  EXPECT_EQ(to_json(parse(to_json(experiment))).dump(), to_json(experiment).dump());
}

// A directory that was measured before there was a sampler stays the same experiment.
TEST(Experiment, TheSamplersDefaultIsNotInTheNormalisedForm) {
  const Experiment plain = parse(small_experiment());
  EXPECT_EQ(sampler_hz(plain, plain.arms[0]), kDefaultSamplerHz);
  EXPECT_FALSE(to_json(plain).contains("environment"));
  Json json = small_experiment();
  json["environment"] = {{"sampler_hz", kDefaultSamplerHz}};
  EXPECT_EQ(experiment_digest(parse(json)), experiment_digest(plain));
  json["environment"] = {{"sampler_hz", 0}};
  EXPECT_NE(experiment_digest(parse(json)), experiment_digest(plain));
}

TEST(Experiment, ProfilesAreInTheNormalisedFormOnlyWhereTheyAreAskedFor) {
  const Experiment plain = parse(small_experiment());
  EXPECT_EQ(plain.profile.prompts, 0);
  EXPECT_FALSE(to_json(plain).contains("profile"));
  Json json = small_experiment();
  json["profile"] = {{"prompts", 0}};
  EXPECT_EQ(experiment_digest(parse(json)), experiment_digest(plain));
  json["profile"] = {{"prompts", 2}};
  EXPECT_NE(experiment_digest(parse(json)), experiment_digest(plain));
  json["profile"] = {{"rounds", 2}};
  EXPECT_THAT(fault_of(json), HasSubstr("profile.rounds"));
}

TEST(Experiment, GivenTextsBringTheirPrompts) {
  Json json = small_experiment();
  json["texts"] = {{"mode", "given"}, {"file", "t.jsonl"}};
  EXPECT_THAT(fault_of(json), HasSubstr("prompts: has no meaning with given texts"));
  json.erase("prompts");
  const Experiment experiment = parse(json);
  EXPECT_EQ(experiment.texts.file, "t.jsonl");
  EXPECT_EQ(to_json(parse(to_json(experiment))).dump(), to_json(experiment).dump());
  json["texts"] = {{"mode", "greedy"}};
  EXPECT_THAT(fault_of(json), HasSubstr("prompts: is missing"));
}

TEST(Experiment, WarmUpAndAllMeasuresButEnergyAreTheDefault) {
  const Experiment experiment = parse(small_experiment());
  EXPECT_TRUE(experiment.schedule.warmup);
  EXPECT_THAT(experiment.measures, ElementsAre(Measure::kDecodeSpeed, Measure::kTimeToFirstToken,
                                               Measure::kPrefillSpeed, Measure::kPeakMemory));
  EXPECT_EQ(experiment.analysis.alpha, 0.05);
  EXPECT_FALSE(experiment.analysis.equivalence_margin_percent);
}

TEST(Experiment, ArmOptionsAreLaidOverTheCommonOnes) {
  Json json = small_experiment();
  json["options"] = {{"cpu", {{"threads", 2}}}, {"weights", {{"format", "q8"}}}};
  json["arms"][1]["options"] = {{"weights", {{"format", "q4"}}}, {"cpu", {{"threads", nullptr}}}};
  const Experiment experiment = parse(json);
  EXPECT_EQ(experiment.arms[0].options, Json::parse(R"({"cpu": {"threads": 2}, "weights": {"format": "q8"}})"));
  EXPECT_EQ(experiment.arms[1].options, Json::parse(R"({"cpu": {}, "weights": {"format": "q4"}})"));
}

TEST(Experiment, OptionsOfAnotherProgramAreLeftToThatProgram) {
  Json json = small_experiment();
  json["arms"][1] = {{"name", "other"}, {"program", {"./engine", "--fast"}}, {"options", {{"beams", 4}}}};
  const Experiment experiment = parse(json);
  EXPECT_EQ(experiment.arms[1].options["beams"], 4);
  EXPECT_THAT(experiment.arms[1].program, ElementsAre("./engine", "--fast"));
}

TEST(Experiment, MisspeltKeyIsRefusedWithTheNearestName) {
  Json json = small_experiment();
  json["schedule"]["block"] = 3;
  EXPECT_THAT(fault_of(json), AllOf(StartsWith("folder/exp.json: schedule.block: unknown key"), HasSubstr("'blocks'")));
}

TEST(Experiment, MisspeltOptionNamesTheArm) {
  Json json = small_experiment();
  json["arms"][1]["options"] = {{"weights", {{"fromat", "q4"}}}};
  EXPECT_THAT(fault_of(json),
              AllOf(StartsWith("folder/exp.json: arms[1].options.weights.fromat: unknown key"), HasSubstr("'format'")));
}

TEST(Experiment, FaultyFieldsAreNamed) {
  for (const BrokenExperiment& broken : broken_experiments())
    EXPECT_THAT(fault_of(broken.json), StartsWith("folder/exp.json: " + broken.place)) << broken.why;
}

TEST(Experiment, TwoArmsOfOneNameAreRefused) {
  Json json = small_experiment();
  json["arms"][1]["name"] = json["arms"][0]["name"];
  EXPECT_THAT(fault_of(json), HasSubstr("arms[1].name: 'a' is the name of another arm too"));
}

TEST(Experiment, SyntaxFaultHasLineAndColumn) {
  try {
    (void)parse_experiment("{\n  \"name\": }\n", "exp.json");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("exp.json:2:"));
  }
}

TEST(Experiment, NormalisedFormReadsBackToTheSame) {
  for (const std::string& text : {example_experiment(), small_experiment().dump()}) {
    const Experiment experiment = parse_experiment(text, "exp.json");
    const Json normalised = to_json(experiment);
    EXPECT_EQ(to_json(parse_experiment(normalised.dump(), "exp.json")), normalised);
  }
}

TEST(Experiment, DigestIgnoresNamesAndLimitsAndKeyOrder) {
  const std::string digest = experiment_digest(parse(small_experiment()));
  Json renamed = small_experiment();
  renamed["name"] = "other";
  renamed["description"] = "other";
  renamed["limits"] = {{"prompt_s", 1}};
  EXPECT_EQ(experiment_digest(parse(renamed)), digest);
  Json reordered = Json::object();
  const Json original = small_experiment();
  for (auto entry = original.rbegin(); entry != original.rend(); ++entry) reordered[entry.key()] = entry.value();
  EXPECT_EQ(experiment_digest(parse(reordered)), digest);
}

TEST(Experiment, DigestSeesWhatIsMeasured) {
  const std::string digest = experiment_digest(parse(small_experiment()));
  for (const char* patch : {R"({"texts": {"mode": "greedy"}})", R"({"model": "n"})", R"({"analysis": {"alpha": 0.01}})",
                            R"({"schedule": {"seed": 2}})", R"({"options": {"cpu": {"threads": 1}}})"}) {
    Json json = small_experiment();
    json.merge_patch(Json::parse(patch));
    EXPECT_NE(experiment_digest(parse(json)), digest) << patch;
  }
}

TEST(Experiment, PathsStartAtTheExperimentsFolder) {
  Json json = small_experiment();
  json["arms"][1] = {{"name", "b"}, {"program", "worker.py"}};
  const Experiment experiment = parse(json);
  EXPECT_EQ(resolve(experiment, "../m"), "m");
  EXPECT_EQ(resolve(experiment, "/m"), "/m");
  EXPECT_EQ(resolve(experiment, "synthetic:27b?seed=1"), "synthetic:27b?seed=1");
  EXPECT_THAT(resolve_program(experiment, experiment.arms[1]), ElementsAre("worker.py"));
  EXPECT_TRUE(resolve_program(experiment, experiment.arms[0]).empty());
}

TEST(Experiment, MissingFilesAndProgramsAreNamedByKey) {
  const std::filesystem::path folder = testing::TempDir() + "/experiment_paths";
  std::filesystem::create_directories(folder / "model");
  std::ofstream(folder / "prompts.jsonl") << "{}";
  std::ofstream(folder / "data.txt") << "no program";
  Json json = small_experiment();
  json["model"] = "model";
  json["prompts"]["file"] = "prompts.jsonl";
  const auto fault = [&](const char* patch) -> std::string {
    Json patched = json;
    patched.merge_patch(Json::parse(patch));
    try {
      check_paths(parse_experiment(patched.dump(), folder / "exp.json"));
    } catch (const Error& error) {
      EXPECT_EQ(exit_code(error.kind()), 2);
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(fault("{}"), "");
  EXPECT_THAT(fault(R"({"model": "gone"})"), HasSubstr("exp.json: model: there is no checkpoint folder"));
  EXPECT_THAT(fault(R"({"prompts": {"file": "gone"}})"), HasSubstr("prompts.file: there is no file"));
  EXPECT_THAT(fault(R"({"prompts": null, "texts": {"mode": "given", "file": "gone"}})"),
              HasSubstr("texts.file: there is no file"));
  const auto with_program = [&](const char* program) {
    return fault((R"({"arms": [{"name": "a"}, {"name": "b", "program": ")" + std::string(program) + "\"}]}").c_str());
  };
  EXPECT_THAT(with_program("./gone"), HasSubstr("arms[1].program: there is no program"));
  EXPECT_THAT(with_program("./data.txt"), HasSubstr("cannot be executed"));
  EXPECT_THAT(with_program("no-such-program-anywhere"), HasSubstr("in PATH"));
  EXPECT_EQ(with_program("sh"), "");
  EXPECT_EQ(with_program("/bin/sh"), "");
}

TEST(Plan, RunGranularityLaunchesEverySlotAndOneWarmUp) {
  Json json = small_experiment();
  json["schedule"] = {{"granularity", "run"}, {"blocks", 2}, {"seed", 3}};
  const Plan planned = plan(parse(json));
  EXPECT_EQ(planned.run_count(), 16U);
  EXPECT_EQ(planned.warmup_count(), 1U);
  EXPECT_EQ(planned.launch_count(), 17U);
  ASSERT_EQ(planned.blocks.size(), 2U);
  const std::string first = planned.blocks[0].order;
  EXPECT_TRUE(first == "ABBABAAB" || first == "BAABABBA") << first;
  EXPECT_EQ(planned.blocks[1].order, first == "ABBABAAB" ? "BAABABBA" : "ABBABAAB");
  EXPECT_EQ(planned.blocks[0].warmups.front().arm, planned.blocks[0].runs.front().arm);
}

TEST(Plan, PromptGranularityLaunchesEachArmOncePerBlockAndWarmsEachUp) {
  Json json = small_experiment();
  json["arms"].push_back({{"name", "c"}});
  json["schedule"] = {{"granularity", "prompt"}, {"blocks", 5}, {"seed", 3}};
  const Experiment experiment = parse(json);
  const Plan planned = plan(experiment);
  EXPECT_EQ(planned.run_count(), 15U);
  EXPECT_EQ(planned.warmup_count(), 15U);
  EXPECT_EQ(planned.launch_count(), 15U);
  EXPECT_NE(planned.blocks[0].order, planned.blocks[1].order);
  for (std::size_t prompt = 0; prompt < 6; ++prompt) {
    std::vector<std::size_t> order = arm_order(experiment, 0, prompt);
    std::sort(order.begin(), order.end());
    EXPECT_THAT(order, ElementsAre(0, 1, 2));
  }
}

TEST(Plan, WithoutWarmUpThereIsNone) {
  Json json = small_experiment();
  json["schedule"]["warmup"] = false;
  EXPECT_EQ(plan(parse(json)).warmup_count(), 0U);
}

TEST(Plan, EstimateAddsRunsWarmUpsAndLaunches) {
  Json json = small_experiment();
  json["schedule"] = {{"granularity", "run"}, {"blocks", 1}};
  const UnitCost cost{
      .run_seconds = 10, .launch_seconds = 1, .warmup_share = 1, .prompts = 64, .tokens_per_prompt = 100};
  const PlanEstimate result = estimate(plan(parse(json)), cost);
  EXPECT_DOUBLE_EQ(result.seconds, 9 * 10 + 9 * 1);
  EXPECT_GT(result.ledger_bytes, 9U * 64 * 100 * 4);
  EXPECT_LT(result.ledger_bytes, 9U * 64 * 100 * 20);
}

TEST(Plan, ABlockWalksEveryTextInEveryRunAndWarmUp) {
  Json json = small_experiment();
  json["schedule"] = {{"granularity", "prompt"}, {"blocks", 5}, {"seed", 3}};
  const PlannedBlock resident = plan(parse(json)).blocks.front();
  EXPECT_EQ(text_walks(resident, Granularity::kPrompt, 3, true), 2U * 3 + 2 * 3);
  EXPECT_EQ(text_walks(resident, Granularity::kPrompt, 20, true), 2U * 20 + 2 * 8);
  EXPECT_EQ(text_walks(resident, Granularity::kPrompt, 20, false), 2U * 20);
  json["schedule"]["granularity"] = "run";
  EXPECT_EQ(text_walks(plan(parse(json)).blocks.front(), Granularity::kRun, 20, true), 8U * 20 + 20);
}

// A resident worker warms up on eight texts, a launch of its own on all of them.
TEST(Plan, AWarmUpTakesItsShareOfARun) {
  EXPECT_EQ(warmup_share(Granularity::kRun, 64), 1);
  EXPECT_EQ(warmup_share(Granularity::kPrompt, 64), 8.0 / 64);
  EXPECT_EQ(warmup_share(Granularity::kPrompt, 4), 1);
}

}  // namespace
}  // namespace tare::harness
