// A reference that is stopped and goes on, spilled or in memory, and what it refuses to go on with.
#include <gtest/gtest.h>

#include <limits>

#include "base/digest.h"
#include "engine/streamed/cpu_streamed.h"
#include "engine/streamed/cpu_weights.h"
#include "engine/streamed/work_directory.h"
#include "tests/engine/cpu_fixture.h"
#include "tests/engine/model_files.h"
#include "tests/engine/streamed_fixture.h"

namespace tare::engine::test {
namespace {

constexpr std::uint64_t kPlenty = std::uint64_t{1} << 30;

class StreamedRun : public testing::Test {
 protected:
  ScratchDirectory scratch_;
  std::unique_ptr<Checkpoint> checkpoint_ = open_checkpoint(fixture("hybrid-small").string());
  std::vector<StreamedWindow> windows_ = random_windows(70, 65, checkpoint_->config().vocab_size);

  [[nodiscard]] std::filesystem::path out(const std::string& name) const { return scratch_.path() / name; }
  [[nodiscard]] std::filesystem::path work(const std::string& name) const { return scratch_.path() / (name + ".work"); }

  // 70 windows of 65 tokens go through a layer in two batches.
  StreamedSummary go(const std::string& name, std::optional<std::int64_t> stop_after = {},
                     std::uint64_t activation_bytes = kPlenty, std::function<void(StreamedSettings&)> change = {},
                     const Checkpoint* checkpoint = nullptr) {
    const Checkpoint& used = checkpoint == nullptr ? *checkpoint_ : *checkpoint;
    StreamedSettings settings{.out = out(name), .texts_digest = "t", .backend = "cpu", .stop_after_layers = stop_after};
    if (change) change(settings);
    const auto backend = make_cpu_streamed(used, check_windows(windows_, used.config()), 2, activation_bytes);
    return run_streamed(used, *backend, windows_, settings);
  }
};

TEST_F(StreamedRun, StoppedAfterAnyLayerEndsWithTheSameBytes) {
  const StreamedSummary whole = go("whole");
  EXPECT_EQ(whole.first_layer, 0);
  const std::string wanted = digest_file(out("whole"));
  for (std::int64_t layer = 1; layer <= checkpoint_->config().layer_count(); ++layer) {
    const StreamedSummary stopped = go("stopped", layer);
    EXPECT_TRUE(stopped.stopped);
    EXPECT_FALSE(std::filesystem::exists(out("stopped"))) << "half a reference must not look like one";
    const StreamedSummary rest = go("stopped");
    EXPECT_EQ(rest.first_layer, layer);
    EXPECT_EQ(digest_file(out("stopped")), wanted) << layer;
    EXPECT_FALSE(std::filesystem::exists(work("stopped")));
    std::filesystem::remove(out("stopped"));
  }
}

TEST_F(StreamedRun, SpilledActivationsGiveTheSameBytes) {
  (void)go("whole");
  const StreamedSummary spilled = go("spilled", 5, 0);
  EXPECT_TRUE(spilled.spilled);
  EXPECT_EQ(spilled.layers_kept, 5);
  EXPECT_EQ(go("spilled", {}, 0).first_layer, 5);
  EXPECT_EQ(digest_file(out("spilled")), digest_file(out("whole")));
}

TEST_F(StreamedRun, GoesOnInMemoryFromWhatWasSpilled) {
  (void)go("whole");
  (void)go("mixed", 3, 0);
  EXPECT_FALSE(go("mixed").spilled);
  EXPECT_EQ(digest_file(out("mixed")), digest_file(out("whole")));
}

// Killed while the next layer's activations are being written: the state names the file that is whole.
TEST_F(StreamedRun, AHalfWrittenFileIsNotGoneOnFrom) {
  (void)go("whole");
  (void)go("killed", 4);
  const Json state = read_json_file(work("killed") / "state.json");
  const std::string other = "activations." + std::to_string(1 - state["file"].get<int>());
  write_file_atomically(work("killed") / other, "half of a window");
  EXPECT_EQ(go("killed").first_layer, 4);
  EXPECT_EQ(digest_file(out("killed")), digest_file(out("whole")));
}

TEST_F(StreamedRun, OtherTextsCheckpointsAndBackendsAreNotGoneOnWith) {
  (void)go("first", 2);
  const auto texts = [](StreamedSettings& settings) { settings.texts_digest = "other"; };
  expect_refused([&] { (void)go("first", {}, kPlenty, texts); }, "first.work", "its texts is \"t\"");
  const auto tokenizer = [](StreamedSettings& settings) { settings.tokenizer_digest = "other"; };
  expect_refused([&] { (void)go("first", {}, kPlenty, tokenizer); }, "first.work", "its tokenizer is");
  const auto backend = [](StreamedSettings& settings) { settings.backend = "cuda"; };
  expect_refused([&] { (void)go("first", {}, kPlenty, backend); }, "first.work", "its backend is \"cpu\"");
  windows_[3].tokens[1] ^= 1;
  expect_refused([&] { (void)go("first"); }, "first.work", "its tokens is");
  windows_[3].tokens[1] ^= 1;
  const auto other = open_checkpoint(fixture("hybrid-headdim256").string());
  windows_ = random_windows(70, 65, 300);
  (void)go("second", 1);
  expect_refused([&] { (void)go("second", {}, kPlenty, {}, other.get()); }, "second.work", "its checkpoint is");
}

TEST_F(StreamedRun, DamagedActivationsAreNotGoneOnWith) {
  (void)go("damaged", 2);
  const Json state = read_json_file(work("damaged") / "state.json");
  const std::filesystem::path file = work("damaged") / ("activations." + std::to_string(state["file"].get<int>()));
  std::string bytes = read_text_file(file);
  bytes[bytes.size() / 2] ^= 1;
  write_file_atomically(file, bytes);
  expect_refused([&] { (void)go("damaged"); }, "activations", "is damaged");
}

TEST_F(StreamedRun, AnInterruptionKeepsWhatIsDone) {
  (void)go("whole");
  std::atomic<bool> interrupted = false;
  const auto change = [&](StreamedSettings& settings) {
    settings.interrupted = &interrupted;
    settings.progress = [&](const StreamedProgress& progress) { interrupted = progress.what == "layer 3 of 8"; };
  };
  try {
    (void)go("stopped", {}, 0, change);
    ADD_FAILURE() << "was not interrupted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInterrupted);
  }
  EXPECT_EQ(go("stopped").first_layer, 2);
  EXPECT_EQ(digest_file(out("stopped")), digest_file(out("whole")));
}

TEST_F(StreamedRun, TellsItsProgress) {
  double last = 0;
  double left = -1;
  std::vector<std::string> said;
  (void)go("out", {}, kPlenty, [&](StreamedSettings& settings) {
    settings.progress = [&](const StreamedProgress& progress) {
      EXPECT_GT(progress.done, last);
      last = progress.done;
      left = progress.seconds_left;
      said.push_back(progress.what);
      EXPECT_LE(progress.done, progress.total * (1 + 1e-9));
    };
  });
  EXPECT_EQ(said.size(), 8 * 2 + 70U);
  EXPECT_EQ(said.front(), "layer 1 of 8");
  EXPECT_EQ(said.back(), "scores, window 70 of 70");
  EXPECT_NEAR(left, 0, 1e-6);
}

TEST_F(StreamedRun, WindowsThatTheModelCannotReadAreRefused) {
  const auto refused = [&](const std::function<void()>& spoil, const std::string& where, const std::string& what) {
    const std::vector<StreamedWindow> before = windows_;
    spoil();
    expect_refused([&] { (void)go("never"); }, where, what);
    windows_ = before;
  };
  refused([&] { windows_[2].tokens.pop_back(); }, "window 'w2'", "has 64 tokens, the first has 65");
  refused([&] { windows_[1].tokens[9] = -1; }, "window 'w1', position 9", "token -1 is outside");
  refused([&] { windows_[1].tokens[9] = 1'000'000; }, "window 'w1', position 9", "token 1000000 is outside");
  refused([&] { windows_.clear(); }, "windows", "there are none");
  refused([&] { windows_ = random_windows(1, checkpoint_->config().max_positions + 1, 8); }, "windows", "positions");
}

// A token's embedding is the largest FP32 number and the first layer adds to it: the first window and position where it
// stands are named.
TEST_F(StreamedRun, LogitsThatAreNotFiniteAreNamedByWindowAndPosition) {
  const auto hidden = static_cast<std::size_t>(checkpoint_->config().hidden_size);
  constexpr std::int32_t kToken = 5;
  for (StreamedWindow& window : windows_)
    for (std::int32_t& token : window.tokens) token = token == kToken ? kToken + 1 : token;
  const ChangedCheckpoint large(*checkpoint_, "layers.0.mlp.down_proj.weight",
                                [](float value, std::size_t) { return value * 1e33F; });
  const ChangedCheckpoint overflowing(large, "embed_tokens.weight", [&](float value, std::size_t element) {
    return element / hidden == kToken ? std::numeric_limits<float>::max() : value;
  });
  EXPECT_NO_THROW((void)go("finite", {}, kPlenty, {}, &overflowing)) << "without that token";
  windows_[1].tokens[40] = kToken;
  windows_[1].tokens[50] = kToken;
  expect_refused([&] { (void)go("never", {}, kPlenty, {}, &overflowing); }, "window 1 ('w1'), position 40",
                 "the activations after layer 0 are not all finite");
  EXPECT_FALSE(std::filesystem::exists(out("never")));
}

TEST_F(StreamedRun, LogitsThatOverflowAreNamedToo) {
  const ChangedCheckpoint overflowing(*checkpoint_, head_tensor(checkpoint_->config()),
                                      [](float, std::size_t) { return 3e38F; });
  expect_refused([&] { (void)go("never", {}, kPlenty, {}, &overflowing); }, "window 0 ('w0'), position 0",
                 "the logits are not all finite");
}

}  // namespace
}  // namespace tare::engine::test
