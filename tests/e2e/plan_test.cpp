// tare plan and tare calibrate from the command line.
#include <gmock/gmock.h>

#include "tests/e2e/workspace.h"

namespace tare::e2e {
namespace {

using testing::HasSubstr;

using Plan = Workspace;
using Calibrate = Workspace;

TEST_F(Plan, FromGivenNumbers) {
  const Finished result = run({tare(), "plan", "--unit-sd", "0.1", "--block-seconds", "60", "--effect", "0.154,0.1",
                               "--blocks", "1,2", "--json"},
                              folder_);
  ASSERT_EQ(result.code, 0) << result.err;
  const Json json = Json::parse(result.out);
  // Two blocks of eight: (t.975(11) + t.8(11)) 0.1 % / 2 = 0.1538 %.
  EXPECT_EQ(json["wanted"][0]["design"]["blocks"], 2);
  EXPECT_EQ(json["wanted"][0]["design"]["runs"], 16);
  EXPECT_EQ(json["wanted"][0]["design"]["seconds"], 120);
  EXPECT_NEAR(json["detectable"][1]["detectable_percent"].get<double>(), 0.1539, 0.0002);
  EXPECT_GT(json["wanted"][1]["design"]["runs"].get<int>(), 16);
}

TEST_F(Plan, NeedsSomethingToPlanFrom) {
  EXPECT_EQ(run({tare(), "plan"}, folder_).code, 2);
  EXPECT_EQ(run({tare(), "plan", "nowhere"}, folder_).code, 2);
  EXPECT_EQ(run({tare(), "plan", "nowhere", "--unit-sd", "1"}, folder_).code, 2);
}

TEST_F(Calibrate, SimulatedClocksAndTheControl) {
  const Finished good = run({tare(), "calibrate", "--experiments", "400", "--scenario", "launches 0.3 %, prompts 0 %",
                             "--out", "table", "--json"},
                            folder_);
  ASSERT_EQ(good.code, 0) << good.err;
  const Json row = Json::parse(good.out)["scenarios"][0];
  EXPECT_GT(row["verdict_holds"].get<double>(), 0.92);
  EXPECT_LT(row["naive_holds"].get<double>(), 0.5);  // the interval that must fail
  EXPECT_THAT(read_text_file(folder_ / "table" / "calibration.md"), HasSubstr("launches 0.3 %"));
  EXPECT_EQ(run({tare(), "calibrate", "--scenario", "no such"}, folder_).code, 2);
}

TEST_F(Calibrate, RealExperimentsFindWhatWasInjected) {
  Json experiment = small_experiment();
  experiment["schedule"] = {{"granularity", "prompt"}, {"blocks", 6}, {"seed", 1}, {"warmup", true}};
  const Finished result =
      run({tare(), "calibrate", write(experiment), "--ladder", "0,90", "--repeat", "1", "--out", "ladder", "--json"},
          folder_);
  ASSERT_EQ(result.code, 0) << result.err;
  const Json rungs = Json::parse(result.out)["rungs"];
  ASSERT_EQ(rungs.size(), 2U);
  EXPECT_EQ(rungs[0]["counted"], 1);
  EXPECT_EQ(rungs[0]["experiments"][0]["truth_percent"], 0);
  // Every round nearly twice as long: half of the speed, which no busy machine hides. (With half as long again one
  // did: other programs took enough of both cores that the interval held 0.)
  EXPECT_EQ(rungs[1]["difference_shown"], 1);
  // -47.4 where nothing interrupts the spinning, more elsewhere: it is what was spun.
  const double truth = rungs[1]["experiments"][0]["truth_percent"];
  EXPECT_LT(truth, -35);
  EXPECT_GT(truth, -70);
  EXPECT_NEAR(rungs[1]["recovered"].get<double>(), 1, 0.3);
}

}  // namespace
}  // namespace tare::e2e
