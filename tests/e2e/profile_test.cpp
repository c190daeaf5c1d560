// tare profile on the CPU: the table, its JSON and the trace.
#include <gmock/gmock.h>

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

}  // namespace
}  // namespace tare::e2e
