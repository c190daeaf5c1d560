#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "base/file.h"
#include "engine/backend/option_description.h"
#include "engine/backend/options.h"
#include "harness/experiment/experiment.h"
#include "tests/harness/experiment_texts.h"
#include "tests/harness/schema_check.h"

namespace tare::harness {
namespace {

Json without_comments(const std::string& text) {
  return parse_json(text, "text", JsonComments::kAllowed);
}

TEST(ExperimentSchema, AcceptsTheExampleAndTheReadyMadeExperiments) {
  const SchemaCheck schema("experiment.schema.json");
  EXPECT_EQ(schema.faults(without_comments(example_experiment())), "");
  std::size_t files = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::filesystem::path(TARE_SOURCE_DIR) / "experiments")) {
    if (entry.path().extension() != ".json") continue;
    ++files;
    EXPECT_EQ(schema.faults(without_comments(read_text_file(entry.path()))), "") << entry.path();
    EXPECT_NO_THROW((void)read_experiment(entry.path())) << entry.path();
  }
  EXPECT_GE(files, 1U);
}

TEST(ExperimentSchema, AcceptsTheNormalisedForm) {
  const SchemaCheck schema("experiment.schema.json");
  EXPECT_EQ(schema.faults(to_json(parse_experiment(example_experiment(), "exp.json"))), "");
}

TEST(ExperimentSchema, AcceptsGivenTextsWithoutPrompts) {
  Json json = small_experiment();
  json.erase("prompts");
  json["texts"] = {{"mode", "given"}, {"file", "t.jsonl"}};
  EXPECT_EQ(SchemaCheck("experiment.schema.json").faults(json), "");
}

TEST(ExperimentSchema, RefusesWhatTheParserRefuses) {
  const SchemaCheck schema("experiment.schema.json");
  ASSERT_EQ(schema.faults(small_experiment()), "");
  for (const BrokenExperiment& broken : broken_experiments())
    EXPECT_NE(schema.faults(broken.json), "") << broken.why << ": " << broken.json.dump();
}

TEST(ExperimentSchema, LeavesOptionsOfOtherProgramsFree) {
  const SchemaCheck schema("experiment.schema.json");
  Json json = small_experiment();
  json["arms"][1] = {{"name", "other"}, {"program", "./engine"}, {"options", {{"beams", 4}}}};
  EXPECT_EQ(schema.faults(json), "");
  json["arms"][1].erase("program");
  EXPECT_NE(schema.faults(json), "");
}

// Leaves of the schema's options, as "group.key".
std::set<std::string> paths_of(const nlohmann::json& properties) {
  std::set<std::string> paths;
  for (const auto& [key, value] : properties.items()) {
    if (!value.contains("properties")) {
      paths.insert(key);
      continue;
    }
    for (const auto& [inner, leaf] : value["properties"].items()) paths.insert(key + "." + inner);
  }
  return paths;
}

TEST(ExperimentSchema, HasEveryEngineOptionAndItsWords) {
  const SchemaCheck schema("experiment.schema.json");
  const nlohmann::json& options = schema.json()["definitions"]["options"]["properties"];
  std::set<std::string> described;
  for (const engine::OptionDescription& option : engine::describe_options()) {
    described.insert(option.path);
    if (option.type != "word") continue;
    const std::size_t dot = option.path.find('.');
    const nlohmann::json& leaf =
        dot == std::string::npos
            ? options.at(option.path)
            : options.at(option.path.substr(0, dot)).at("properties").at(option.path.substr(dot + 1));
    nlohmann::json words = leaf.at("enum");
    std::erase_if(words.get_ref<nlohmann::json::array_t&>(), [](const auto& word) { return word.is_null(); });
    EXPECT_EQ(words, nlohmann::json(option.words)) << option.path;
  }
  EXPECT_EQ(paths_of(options), described);
}

TEST(ExperimentSchema, HasEveryMeasure) {
  const SchemaCheck schema("experiment.schema.json");
  EXPECT_EQ(schema.json()["properties"]["measures"]["items"]["enum"], nlohmann::json(measure_names()));
}

// Keys of the schema as the page writes them: "schedule.blocks", "arms[].name".
void collect_keys(const nlohmann::json& schema, const nlohmann::json& properties, const std::string& prefix,
                  std::set<std::string>& keys) {
  for (const auto& [key, value] : properties.items()) {
    const std::string path = prefix + key;
    nlohmann::json inner = value;
    if (key == "arms") inner = schema["definitions"]["arm"];
    if (inner.contains("oneOf")) {
      for (const auto& form : inner["oneOf"]) collect_keys(schema, form["properties"], path + ".", keys);
    } else if (inner.contains("properties")) {
      collect_keys(schema, inner["properties"], path + (key == "arms" ? "[]." : "."), keys);
    } else {
      keys.insert(path);
    }
  }
}

TEST(ExperimentPage, HasEveryKeyOfTheSchemaAndAnExampleThatParses) {
  const SchemaCheck schema("experiment.schema.json");
  const std::string page = read_text_file(std::filesystem::path(TARE_SOURCE_DIR) / "docs/protocol/experiment.md");
  std::set<std::string> keys;
  collect_keys(schema.json(), schema.json()["properties"], "", keys);
  EXPECT_GE(keys.size(), 25U);
  for (const std::string& key : keys) EXPECT_THAT(page, testing::HasSubstr("| `" + key + "` |"));
  const std::size_t begin = page.find("```\n") + 4;
  const std::string example = page.substr(begin, page.find("```", begin) - begin);
  EXPECT_NO_THROW((void)parse_experiment(example, "example.json"));
}

}  // namespace
}  // namespace tare::harness
