// Twin launches under op timers, and whether their parts add up to what was timed.
#include <gmock/gmock.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <thread>
#include <utility>

#include "harness/ledger/ledger.h"
#include "tests/e2e/workspace.h"

namespace tare::e2e {
namespace {

using harness::LaunchRecord;
using harness::Ledger;
using testing::HasSubstr;

constexpr std::int64_t kHandicapUs = 2000;  // far beyond what a machine that changes its speed does to a round

class Reconcile : public Workspace {
 protected:
  [[nodiscard]] Json experiment() const {
    Json json = {{"name", "reconcile"},
                 {"model", source("models/embedded")},
                 {"prompts", {{"file", source("prompts/tare-64.jsonl")}, {"limit", 4}}},
                 {"texts", {{"mode", "greedy"}, {"max_tokens", 24}}},
                 {"options", {{"cpu", {{"threads", 1}}}, {"context", 512}, {"weights", {{"format", "q8"}}}}},
                 {"schedule", {{"granularity", "prompt"}, {"blocks", 2}, {"seed", 1}, {"warmup", true}}},
                 {"profile", {{"prompts", 3}}}};
    json["arms"] = Json::array();
    json["arms"].push_back({{"name", "q8"}, {"options", Json::object()}});
    json["arms"].push_back({{"name", "q4"}, {"options", {{"weights", {{"format", "q4"}}}}}});
    json["arms"].push_back(
        {{"name", "slow-host"}, {"options", {{"handicap", {{"place", "host"}, {"ns", kHandicapUs * 1000}}}}}});
    return json;
  }
  [[nodiscard]] Json reconciled() const {
    const Finished result = run({tare(), "reconcile", "out", "--json"}, folder_);
    EXPECT_EQ(result.code, 0) << result.err;
    return parse_json(result.out, "output");
  }
};

double number(const Json& json, const char* row, const char* field) {
  return json.at(row).at(field).get<double>();
}

TEST_F(Reconcile, PartsAddUpAndAHandicapOnTheHostIsNamedHost) {
  const std::string file = write(experiment());
  const Finished measured = tare_run(file);
  ASSERT_EQ(measured.code, 0) << measured.err;
  const Json json = reconciled();
  ASSERT_EQ(json.at("arms").size(), 3U);
  for (const Json& arm : json.at("arms")) {
    EXPECT_EQ(arm.at("fault"), "");
    EXPECT_EQ(arm.at("prompts"), 3);
    EXPECT_EQ(arm.at("cells"), 6) << "three prompts in two blocks";
    EXPECT_EQ(arm.at("outputs_unsteady"), 0) << "a twin computes what the timed workers compute";
    EXPECT_EQ(arm.at("dropped"), 0);
    double sum_us = 0;
    for (const char* part : {"idle_us", "host_us", "stalls_us", "residual_us"}) sum_us += arm.at(part).get<double>();
    for (const Json& row : arm.at("rows")) sum_us += row.at("us").get<double>();
    EXPECT_NEAR(sum_us, arm.at("timed_us").get<double>(), 1e-6 * sum_us);
  }
  ASSERT_EQ(json.at("differences").size(), 2U);
  for (const Json& difference : json.at("differences")) {
    double sum_us = 0;
    for (const char* part : {"idle", "host", "stalls", "residual"}) sum_us += number(difference, part, "difference_us");
    for (const Json& row : difference.at("rows")) sum_us += row.at("difference_us").get<double>();
    EXPECT_NEAR(sum_us, number(difference, "timed", "difference_us"), 1e-6 * std::abs(sum_us) + 1e-9);
    const double bound = std::max(0.05 * std::abs(number(difference, "timed", "difference_us")),
                                  0.005 * number(difference, "timed", "baseline_us"));
    EXPECT_EQ(difference.at("adds_up").get<bool>(), std::abs(number(difference, "residual", "difference_us")) <= bound);
    EXPECT_EQ(difference.at("outputs_compared"), 4) << "every timed prompt, not only the profiled ones";
  }
  const Json& q4 = json.at("differences")[0];
  EXPECT_LT(number(q4, "timed", "difference_us"), number(q4, "stalls", "difference_us"));
  EXPECT_THAT(q4.at("rows")[0].at("what").get<std::string>(), HasSubstr("product q8"))
      << "the products are what changed";
  EXPECT_THAT(q4.at("rows")[0].at("what").get<std::string>(), HasSubstr(" -> product q4"));
  EXPECT_LT(q4.at("outputs_equal"), 4) << "rounding to 4 bits changes what a small model chooses";
  // What was spun outside of every op is the host's; no op took a third of it, and the residual did not.
  const Json& slow = json.at("differences")[1];
  EXPECT_EQ(slow.at("outputs_equal"), 4) << "other host, the same outputs";
  // What is spun can itself be held up, so it is compared with itself, not with its nominal time.
  const double host_us = number(slow, "host", "difference_us");
  EXPECT_GT(host_us, 0.9 * kHandicapUs);
  EXPECT_LT(std::abs(number(slow, "residual", "difference_us")), host_us / 2);
  for (const Json& row : slow.at("rows"))
    EXPECT_LT(std::abs(row.at("difference_us").get<double>()), host_us / 3) << row;

  const Finished table = run({tare(), "reconcile", "out"}, folder_);
  EXPECT_EQ(table.code, 0) << table.err;
  EXPECT_THAT(table.out, HasSubstr("slow-host less q8: +"));
  EXPECT_THAT(table.out, HasSubstr("the residual is"));
  EXPECT_THAT(table.out,
              HasSubstr("the same launches and the same outputs: both would have emitted the same tokens on 4 "
                        "of 4 prompts"));
  EXPECT_THAT(read_text_file(folder_ / "out" / "report.md"), HasSubstr("## Where the time goes"));

  // One twin launch an arm and block, the arms of the second block in reverse.
  const Ledger ledger = Ledger::open_for_reading(folder_ / "out" / "ledger.sqlite");
  std::vector<std::string> twins;
  for (const LaunchRecord& launch : ledger.launches())
    if (launch.purpose == "profile") twins.push_back(std::to_string(launch.block) + launch.arm);
  EXPECT_THAT(twins, testing::ElementsAre("0q8", "0q4", "0slow-host", "1slow-host", "1q4", "1q8"));

  // Nothing is measured or profiled twice.
  const Finished again = tare_run(file);
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(reconciled(), json);
}

TEST_F(Reconcile, AHandicapInsideAnOpIsNamedAsThatOp) {
  Json slow = experiment();
  slow["arms"].erase(2);
  slow["arms"][1] = {{"name", "slow-op"},
                     {"options", {{"handicap", {{"place", "kernel"}, {"ns", kHandicapUs * 1000}}}}}};
  ASSERT_EQ(tare_run(write(slow)).code, 0);
  const Json json = reconciled();
  const Json& difference = json.at("differences")[0];
  EXPECT_EQ(difference.at("rows")[0].at("what"), "argmax  logits") << difference;
  const double op_us = difference.at("rows")[0].at("difference_us").get<double>();
  EXPECT_GT(op_us, 0.9 * kHandicapUs);
  EXPECT_LT(std::abs(difference.at("rows")[1].at("difference_us").get<double>()), op_us / 3);
  EXPECT_LT(std::abs(number(difference, "host", "difference_us")), op_us / 3);
  EXPECT_TRUE(difference.at("only_arm").empty()) << "no op of its own";
  // The instrument knows what it really spun, here as for the host's.
  const Json effect = verdict().at("effects")[0];
  EXPECT_LT(effect.at("true_effect_percent").get<double>(), -50);
}

// ---- where and when twins walk ----

struct Walk {
  std::string arm;
  std::string prompt;
  bool twin = false;
};

// Walks of a block that are timed and count, and those of its twins, in the order in which they began.
std::vector<Walk> walks_of(const Ledger& ledger, std::int64_t block) {
  std::map<std::int64_t, Walk> walks;
  for (const harness::RunRecord& run : ledger.runs()) {
    if (run.block != block || run.warmup || run.state != harness::RunState::kFinished) continue;
    for (const harness::PromptResult& result : ledger.prompt_results(run.id))
      walks[result.started_utc_ns] = {run.arm, result.prompt_id, false};
  }
  std::map<std::int64_t, LaunchRecord> launches;
  for (const LaunchRecord& launch : ledger.launches()) launches[launch.id] = launch;
  for (const harness::ProfileRecord& profile : ledger.profiles())
    if (launches[profile.launch_id].block == block)
      walks[profile.started_utc_ns.value()] = {launches[profile.launch_id].arm, profile.prompt_id, true};
  std::vector<Walk> result;
  for (const auto& [started, walk] : walks) result.push_back(walk);
  return result;
}

TEST_F(Reconcile, ATwinWalksATextRightAfterItsArm) {
  ASSERT_EQ(tare_run(write(experiment())).code, 0);
  const Ledger ledger = Ledger::open_for_reading(folder_ / "out" / "ledger.sqlite");
  for (const std::int64_t block : {0, 1}) {
    const std::vector<Walk> walks = walks_of(ledger, block);
    ASSERT_EQ(walks.size(), 4 * 3 + 3 * 3U);
    for (std::size_t i = 0; i < walks.size(); ++i) {
      const bool profiled = i < 2 * 3 * 3;
      EXPECT_EQ(walks[i].twin, profiled && i % 2 == 1) << "block " << block << ", walk " << i;
      if (!walks[i].twin) continue;
      EXPECT_EQ(walks[i].arm, walks[i - 1].arm);
      EXPECT_EQ(walks[i].prompt, walks[i - 1].prompt);
    }
  }
}

TEST_F(Reconcile, TwinsTakeTurnsAfterABlockOfLaunches) {
  Json runs = experiment();
  runs["schedule"] = {{"granularity", "run"}, {"blocks", 1}, {"seed", 1}};
  runs["arms"].erase(2);
  ASSERT_EQ(tare_run(write(runs)).code, 0);
  const std::vector<Walk> walks = walks_of(Ledger::open_for_reading(folder_ / "out" / "ledger.sqlite"), 0);
  ASSERT_EQ(walks.size(), 8 * 4 + 2 * 3U);
  for (std::size_t i = 0; i < walks.size(); ++i) EXPECT_EQ(walks[i].twin, i >= 32) << i;
  for (std::size_t i = 32; i < walks.size(); i += 2) {
    EXPECT_EQ(walks[i].prompt, walks[i + 1].prompt);
    EXPECT_NE(walks[i].arm, walks[i + 1].arm);
  }
  EXPECT_NE(walks[32].arm, walks[34].arm) << "who goes first alternates";
}

// The second walk of every twin of `b` fails: beside the timed workers, beside the other twin, and alone.
TEST_F(Reconcile, ATwinThatFailsTakesNothingFromTheTimedRuns) {
  Json other = experiment();
  other["options"] = Json::object();
  other["arms"] = Json::array();
  for (const auto& [name, shim] : {std::pair{"a", "profiles"}, {"b", "die-at-third-profile"}})
    other["arms"].push_back({{"name", name},
                             {"program", {source("tests/harness/shims/worker_shim.py"), shim}},
                             {"options", Json::object()}});
  const std::string file = write(other);
  const Finished measured = tare_run(file);
  ASSERT_EQ(measured.code, 0) << measured.err;
  EXPECT_THAT(measured.err, HasSubstr("the twin of arm 'b' failed and ends all twins beside block 1"));
  EXPECT_THAT(measured.err, HasSubstr("is tried alone"));
  const Json json = reconciled();
  EXPECT_EQ(json.at("arms")[0].at("fault"), "");
  EXPECT_EQ(json.at("arms")[0].at("cells"), 6) << "the arm that can is profiled in both blocks";
  EXPECT_THAT(json.at("arms")[1].at("fault").get<std::string>(), HasSubstr("ended: exit code 3"));
  EXPECT_TRUE(verdict().at("complete").get<bool>());
  const Ledger ledger = Ledger::open_for_reading(folder_ / "out" / "ledger.sqlite");
  EXPECT_EQ(ledger.profiles().size(), 6U + 1) << "what a failed twin walked before is not stored";
  EXPECT_EQ(ledger.finished_runs().size(), 4U + 4) << "two arms, two blocks, and their warm-ups";
  const std::size_t launches = ledger.launches().size();
  EXPECT_EQ(tare_run(file).code, 0);
  EXPECT_EQ(Ledger::open_for_reading(folder_ / "out" / "ledger.sqlite").launches().size(), launches)
      << "nothing is tried again";
}

TEST_F(Reconcile, AnInterruptedBlockLeavesNoProfiles) {
  constexpr std::size_t kInterrupted = 24;
  Json longer = experiment();
  longer["prompts"]["limit"] = kInterrupted;
  longer["profile"]["prompts"] = kInterrupted;
  longer["arms"].erase(2);
  const std::string file = write(longer);
  {
    Running running({tare(), "run", file, "--out", "out"}, folder_);
    ASSERT_TRUE(running.says("measurement", std::chrono::seconds(60))) << running.err_so_far();
    // The measured runs have begun: twins walk beside them.
    bool begun = false;
    for (int i = 0; i < 3000 && !begun; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      try {
        for (const harness::RunRecord& run : Ledger::open_for_reading(folder_ / "out" / "ledger.sqlite").runs())
          begun = begun || !run.warmup;
      } catch (const Error&) {  // being written at this moment
      }
    }
    ASSERT_TRUE(begun) << running.err_so_far();
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    running.signal(SIGINT);
    EXPECT_EQ(running.wait().code, 130);
    const Ledger ledger = Ledger::open_for_reading(folder_ / "out" / "ledger.sqlite");
    EXPECT_TRUE(ledger.profiles().empty());
    for (const LaunchRecord& launch : ledger.launches()) EXPECT_TRUE(launch.ended_utc_ns) << launch.purpose;
  }
  ASSERT_EQ(tare_run(file).code, 0);
  const Json json = reconciled();
  for (const Json& arm : json.at("arms")) EXPECT_EQ(arm.at("cells"), 2 * kInterrupted);
  EXPECT_EQ(Ledger::open_for_reading(folder_ / "out" / "ledger.sqlite").profiles().size(), 2 * 2 * kInterrupted);
}

// ---- what an arm must launch ----

TEST_F(Reconcile, AnArmOnAnotherPathEndsTheExperimentInvalid) {
  Json rules = experiment();
  rules["arms"].erase(2);
  rules["arms"][0]["must_launch"] = {"product q8*"};
  rules["arms"][1]["must_not_launch"] = {"product q4*"};
  const std::string file = write(rules);
  const Finished measured = tare_run(file);
  EXPECT_EQ(measured.code, 2) << measured.err;
  EXPECT_THAT(measured.err, HasSubstr("arm 'q4' launched 'product q4"));
  EXPECT_EQ(verdict().at("experiment_verdict"), "invalid");
  EXPECT_THAT(verdict().at("why_invalid").get<std::string>(), HasSubstr("must not launch 'product q4*'"));
  const auto runs = [&] { return Ledger::open_for_reading(folder_ / "out" / "ledger.sqlite").runs().size(); };
  const std::size_t before = runs();
  EXPECT_EQ(before, 4U) << "one block of two, and its warm-ups: nothing more is measured";
  EXPECT_EQ(tare_run(file).code, 2);
  EXPECT_EQ(runs(), before);
}

TEST_F(Reconcile, AnArmOnThePathThatWasMeantIsMeasured) {
  Json rules = experiment();
  rules["arms"].erase(2);
  rules["schedule"]["blocks"] = 1;
  rules["arms"][0]["must_launch"] = {"product q8*", "gdn"};
  rules["arms"][1]["must_launch"] = {"product q4*"};
  rules["arms"][1]["must_not_launch"] = {"product q8*"};
  const Finished measured = tare_run(write(rules));
  EXPECT_EQ(measured.code, 0) << measured.err;
  EXPECT_TRUE(verdict().at("valid").get<bool>()) << verdict().at("why_invalid");
}

TEST_F(Reconcile, RulesNeedAProfile) {
  Json rules = experiment();
  rules.erase("profile");
  rules["arms"][1]["must_launch"] = {"product q4*"};
  const Finished result = tare_run(write(rules));
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("arms[1].must_launch: needs \"profile\""));
}

TEST_F(Reconcile, SaysSoWithoutProfiles) {
  Json plain = experiment();
  plain.erase("profile");
  plain["arms"].erase(2);
  plain["arms"].erase(1);
  plain["arms"].push_back({{"name", "again"}, {"options", Json::object()}});
  ASSERT_EQ(tare_run(write(plain)).code, 0);
  const Finished without = run({tare(), "reconcile", "out"}, folder_);
  EXPECT_EQ(without.code, 2);
  EXPECT_THAT(without.err, HasSubstr("holds no profiles"));
  EXPECT_THAT(without.err, HasSubstr("\"profile\": {\"prompts\": 4}"));
}

// A worker of another engine that knows no `profile`: what it measured stands, and why there is no profile is said
// once.
TEST_F(Reconcile, SaysWhyAnArmCouldNotBeProfiled) {
  Json other = experiment();
  other["options"] = Json::object();
  other["arms"] = Json::array();
  for (const char* name : {"a", "b"})
    other["arms"].push_back({{"name", name},
                             {"program", {source("tests/harness/shims/worker_shim.py"), "good"}},
                             {"options", Json::object()}});
  const Finished measured = tare_run(write(other));
  ASSERT_EQ(measured.code, 0) << measured.err;
  const Finished table = run({tare(), "reconcile", "out"}, folder_);
  EXPECT_EQ(table.code, 0) << table.err;
  for (const char* name : {"a", "b"})
    EXPECT_THAT(table.out, HasSubstr(std::string(name) + ": not reconciled: arm " + name));
  EXPECT_THAT(table.out, HasSubstr("unknown call 'profile'"));
  EXPECT_EQ(Ledger::open_for_reading(folder_ / "out" / "ledger.sqlite").profiles().size(), 2U) << "not tried again";
  EXPECT_THAT(read_text_file(folder_ / "out" / "report.md"), HasSubstr("Not profiled: a: arm a"));
}

}  // namespace
}  // namespace tare::e2e
