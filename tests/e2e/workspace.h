// A folder of its own for each test, with small experiments on the embedded model.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "base/file.h"
#include "base/json_reader.h"
#include "tests/e2e/program.h"

namespace tare::e2e {

class Workspace : public testing::Test {
 protected:
  std::filesystem::path folder_;

  void SetUp() override {
    const testing::TestInfo* info = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = std::filesystem::path(testing::TempDir()) /
              (std::string("tare-") + info->test_suite_name() + "-" + info->name());
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override {
    if (!HasFailure()) std::filesystem::remove_all(folder_);
  }

  static std::string source(const std::string& path) { return std::string(TARE_SOURCE_DIR) + "/" + path; }

  // Two arms, two prompts, texts of eight tokens, one block: a second or so.
  static Json small_experiment() {
    return {{"name", "small"},
            {"model", source("models/embedded")},
            {"prompts", {{"file", source("prompts/tare-64.jsonl")}, {"limit", 2}}},
            {"texts", {{"mode", "sampled"}, {"temperature", 0.8}, {"seed", 1}, {"max_tokens", 8}}},
            {"options", {{"cpu", {{"threads", 1}}}, {"context", 512}}},
            {"arms",
             {{{"name", "q8"}, {"options", {{"weights", {{"format", "q8"}}}}}},
              {{"name", "q4"}, {"options", {{"weights", {{"format", "q4"}}}}}}}},
            {"schedule", {{"granularity", "run"}, {"blocks", 1}, {"seed", 1}, {"warmup", true}}}};
  }
  std::string write(const std::string& name, const std::string& content) const {
    write_file_atomically(folder_ / name, content);
    return (folder_ / name).string();
  }
  std::string write(const Json& experiment) const { return write("experiment.json", experiment.dump(2)); }

  [[nodiscard]] Finished tare_run(const std::string& experiment) const {
    return run({tare(), "run", experiment, "--out", "out"}, folder_);
  }
  [[nodiscard]] Json verdict() const { return read_json_file(folder_ / "out" / "verdict.json"); }
};

}  // namespace tare::e2e
