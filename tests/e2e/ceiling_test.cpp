// tare ceiling: what follows from the floor, as text, JSON and a figure.
#include <gmock/gmock.h>

#include "tests/e2e/workspace.h"

namespace tare::e2e {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class CeilingCommand : public Workspace {
 protected:
  [[nodiscard]] Finished tare_with(std::vector<std::string> arguments) const {
    const std::vector<std::string> shared = {"--model", source("models/embedded"), "--set", "cpu.threads=1",
                                             "--set",   "weights.format=q4"};
    arguments.insert(arguments.begin(), tare());
    arguments.insert(arguments.begin() + 2, shared.begin(), shared.end());
    return run(arguments, folder_);
  }
  [[nodiscard]] Finished ceiling(std::vector<std::string> arguments) const {
    const std::vector<std::string> quick = {"ceiling", "--seconds", "0.02", "--repetitions", "1"};
    arguments.insert(arguments.begin(), quick.begin(), quick.end());
    return tare_with(arguments);
  }
};

TEST_F(CeilingCommand, SaysFloorRooflineAndCapacity) {
  const Finished result = ceiling({"--memory", "1000000000"});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out,
              AllOf(HasSubstr("floor us"), HasSubstr("floor by part of the pass"), HasSubstr("prefill of 64 tokens in"),
                    HasSubstr("roofline of a round of 1 token:"), HasSubstr("recurrent state\n"),
                    HasSubstr("capacity: 1.0 GB (as named by --memory)"), HasSubstr("weights (held as planned)"),
                    HasSubstr("bf16, as now"), HasSubstr("left for keys and values")));
}

TEST_F(CeilingCommand, JsonAddsUp) {
  const Finished result = ceiling({"--json", "--compute", "0.05"});
  ASSERT_EQ(result.code, 0) << result.err;
  const Json json = parse_json(result.out, "output");
  std::uint64_t bytes = 0;
  for (const Json& phase : json.at("phases")) bytes += phase.at("bytes_per_round").get<std::uint64_t>();
  EXPECT_EQ(bytes, json.at("bytes_per_round").get<std::uint64_t>());
  const Json& capacity = json.at("capacity");
  std::uint64_t planned = 0;
  std::uint64_t cache = 0;
  for (const Json& part : capacity.at("parts")) {
    planned += part.at("planned_bytes").get<std::uint64_t>();
    if (part.at("part") == "key-value cache") cache = part.at("planned_bytes").get<std::uint64_t>();
  }
  EXPECT_EQ(planned, capacity.at("planned_bytes").get<std::uint64_t>());
  EXPECT_EQ(capacity.at("left_bytes").get<std::uint64_t>(),
            capacity.at("memory_bytes").get<std::uint64_t>() - (planned - cache));
  EXPECT_THAT(capacity.at("memory").get<std::string>(), HasSubstr("of this machine"));
  for (const Json& row : json.at("roofline").at("rows"))
    EXPECT_LE(row.at("attainable_per_s").get<double>(), 0.05e12) << row;
}

TEST_F(CeilingCommand, TakesTheTimesOfAProfileAndDrawsThem) {
  const Finished profile = tare_with({"profile", "--rounds", "20", "--json"});
  ASSERT_EQ(profile.code, 0) << profile.err;
  write("profile.json", profile.out);
  const Finished result = ceiling({"--profile", "profile.json", "--figure", "roofline.svg", "--json"});
  ASSERT_EQ(result.code, 0) << result.err;
  const Json json = parse_json(result.out, "output");
  double us = json.at("roofline").at("other_s").get<double>() * 1e6;
  for (const Json& row : json.at("roofline").at("rows")) {
    EXPECT_TRUE(row.at("measured_s").is_number()) << row.at("class") << " has no row in the profile";
    us += row.at("measured_s").get<double>() * 1e6;
  }
  double expected = 0;
  const Json profiled = parse_json(profile.out, "profile");
  for (const Json& row : profiled.at("rows")) expected += row.at("us_per_round").get<double>();
  EXPECT_NEAR(us, expected, 1e-6 * expected);
  EXPECT_THAT(read_text_file(folder_ / "roofline.svg"),
              AllOf(HasSubstr("<svg class=\"tare-figure\""), HasSubstr("mlp")));

  const Finished other = ceiling({"--profile", "profile.json", "--width", "2"});
  EXPECT_EQ(other.code, 2);
  EXPECT_THAT(other.err, HasSubstr("rounds of 1 tokens, this is of 2"));
  const Finished none = ceiling({"--profile", "not-there.json"});
  EXPECT_EQ(none.code, 2);
}

}  // namespace
}  // namespace tare::e2e
