// Matrices, stop rules and comparisons as a user meets them.
#include <gmock/gmock.h>
#include <signal.h>

#include <map>
#include <set>
#include <thread>

#include "harness/experiment/experiment.h"
#include "harness/experiment/plan.h"
#include "harness/ledger/ledger.h"
#include "tests/e2e/workspace.h"

namespace tare::e2e {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using namespace std::chrono_literals;

using Place = std::tuple<std::int64_t, std::int64_t, std::string>;  // block, slot, arm

class MatrixCommand : public Workspace {
 protected:
  // Weights q8 and q4, recurrent state fp32 and int8, two blocks of 24 launches.
  static Json small_matrix() {
    Json experiment = small_experiment();
    experiment.erase("arms");
    experiment["factors"] = Json::parse(R"({
      "weights": [{"name": "q8", "options": {"weights": {"format": "q8"}}},
                  {"name": "q4", "options": {"weights": {"format": "q4"}}}],
      "state": [{"name": "fp32"}, {"name": "int8", "options": {"state": {"recurrent": "int8"}}}]})");
    experiment["design"] = {{"kind", "full"}};
    experiment["schedule"]["blocks"] = 2;
    return experiment;
  }
  [[nodiscard]] harness::Ledger ledger() const {
    return harness::Ledger::open_for_reading(folder_ / "out" / harness::kLedgerFile);
  }
  // How often each place was finished.
  static std::map<Place, int> finished(const harness::Ledger& ledger) {
    std::map<Place, int> counts;
    for (const harness::RunRecord& run : ledger.runs())
      if (run.state == harness::RunState::kFinished && !run.warmup) ++counts[{run.block, run.slot, run.arm}];
    return counts;
  }
  static std::map<Place, int> planned(const std::string& file) {
    const harness::Experiment experiment = harness::read_experiment(file);
    std::map<Place, int> counts;
    for (const harness::PlannedBlock& block : harness::plan(experiment).blocks)
      for (const harness::PlannedRun& run : block.runs) ++counts[{run.block, run.slot, experiment.arms[run.arm].name}];
    return counts;
  }
  // Runs until so many runs of a block are finished, and kills the program then.
  void kill_in_block(const std::string& file, std::int64_t block, std::size_t runs) const {
    Running running({tare(), "run", file, "--out", "out"}, folder_);
    bool reached = false;
    for (int i = 0; i < 24'000 && !reached; ++i) {
      std::this_thread::sleep_for(5ms);
      if (!std::filesystem::exists(folder_ / "out" / harness::kLedgerFile)) continue;
      try {
        std::size_t of_block = 0;
        for (const auto& [place, count] : finished(ledger())) of_block += std::get<0>(place) == block ? 1 : 0;
        reached = of_block >= runs;
      } catch (const Error&) {  // being written at this moment
      }
    }
    ASSERT_TRUE(reached) << running.err_so_far();
    running.signal(SIGKILL);
    EXPECT_EQ(running.wait().code, 128 + SIGKILL);
  }
};

TEST_F(MatrixCommand, KilledTwiceEndsWholeWithTheSameRuns) {
  const std::string file = write(small_matrix());
  kill_in_block(file, 0, 5);
  kill_in_block(file, 1, 3);
  EXPECT_FALSE(ledger().stop());
  const Finished result = tare_run(file);
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("blocks of 24 runs: about"));  // said before they start
  EXPECT_EQ(finished(ledger()), planned(file));
  const auto stop = ledger().stop();
  ASSERT_TRUE(stop);
  EXPECT_EQ(stop->ended_by, "blocks");
  EXPECT_EQ(stop->blocks, 2);
  EXPECT_TRUE(verdict()["complete"]);
  EXPECT_EQ(verdict()["effects"].size(), 3U);
  const Json findings = read_json_file(folder_ / "out" / "findings.json");
  EXPECT_EQ(findings["arms"][3]["levels"].dump(), R"({"weights":"q4","state":"int8"})");
  EXPECT_EQ(findings["matrix"]["effects"].size(), 2U);
  EXPECT_EQ(findings["matrix"]["interactions"].size(), 1U);
  EXPECT_EQ(findings["stop"]["ended_by"], "blocks");
}

