// tare profile on the CPU: the table, its JSON and the trace.
#include <gmock/gmock.h>

#include <sstream>

#include "tests/e2e/workspace.h"

namespace tare::e2e {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;

class Profile : public Workspace {
 protected:
  [[nodiscard]] Finished profile(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {tare(), "profile", "--model", source("models/embedded"), "--set",
                                         "cpu.threads=1", "--set", "weights.format=q4"});
    return run(arguments, folder_);
  }
};

TEST_F(Profile, PrintsTheOpsOfARound) {
  const Finished result = profile({"--rounds", "20"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.err, IsEmpty());
  EXPECT_THAT(result.out, AllOf(HasSubstr("product q4 + activation  layers.*.mlp.gate_proj.weight\n"),
                                HasSubstr("gdn  layers.*.linear_attn\n"), HasSubstr("product q4  lm_head.weight\n"),
                                HasSubstr("%  host, between ops\n"), HasSubstr("first op to last, under the collector"),
                                HasSubstr("us under the collector ("), HasSubstr("of the mean timed round")));
  EXPECT_THAT(result.out, testing::Not(HasSubstr("kernel")));
}

TEST_F(Profile, WritesJsonWhoseRowsAddUpAndATrace) {
  const Finished result = profile({"--rounds", "30", "--width", "4", "--json", "--trace", "ops.json"});
  ASSERT_EQ(result.code, 0) << result.err;
  const Json json = parse_json(result.out, "output");
  const double span_us = json.at("span_us");
  double sum_us = json.at("idle_us");
  double bytes = 0;
  for (const Json& row : json.at("rows")) {
    sum_us += row.at("us_per_round").get<double>();
    bytes += row.at("declared_bytes_per_round").get<double>();
  }
  EXPECT_NEAR(sum_us, span_us, 1e-6 * span_us);
  EXPECT_GT(bytes, 6e6);  // the weights of the embedded model, 4 bits each, and more
  EXPECT_EQ(json.at("kernels_per_round"), 66);
  EXPECT_EQ(json.at("unmatched"), "");
  double timed_us = 0;
  for (const Json& us : json.at("timed_us")) timed_us += us.get<double>() / 30;
  EXPECT_NEAR(json.at("residual_us").get<double>(), timed_us - span_us, 1e-6 * span_us);
  const double profiled_us = json.at("profiled_round_us");
  EXPECT_NEAR(json.at("collector_cost").get<double>(), profiled_us / json.at("round_us").get<double>() - 1, 1e-9);

  const Json trace = read_json_file(folder_ / "ops.json");
  std::size_t ops = 0;
  for (const Json& event : trace.at("traceEvents")) ops += event.value("cat", "") == "kernel" ? 1 : 0;
  EXPECT_EQ(ops, 8 * 66U);
}

TEST_F(Profile, SaysThatItRunsUnderAnotherProfiler) {
  const Finished result = run({"env", "NSYS_PROFILING_SESSION_ID=1", tare(), "profile", "--model",
                               source("models/embedded"), "--set", "cpu.threads=1", "--rounds", "4"},
                              folder_);
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("warning: this process runs under Nsight Systems"));
  EXPECT_THAT(result.out, HasSubstr("first op to last"));
}

// The worker's own profile of a replay: forced text, the same tokens, and no timed run afterwards.
TEST_F(Profile, OfAReplayByTheWorker) {
  const std::string calls =
      R"({"call":"hello","protocol":1})"
      "\n"
      R"({"call":"open","model":")" +
      source("models/embedded") +
      R"(","options":{"weights":{"format":"q4"},"cpu":{"threads":1}}})"
      "\n"
      R"({"call":"profile","prompt_id":"1","prompt":[5,6,7],"temperature":0,"seed":1,"max_tokens":0,"forced":[9,8,7,6,5]})"
      "\n"
      R"({"call":"run","prompt_id":"1","prompt":[5,6,7],"temperature":0,"seed":1,"max_tokens":3})"
      "\n"
      R"({"call":"close"})"
      "\n";
  write_file_atomically(folder_ / "calls.jsonl", calls);
  const Finished result = run({"bash", "-c", "'" + tare() + "' worker < calls.jsonl"}, folder_);
  ASSERT_EQ(result.code, 0) << result.err;
  std::istringstream lines(result.out);
  std::string line;
  std::vector<Json> replies;
  while (std::getline(lines, line)) replies.push_back(parse_json(line, "reply"));
  ASSERT_EQ(replies.size(), 5U);
  const Json& profile = replies[2];
  ASSERT_EQ(profile.at("reply"), "profile") << profile;
  EXPECT_EQ(profile.at("run").at("tokens"), Json({9, 8, 7, 6, 5}));
  EXPECT_EQ(profile.at("source"), "ops");
  EXPECT_EQ(profile.at("run").at("round_ns").size(), 4U);
  EXPECT_LE(profile.at("rounds"), 4);
  EXPECT_GE(profile.at("rounds"), 2) << "at most half of the rounds can be stalled";
  double sum_us = profile.at("idle_us");
  for (const Json& row : profile.at("rows")) sum_us += row.at("us").get<double>();
  EXPECT_NEAR(sum_us, profile.at("span_us").get<double>(), 1e-6 * sum_us);
  EXPECT_EQ(replies[3].at("reply"), "error");
  EXPECT_THAT(replies[3].at("what").get<std::string>(), HasSubstr("'run' after 'profile'"));
}

}  // namespace
}  // namespace tare::e2e
