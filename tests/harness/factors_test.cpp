#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/experiment/experiment.h"
#include "harness/experiment/plan.h"
#include "tests/harness/experiment_texts.h"
#include "tests/harness/schema_check.h"

namespace tare::harness {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

// Three weight formats, two numbers of threads.
Json matrix(const Json& design) {
  Json json = small_experiment();
  json.erase("arms");
  json["options"] = {{"context", 512}};
  json["factors"] = Json::parse(R"({
    "weights": [{"name": "q8", "options": {"weights": {"format": "q8"}}},
                {"name": "q5", "options": {"weights": {"format": "q5"}}},
                {"name": "q4", "options": {"weights": {"format": "q4"}}}],
    "threads": [{"name": "1t", "options": {"cpu": {"threads": 1}}},
                {"name": "2t", "options": {"cpu": {"threads": 2}}}]})");
  json["design"] = design;
  json["schedule"] = {{"granularity", "prompt"}, {"blocks", 5}};
  return json;
}

Experiment parse(const Json& json) {
  return parse_experiment(json.dump(), "exp.json");
}

std::vector<std::string> names(const Experiment& experiment) {
  std::vector<std::string> result;
  for (const Arm& arm : experiment.arms) result.push_back(arm.name);
  return result;
}

std::string fault_of(const Json& json) {
  try {
    (void)parse(json);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    return std::string(error.what()) + " | " + error.parts().hint;
  }
  return "no error";
}

TEST(Factors, AFullDesignIsEveryCombinationTheFirstLevelsFirst) {
  const Experiment experiment = parse(matrix({{"kind", "full"}}));
  EXPECT_THAT(names(experiment), ElementsAre("q8_1t", "q8_2t", "q5_1t", "q5_2t", "q4_1t", "q4_2t"));
  EXPECT_EQ(experiment.arms[5].options.dump(), R"({"context":512,"weights":{"format":"q4"},"cpu":{"threads":2}})");
  EXPECT_THAT(experiment.arms[5].levels, ElementsAre(2, 1));
}

TEST(Factors, OneAtATimeLeavesTheOthersAtTheBaseline) {
  const Experiment experiment = parse(matrix({{"kind", "one_at_a_time"}}));
  EXPECT_THAT(names(experiment), ElementsAre("baseline", "weights_q5", "weights_q4", "threads_2t"));
  EXPECT_THAT(experiment.arms[3].levels, ElementsAre(0, 1));
}

TEST(Factors, AListedDesignTakesFirstLevelsWhereNoneIsNamed) {
  const Experiment experiment = parse(
      matrix({{"kind", "listed"},
              {"combinations", {{{"threads", "2t"}}, {{"weights", "q4"}}, {{"weights", "q5"}, {"threads", "2t"}}}}}));
  EXPECT_THAT(names(experiment), ElementsAre("q8_2t", "q4_1t", "q5_2t"));
}

TEST(Factors, ExclusionsMatchInPart) {
  const Experiment experiment =
      parse(matrix({{"kind", "full"},
                    {"exclude", {{{"weights", "q5"}, {"threads", "2t"}}, {{"weights", "q4"}, {"threads", "1t"}}}}}));
  EXPECT_THAT(names(experiment), ElementsAre("q8_1t", "q8_2t", "q5_1t", "q4_2t"));
}

// The ledger and the report have the levels, and the normalised form is the same experiment again.
TEST(Factors, TheNormalisedFormHasArmsWithTheirLevels) {
  const SchemaCheck schema("experiment.schema.json");
  for (const Json& design :
       {Json{{"kind", "full"}, {"exclude", {{{"weights", "q4"}, {"threads", "2t"}}}}}, Json{{"kind", "one_at_a_time"}},
        Json{{"kind", "listed"},
             {"combinations", {{{"weights", "q8"}}, {{"weights", "q5"}}, {{"weights", "q4"}, {"threads", "2t"}}}}}}) {
    EXPECT_EQ(schema.faults(matrix(design)), "");
    const Experiment experiment = parse(matrix(design));
    const Json normalised = to_json(experiment);
    EXPECT_EQ(schema.faults(normalised), "");
    EXPECT_EQ(normalised["arms"][1]["levels"].size(), 2U);
    const Experiment again = parse(normalised);
    EXPECT_EQ(to_json(again).dump(), normalised.dump());
    EXPECT_EQ(again.arms.back().levels, experiment.arms.back().levels);
    EXPECT_EQ(experiment_digest(again), experiment_digest(experiment));
  }
  EXPECT_FALSE(to_json(parse(small_experiment())).contains("factors"));
}

