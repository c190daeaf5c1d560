#include <fmt/format.h>
#include <gmock/gmock.h>
#include <signal.h>

#include <fstream>
#include <map>

#include "harness/ledger/ledger.h"
#include "tests/e2e/workspace.h"

namespace tare::e2e {
namespace {

using testing::HasSubstr;
using namespace std::chrono_literals;

using RunCommand = Workspace;

harness::Ledger ledger_of(const std::filesystem::path& folder) {
  return harness::Ledger::open_for_reading(folder / "out" / harness::kLedgerFile);
}

// Finished runs that count, by (block, slot).
std::map<std::pair<std::int64_t, std::int64_t>, int> finished(const harness::Ledger& ledger) {
  std::map<std::pair<std::int64_t, std::int64_t>, int> counts;
  for (const harness::RunRecord& run : ledger.runs())
    if (run.state == harness::RunState::kFinished && !run.warmup) ++counts[{run.block, run.slot}];
  return counts;
}

int interrupted(const harness::Ledger& ledger) {
  int count = 0;
  for (const harness::RunRecord& run : ledger.runs()) count += run.state == harness::RunState::kInterrupted ? 1 : 0;
  return count;
}

TEST_F(RunCommand, WritesLedgerReportAndVerdict) {
  const Finished result = tare_run(write(small_experiment()));
  ASSERT_EQ(result.code, 0) << result.err;
  for (const char* name :
       {"report.html", "report.md", "effects.csv", "verdict.json", "ledger.sqlite", "experiment.json"})
    EXPECT_TRUE(std::filesystem::exists(folder_ / "out" / name)) << name;
  EXPECT_THAT(result.out, testing::AllOf(HasSubstr("q4: "), HasSubstr("report.html")));
  const harness::Ledger ledger = ledger_of(folder_);
  EXPECT_EQ(finished(ledger).size(), 8U);
  const auto validations = ledger.validations();
  ASSERT_EQ(validations.size(), 4U);  // the validation and three controls
  for (const harness::ValidationRecord& validation : validations) EXPECT_TRUE(validation.passed()) << validation.name;
  EXPECT_EQ(validations[0].prompts, 2);
}

TEST_F(RunCommand, WeighsAModelWithoutATokenizerOnPromptsOfTokenIds) {
  Json experiment = small_experiment();
  experiment["model"] = "synthetic:hidden=256,layers=4,intermediate=512,vocab=1024?seed=3";
  write("ids.jsonl", R"({"question_id": 1, "category": "random", "tokens": [5, 17, 1023, 6, 512, 3]})"
                     "\n"
                     R"({"question_id": 2, "category": "random", "tokens": [900, 2, 77]})"
                     "\n");
  experiment["prompts"] = {{"file", "ids.jsonl"}};
  const std::string file = write(experiment);
  const Finished plan = run({tare(), "run", file, "--dry-run"}, folder_);
  EXPECT_EQ(plan.code, 0) << plan.err;
  const Finished result = tare_run(file);
  ASSERT_EQ(result.code, 0) << result.err;
  const harness::Ledger ledger = ledger_of(folder_);
  EXPECT_EQ(finished(ledger).size(), 8U);
  ASSERT_EQ(ledger.texts().size(), 2U);
  EXPECT_THAT(ledger.texts()[1].prompt_tokens, testing::ElementsAre(900, 2, 77));

  experiment["prompts"] = {{"file", source("prompts/tare-64.jsonl")}, {"limit", 2}};
  const Finished refused = run({tare(), "run", write(experiment), "--out", "other"}, folder_);
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("has no tokenizer.json"));
}

TEST_F(RunCommand, GoesNowhereWhenEverythingIsThere) {
  const std::string experiment = write(small_experiment());
  ASSERT_EQ(tare_run(experiment).code, 0);
  const std::size_t runs = ledger_of(folder_).runs().size();
  EXPECT_EQ(tare_run(experiment).code, 0);
  EXPECT_EQ(ledger_of(folder_).runs().size(), runs);
}

TEST_F(RunCommand, MeasuresPromptByPromptWithResidentWorkers) {
  Json experiment = small_experiment();
  experiment["schedule"] = {{"granularity", "prompt"}, {"blocks", 5}, {"seed", 1}, {"warmup", true}};
  const Finished result = tare_run(write(experiment));
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(finished(ledger_of(folder_)).size(), 10U);  // five blocks of two arms
  // Warm-ups are work too: nothing but the end is all of it.
  EXPECT_THAT(result.err, HasSubstr("measurement 100.0 %  block 5, prompt 2 of 2"));
  for (int block = 1; block < 5; ++block)
    EXPECT_THAT(result.err, testing::Not(HasSubstr(fmt::format("measurement 100.0 %  block {}", block))));
  EXPECT_TRUE(verdict()["valid"]);
  EXPECT_FALSE(verdict()["effects"].empty());
}

TEST_F(RunCommand, GoesOnAtABlocksEdgeAfterKill) {
  Json experiment = small_experiment();
  experiment["schedule"]["blocks"] = 3;
  const std::string file = write(experiment);
  {
    Running running({tare(), "run", file, "--out", "out"}, folder_);
    // Killed as soon as the second block has a finished run.
    bool reached = false;
    for (int i = 0; i < 12'000 && !reached; ++i) {
      std::this_thread::sleep_for(5ms);
      if (!std::filesystem::exists(folder_ / "out" / "ledger.sqlite")) continue;
      try {
        reached = finished(ledger_of(folder_)).contains({1, 1});
      } catch (const Error&) {  // being written at this moment
      }
    }
    ASSERT_TRUE(reached) << running.err_so_far();
    running.signal(SIGKILL);
    EXPECT_EQ(running.wait().code, 128 + SIGKILL);
  }
  const Finished result = tare_run(file);
  ASSERT_EQ(result.code, 0) << result.err;
  const harness::Ledger ledger = ledger_of(folder_);
  const auto counts = finished(ledger);
  EXPECT_EQ(counts.size(), 24U);
  for (const auto& [slot, count] : counts) EXPECT_EQ(count, 1) << slot.first << " " << slot.second;
  EXPECT_GE(interrupted(ledger), 2);
  for (const harness::RunRecord& run : ledger.runs()) EXPECT_NE(run.state, harness::RunState::kRunning);
}

TEST_F(RunCommand, RefusesTheDirectoryOfAnotherExperiment) {
  Json experiment = small_experiment();
  ASSERT_EQ(tare_run(write(experiment)).code, 0);
  experiment["texts"]["seed"] = 2;
  const Finished result = tare_run(write(experiment));
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("experiment"));
}

