// A run from blind to published: nothing tells an arm before it is unblinded, then it can be exported without names.
#include <gmock/gmock.h>

#include "tests/e2e/workspace.h"

namespace tare::e2e {
namespace {

using testing::HasSubstr;
using testing::Not;

using Publishing = Workspace;

TEST_F(Publishing, ABlindRunIsUnblindedAndExportedWithoutNames) {
  Json experiment = small_experiment();
  experiment["name"] = "small-secret";
  const std::string file = write(experiment);
  const Finished measured = run({tare(), "run", file, "--out", "out", "--blind"}, folder_);
  ASSERT_EQ(measured.code, 0) << measured.err;
  for (const std::string& text : {measured.out, read_text_file(folder_ / "out" / "report.html"),
                                  read_text_file(folder_ / "out" / "verdict.json")}) {
    EXPECT_THAT(text, Not(HasSubstr("q4")));
    EXPECT_THAT(text, Not(HasSubstr("small-secret")));
    EXPECT_THAT(text, Not(HasSubstr("models/embedded")));
  }
  for (const char* command : {"reconcile", "export"}) {
    std::vector<std::string> argv = {tare(), command, "out"};
    if (argv[1] == "export") argv.insert(argv.end(), {"--out", "too-early"});
    const Finished refused = run(argv, folder_);
    EXPECT_EQ(refused.code, 2) << command;
    EXPECT_THAT(refused.err, HasSubstr("is blind")) << command;
  }
  EXPECT_FALSE(std::filesystem::exists(folder_ / "too-early"));

  const Finished unblinded = run({tare(), "report", "out", "--unblind"}, folder_);
  ASSERT_EQ(unblinded.code, 0) << unblinded.err;
  EXPECT_THAT(unblinded.err, HasSubstr("findings digest"));
  EXPECT_THAT(read_text_file(folder_ / "out" / "report.html"), HasSubstr("q4"));
  EXPECT_EQ(run({tare(), "report", "out", "--unblind"}, folder_).code, 2);  // once

  const Finished exported = run({tare(), "export", "out", "--out", "public", "--anonymise"}, folder_);
  ASSERT_EQ(exported.code, 0) << exported.err;
  EXPECT_THAT(exported.out, HasSubstr("taken out: "));
  for (const char* name : {"README.md", "report.html", "tables.tex", "methods.txt", "ledger.json", "ledger/rounds.csv",
                           "figures/effects.pdf"}) {
    ASSERT_TRUE(std::filesystem::exists(folder_ / "public" / name)) << name;
    EXPECT_THAT(read_text_file(folder_ / "public" / name), Not(HasSubstr(source("")))) << name;
  }
  EXPECT_THAT(read_text_file(folder_ / "out" / "ledger.sqlite"), HasSubstr(source("")));  // the control
  EXPECT_EQ(run({tare(), "export", "out", "--out", "public"}, folder_).code, 2);          // is there and not empty
}

TEST_F(Publishing, WhatBeganOpenlyCannotBeBlind) {
  const std::string file = write(small_experiment());
  ASSERT_EQ(tare_run(file).code, 0);
  const Finished refused = run({tare(), "run", file, "--out", "out", "--blind"}, folder_);
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("begun with open names"));
  EXPECT_EQ(run({tare(), "report", "out", "--unblind"}, folder_).code, 2);
}

}  // namespace
}  // namespace tare::e2e