// Two builds are a factor too: arms with programs say which level they are.
TEST(Factors, ArmsMayBeWrittenOutWithTheirLevels) {
  Json json = small_experiment();
  json["factors"] = Json::parse(R"({"build": [{"name": "old"}, {"name": "new"}]})");
  json["arms"] = Json::parse(R"([{"name": "a", "levels": {"build": "old"}},
                                 {"name": "b", "levels": {"build": "new"}, "program": "./other"}])");
  EXPECT_EQ(SchemaCheck("experiment.schema.json").faults(json), "");
  const Experiment experiment = parse(json);
  EXPECT_THAT(experiment.arms[1].levels, ElementsAre(1));
  EXPECT_EQ(experiment.matrix.design, DesignKind::kListed);
  EXPECT_EQ(to_json(parse(to_json(experiment))).dump(), to_json(experiment).dump());
  json["arms"][1].erase("levels");
  EXPECT_THAT(fault_of(json), HasSubstr("arms[1].levels"));
  json["arms"][1]["levels"] = {{"build", "old"}};
  EXPECT_THAT(fault_of(json), HasSubstr("are those of arm 'a' too"));
}

TEST(Factors, NameWhatIsWrong) {
  const auto listed = [](const Json& combinations) {
    return matrix({{"kind", "listed"}, {"combinations", combinations}});
  };
  const auto excluding = [](const Json& exclude) { return matrix({{"kind", "full"}, {"exclude", exclude}}); };
  EXPECT_THAT(fault_of(listed({{{"wieghts", "q4"}}})),
              AllOf(HasSubstr("design.combinations[0]"), HasSubstr("'wieghts' is not a factor"), HasSubstr("weights")));
  EXPECT_THAT(fault_of(listed({{{"weights", "q9"}}})), HasSubstr("'q9' is not a level of 'weights'"));
  EXPECT_THAT(fault_of(listed({{{"weights", "q8"}}, {{"threads", "1t"}}})), HasSubstr("is listed twice"));
  EXPECT_THAT(fault_of(listed({{{"weights", "q8"}}})), HasSubstr("nothing to compare"));
  EXPECT_THAT(fault_of(excluding({{{"threads", "1t"}}})),
              HasSubstr("takes the baseline away (weights q8, threads 1t)"));
  EXPECT_THAT(fault_of(excluding({{{"weights", "q5"}}})), HasSubstr("no arm has level 'q5'"));
  EXPECT_THAT(fault_of(excluding(Json::array({Json::object()}))), HasSubstr("names no level"));
  EXPECT_THAT(fault_of(matrix({{"kind", "one_at_a_time"}, {"exclude", {{{"weights", "q5"}, {"threads", "2t"}}}}})),
              HasSubstr("matches no combination"));
  Json many = matrix({{"kind", "full"}});
  for (int context = 1; context <= 3; ++context)
    many["factors"]["context"].push_back(
        {{"name", std::to_string(context)}, {"options", {{"context", 512 * context}}}});
  EXPECT_THAT(fault_of(many), HasSubstr("makes 18 arms, at most 16"));
  Json equal = matrix({{"kind", "full"}});
  equal["factors"]["weights"][1]["options"] = equal["factors"]["weights"][0]["options"];
  EXPECT_THAT(fault_of(equal), HasSubstr("arms 'q8_1t' and 'q5_1t' have the same options"));
  Json shared = matrix({{"kind", "full"}});
  shared["factors"]["threads"][1]["options"] = {{"weights", {{"format", "q3"}}}};
  EXPECT_THAT(fault_of(shared), HasSubstr("'weights' and 'threads' both set weights.format"));
  Json twice = matrix({{"kind", "full"}});
  twice["factors"]["weights"][2]["name"] = "q8";
  EXPECT_THAT(fault_of(twice), HasSubstr("'q8' is the name of another level too"));
}

TEST(StopRules, AreReadAndChecked) {
  Json json = small_experiment();
  EXPECT_FALSE(to_json(parse(json))["schedule"].contains("stop"));
  json["schedule"] = {
      {"granularity", "run"}, {"blocks", 6}, {"stop", {{"rule", "precision"}, {"half_width_percent", 0.2}}}};
  EXPECT_EQ(parse(json).schedule.stop.half_width_percent, 0.2);
  EXPECT_EQ(to_json(parse(to_json(parse(json)))).dump(), to_json(parse(json)).dump());
  json["schedule"]["blocks"] = 1;
  EXPECT_THAT(fault_of(json), AllOf(HasSubstr("schedule.blocks"), HasSubstr("at least 2")));
  json["schedule"]["granularity"] = "prompt";
  json["schedule"]["blocks"] = 4;
  EXPECT_THAT(fault_of(json), HasSubstr("at least 5"));
  json["schedule"]["stop"] = {{"rule", "time"}, {"budget_s", 90}};
  EXPECT_EQ(parse(json).schedule.stop.budget_s, 90);
}

// One palindrome does not tell a curve from the arms.
TEST(StopRules, ManyArmsByRunNeedTwoBlocks) {
  Json json = matrix({{"kind", "full"}});
  json["schedule"] = {{"granularity", "run"}, {"blocks", 1}};
  EXPECT_THAT(fault_of(json), AllOf(HasSubstr("schedule.blocks"), HasSubstr("at least 2 for 6 arms")));
  json["schedule"]["blocks"] = 2;
  EXPECT_EQ(plan(parse(json)).run_count(), 24U);
}

}  // namespace
}  // namespace tare::harness