TEST_F(RunCommand, StopsWhenTheModelsFilesChangeInTheMiddle) {
  const std::filesystem::path model = folder_ / "model";
  std::filesystem::copy(source("models/embedded"), model);
  Json experiment = small_experiment();
  experiment["model"] = model.string();
  experiment["schedule"]["blocks"] = 40;  // more than is reached before the change
  const std::string file = write(experiment);
  Running running({tare(), "run", file, "--out", "out"}, folder_);
  ASSERT_TRUE(running.says("measurement", 60s)) << running.err_so_far();
  std::fstream weights(model / "model-00002-of-00002.safetensors", std::ios::binary | std::ios::in | std::ios::out);
  weights.seekp(-100, std::ios::end);
  weights.put('\x3c');
  weights.close();
  const Finished result = running.wait();
  EXPECT_EQ(result.code, 2) << result.err;
  EXPECT_THAT(result.err, HasSubstr("its content changed since launch"));
}

// A worker that echoes the forced text as its own choice passes the validation; the controls must expose it.
TEST_F(RunCommand, RefusesAnInstrumentWhoseControlsAreNotCaught) {
  Json experiment = small_experiment();
  experiment["options"] = Json::object();
  for (Json& arm : experiment["arms"])
    arm = {{"name", arm["name"]}, {"program", {source("tests/harness/shims/worker_shim.py"), "echo"}}};
  const Finished result = tare_run(write(experiment));
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("control"));
  EXPECT_TRUE(finished(ledger_of(folder_)).empty());
}

TEST_F(RunCommand, WeighsAnEngineInAnotherLanguage) {
  Json experiment = small_experiment();
  experiment["options"] = Json::object();
  for (Json& arm : experiment["arms"])
    arm = {{"name", arm["name"]}, {"program", {source("tests/harness/shims/worker_shim.py"), "good"}}};
  const Finished result = tare_run(write(experiment));
  EXPECT_EQ(result.code, 0) << result.err;
}

TEST_F(RunCommand, WalksGivenTexts) {
  Json experiment = small_experiment();
  write("texts.jsonl",
        "{\"question_id\": 1, \"prompt\": \"def main(\", \"tokens\": [300, 301, 302, 303, 304, 305]}\n"
        "{\"question_id\": 2, \"prompt_tokens\": [400, 401], \"tokens\": [310, 311, 312, 313, 314, 315, 316]}\n");
  experiment["texts"] = {{"mode", "given"}, {"file", "texts.jsonl"}};
  experiment.erase("prompts");
  const Finished result = tare_run(write(experiment));
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(ledger_of(folder_).texts().size(), 2U);
}

TEST_F(RunCommand, DryRunMeasuresNothingAndSaysWhatItWouldDo) {
  const Finished result = run({tare(), "run", write(small_experiment()), "--dry-run", "--json"}, folder_);
  ASSERT_EQ(result.code, 0) << result.err;
  const Json plan = parse_json(result.out, "plan");
  EXPECT_EQ(plan["runs"], 8);
  EXPECT_EQ(plan["twin_launches"], 0);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out"));
  Json profiled = small_experiment();
  profiled["profile"] = {{"prompts", 2}};
  const Finished again = run({tare(), "run", write(profiled), "--dry-run", "--json"}, folder_);
  EXPECT_EQ(parse_json(again.out, "plan")["twin_launches"], 2) << again.err;
}

}  // namespace
}  // namespace tare::e2e
