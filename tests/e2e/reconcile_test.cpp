// Twin launches under op timers, and whether their parts add up to what was timed.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>

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
    double sum_us = arm.at("idle_us").get<double>() + arm.at("host_us").get<double>();
    for (const Json& row : arm.at("rows")) sum_us += row.at("us").get<double>();
    EXPECT_NEAR(sum_us, arm.at("timed_us").get<double>(), 1e-6 * sum_us);
  }
  ASSERT_EQ(json.at("differences").size(), 2U);
  for (const Json& difference : json.at("differences")) {
    double sum_us = number(difference, "idle", "difference_us") + number(difference, "host", "difference_us");
    for (const Json& row : difference.at("rows")) sum_us += row.at("difference_us").get<double>();
    EXPECT_NEAR(sum_us, number(difference, "timed", "difference_us"), 1e-6 * std::abs(sum_us) + 1e-9);
    const double bound = std::max(0.05 * std::abs(number(difference, "timed", "difference_us")),
                                  0.005 * number(difference, "timed", "baseline_us"));
    EXPECT_EQ(difference.at("adds_up").get<bool>(), std::abs(number(difference, "host", "difference_us")) <= bound);
  }
  const Json& q4 = json.at("differences")[0];
  EXPECT_LT(number(q4, "timed", "difference_us"), 0);
  EXPECT_THAT(q4.at("rows")[0].at("what").get<std::string>(), HasSubstr("product q8"))
      << "the products are what changed";
  EXPECT_THAT(q4.at("rows")[0].at("what").get<std::string>(), HasSubstr(" -> product q4"));
  // What was spun outside of every op is the host's; no op took a third of it.
  const Json& slow = json.at("differences")[1];
  EXPECT_FALSE(slow.at("adds_up").get<bool>()) << "all of it is residual";
  EXPECT_NEAR(number(slow, "host", "difference_us"), kHandicapUs, kHandicapUs / 3.0);
  for (const Json& row : slow.at("rows"))
    EXPECT_LT(std::abs(row.at("difference_us").get<double>()), kHandicapUs / 3.0) << row;

  const Finished table = run({tare(), "reconcile", "out"}, folder_);
  EXPECT_EQ(table.code, 0) << table.err;
  EXPECT_THAT(table.out, HasSubstr("slow-host less q8: +"));
  EXPECT_THAT(table.out, HasSubstr("is the residual"));
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
    EXPECT_THAT(table.out, HasSubstr(std::string(name) + ": no profile: arm " + name));
  EXPECT_THAT(table.out, HasSubstr("unknown call 'profile'"));
  EXPECT_EQ(Ledger::open_for_reading(folder_ / "out" / "ledger.sqlite").profiles().size(), 2U) << "not tried again";
  EXPECT_THAT(read_text_file(folder_ / "out" / "report.md"), HasSubstr("Not profiled: a: arm a"));
}

}  // namespace
}  // namespace tare::e2e
