// `tare reference`: what it says and writes, and that a killed one ends with the same bytes.
#include <gmock/gmock.h>
#include <signal.h>

#include <chrono>
#include <thread>

#include "base/digest.h"
#include "engine/streamed/reference_file.h"
#include "tests/e2e/workspace.h"

namespace tare::e2e {
namespace {

using testing::HasSubstr;

class ReferenceCommand : public Workspace {
 protected:
  [[nodiscard]] std::vector<std::string> command(const std::string& out, int windows, int window_tokens) const {
    return {tare(),
            "reference",
            "--model",
            source("models/embedded"),
            "--texts",
            source("prompts/windows.jsonl"),
            "--windows",
            std::to_string(windows),
            "--window-tokens",
            std::to_string(window_tokens),
            "--out",
            out};
  }
};

TEST_F(ReferenceCommand, TellsMemoryAndWritesAReference) {
  std::vector<std::string> argv = command("out.safetensors", 3, 65);
  argv.emplace_back("--json");
  const Finished result = run(argv, folder_);
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("host memory: "));
  EXPECT_THAT(result.err, HasSubstr("disk: "));
  EXPECT_THAT(result.err, HasSubstr("left"));
  const Json json = parse_json(result.out, "the command's output");
  EXPECT_EQ(json["digest"], digest_file(folder_ / "out.safetensors"));
  EXPECT_EQ(json["windows"], 3);
  EXPECT_GT(json["flops"].get<double>(), 0);
  const engine::Reference reference = engine::read_reference(folder_ / "out.safetensors");
  EXPECT_EQ(reference.digests.texts, digest_file(source("prompts/windows.jsonl")));
  EXPECT_EQ(reference.digests.tokenizer, digest_file(source("models/embedded/tokenizer.json")));
  EXPECT_EQ(reference.windows[0].id, "prose-01");
  // The model was trained on texts like these: far better than guessing among 4,096 tokens (8.3 nats).
  double sum = 0;
  for (const float value : reference.next_log_probability) sum += static_cast<double>(value);
  EXPECT_GT(sum / static_cast<double>(reference.next_log_probability.size()), -6.0);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out.safetensors.work"));
}

TEST_F(ReferenceCommand, KilledGoesOnAndEndsWithTheSameBytes) {
  constexpr int kWindows = 16;
  constexpr int kTokens = 768;
  ASSERT_EQ(run(command("whole", kWindows, kTokens), folder_).code, 0);
  {
    Running running(command("killed", kWindows, kTokens), folder_);
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(2);
    while (!std::filesystem::exists(folder_ / "killed.work" / "state.json") &&
           std::chrono::steady_clock::now() < deadline)
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    running.signal(SIGKILL);
    ASSERT_EQ(running.wait().code, 128 + SIGKILL) << "it ended before it could be killed";
  }
  ASSERT_FALSE(std::filesystem::exists(folder_ / "killed"));
  const Finished rest = run(command("killed", kWindows, kTokens), folder_);
  ASSERT_EQ(rest.code, 0) << rest.err;
  EXPECT_THAT(rest.out, HasSubstr("went on after "));
  EXPECT_EQ(digest_file(folder_ / "killed"), digest_file(folder_ / "whole"));
}

TEST_F(ReferenceCommand, DoesNotGoOnWithOtherTexts) {
  Running running(command("out", 16, 768), folder_);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(2);
  while (!std::filesystem::exists(folder_ / "out.work" / "state.json") && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  running.signal(SIGINT);
  const Finished interrupted = running.wait();
  EXPECT_EQ(interrupted.code, 130) << interrupted.err;
  EXPECT_THAT(interrupted.err, HasSubstr("goes on from there"));
  const Finished other = run(command("out", 8, 768), folder_);
  EXPECT_EQ(other.code, 2);
  EXPECT_THAT(other.err, HasSubstr("is of another reference"));
}

TEST_F(ReferenceCommand, RefusesWhatItCannotDo) {
  const auto refused = [&](std::vector<std::string> argv, const std::vector<std::string>& more, int code,
                           const std::string& what) {
    argv.insert(argv.end(), more.begin(), more.end());
    const Finished result = run(argv, folder_);
    EXPECT_EQ(result.code, code) << result.err;
    EXPECT_THAT(result.err, HasSubstr(what));
  };
  refused(command("out", 1, 8), {"--backend", "tpu"}, 2, "must be cpu or cuda");
  refused(command("out", 1, 8), {"--threads", "0"}, 2, "must be at least 1");
  refused(command("out", -1, 8), {}, 2, "--windows");
  refused(command("out", 1, 1'000'000), {}, 2, "prose-01");
}

}  // namespace
}  // namespace tare::e2e