TEST_F(MatrixCommand, SaysWhatEveryArmWillTake) {
  const Finished result = run({tare(), "run", write(small_matrix()), "--dry-run", "--json"}, folder_);
  ASSERT_EQ(result.code, 0) << result.err;
  const Json plan = Json::parse(result.out);
  ASSERT_EQ(plan["arms"].size(), 4U);
  EXPECT_EQ(plan["arms"][3]["name"], "q4_int8");
  for (const Json& arm : plan["arms"]) EXPECT_GT(arm["run_seconds"].get<double>(), 0);
  EXPECT_EQ(plan["runs"], 48);
}

TEST_F(MatrixCommand, StopsOnPrecisionAndStaysThere) {
  Json experiment = small_experiment();
  experiment["schedule"]["blocks"] = 6;
  experiment["schedule"]["stop"] = {{"rule", "precision"}, {"half_width_percent", 50}};
  const std::string file = write(experiment);
  const Finished result = tare_run(file);
  ASSERT_EQ(result.code, 0) << result.err;
  const auto stop = ledger().stop();
  ASSERT_TRUE(stop);
  // How many blocks that takes is the machine's affair; where it ended, the width was reached, or all blocks were used.
  EXPECT_EQ(stop->rule, "precision");
  if (stop->ended_by == "precision") {
    EXPECT_GE(stop->blocks, 2);
    EXPECT_LE(stop->half_width_percent.value_or(100), 50);
  } else {
    EXPECT_EQ(stop->blocks, 6);
  }
  EXPECT_EQ(finished(ledger()).size(), 8 * static_cast<std::size_t>(stop->blocks));
  EXPECT_TRUE(verdict()["complete"]);
  EXPECT_EQ(tare_run(file).code, 0);
  EXPECT_EQ(finished(ledger()).size(), 8 * static_cast<std::size_t>(stop->blocks))
      << "an experiment that has ended goes no further";
}

// Killed within its first block, it measures that block again and ends behind it.
TEST_F(MatrixCommand, StopsOnTimeAlsoWhenItWasKilled) {
  Json experiment = small_experiment();
  experiment["schedule"]["blocks"] = 6;
  experiment["schedule"]["stop"] = {{"rule", "time"}, {"budget_s", 0.01}};
  const std::string file = write(experiment);
  kill_in_block(file, 0, 4);
  ASSERT_EQ(tare_run(file).code, 0);
  ASSERT_TRUE(ledger().stop());
  EXPECT_EQ(ledger().stop()->ended_by, "time");
  EXPECT_EQ(ledger().stop()->blocks, 1);
  EXPECT_EQ(finished(ledger()).size(), 8U);
}

TEST_F(MatrixCommand, ComparesRunsAndRefusesOthers) {
  const std::string file = write(small_experiment());
  for (const char* out : {"monday", "tuesday"}) ASSERT_EQ(run({tare(), "run", file, "--out", out}, folder_).code, 0);
  const Finished compared = run({tare(), "compare", "monday", "tuesday"}, folder_);
  EXPECT_EQ(compared.code, 0) << compared.err;
  EXPECT_THAT(compared.out, AllOf(HasSubstr("decode speed against q8"), HasSubstr("q4\n"), HasSubstr("pooled over 2")));
  const Finished json = run({tare(), "compare", "monday", "tuesday", "--json"}, folder_);
  EXPECT_EQ(Json::parse(json.out)["arms"][0]["units"].size(), 2U);
  Json other = small_experiment();
  other["texts"]["seed"] = 2;
  ASSERT_EQ(run({tare(), "run", write(other), "--out", "other"}, folder_).code, 0);
  const Finished refused = run({tare(), "compare", "monday", "other"}, folder_);
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("error: other: "), HasSubstr("replays other texts than monday")));
}

}  // namespace
}  // namespace tare::e2e
