// tare reference and tare fidelity together, from the texts to the exit code.
#include <gmock/gmock.h>

#include "tests/e2e/workspace.h"

namespace tare::e2e {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class FidelityCommand : public Workspace {
 protected:
  const std::string model_ = source("models/embedded");

  // 44 windows of 48 tokens: half prose, half code, enough windows of each for a verdict.
  void SetUp() override {
    Workspace::SetUp();
    const Finished made = run({tare(), "reference", "--model", model_, "--texts", source("prompts/windows.jsonl"),
                               "--window-tokens", "48", "--out", "reference.safetensors"},
                              folder_);
    ASSERT_EQ(made.code, 0) << made.err;
  }
  [[nodiscard]] Finished fidelity(const std::vector<std::string>& more, const std::string& model = {}) const {
    std::vector<std::string> argv = {
        tare(),  "fidelity", "--model", model.empty() ? model_ : model, "--reference", "reference.safetensors",
        "--out", "out"};
    argv.insert(argv.end(), more.begin(), more.end());
    return run(argv, folder_);
  }
  [[nodiscard]] Json result() const { return read_json_file(folder_ / "out" / "fidelity.json"); }
};

// Two programs that share no arithmetic: the engine with FP32 caches and the streamed reference.
TEST_F(FidelityCommand, TheEngineInFp32EqualsTheReference) {
  const Finished scored = fidelity({"--set", "kv.key=fp32", "--set", "kv.value=fp32", "--round-nodes", "1,8"});
  ASSERT_EQ(scored.code, 0) << scored.err;
  const Json json = result();
  ASSERT_EQ(json["rows"].size(), 15U);
  for (const Json& row : json["rows"]) {
    EXPECT_LT(row["kl64_tail"]["mean"].get<double>(), 1e-6) << row["path"] << row["head"];
    EXPECT_GT(row["top1"]["mean"].get<double>(), 0.997);
    EXPECT_LT(std::abs(row["nll_difference"]["mean"].get<double>()), 1e-5);
  }
  EXPECT_THAT(scored.out, HasSubstr("decode 8"));
  EXPECT_THAT(scored.err, HasSubstr("window"));
}

TEST_F(FidelityCommand, APolicyPassesAFinerAndFailsACoarserFormat) {
  write("policy.json", R"({"version": 1, "fidelity": {"nodes": 4, "margins": {"kl64_tail": 0.02, "top1": 0.05}}})");
  const auto judge = [&](const std::string& format, const std::vector<std::string>& more = {}) {
    std::vector<std::string> arguments = {"--set",         "weights.format=" + format,
                                          "--baseline",    "{}",
                                          "--path",        "decode",
                                          "--round-nodes", "4",
                                          "--policy",      "policy.json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return fidelity(arguments);
  };
  const Finished accepted = judge("q8", {"--budget", "budget.jsonl", "--accept", "q8 weights"});
  EXPECT_EQ(accepted.code, 0) << accepted.out << accepted.err;
  EXPECT_THAT(read_text_file(folder_ / "budget.jsonl"), HasSubstr("q8 weights"));
  const Finished failed = judge("q3");
  EXPECT_EQ(failed.code, 1) << failed.out << failed.err;
  EXPECT_EQ(result()["verdict"], "worse");
  const Finished refused = judge("q3", {"--budget", "budget.jsonl", "--accept", "q3 weights"});
  EXPECT_EQ(refused.code, 2) << "what failed cannot be accepted";
  // Only 4 windows: 2 of a kind say nothing.
  EXPECT_EQ(judge("q8", {"--windows", "4"}).code, 3);
}

// A checkpoint of tare quantize says bit for bit what quantising at load says, and is scored against the reference of
// the checkpoint that it was made from; against no other.
TEST_F(FidelityCommand, AQuantisedCheckpointScoresAsTheFormatItHolds) {
  const auto scores = [&] {
    Json rows = result()["rows"];
    for (Json& row : rows) row.erase("difference");
    return rows;
  };
  const std::vector<std::string> small = {"--windows", "2", "--round-nodes", "4"};
  std::vector<std::string> at_load = small;
  at_load.insert(at_load.end(), {"--set", "weights.format=q4"});
  ASSERT_EQ(fidelity(at_load).code, 0);
  const Json wanted = scores();
  const Finished made =
      run({tare(), "quantize", "--model", model_, "--set", "weights.format=q4", "--out", "q4"}, folder_);
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_EQ(fidelity(small, "q4").code, 2) << "its digest is not the reference's";
  std::vector<std::string> of_model = small;
  of_model.insert(of_model.end(), {"--reference-model", model_});
  const Finished scored = fidelity(of_model, "q4");
  ASSERT_EQ(scored.code, 0) << scored.err;
  EXPECT_EQ(scores(), wanted);
}

TEST_F(FidelityCommand, RefusesWhatTheReferenceIsNotOf) {
  const Finished other = fidelity({}, source("tests/fixtures/hybrid-small"));
  EXPECT_EQ(other.code, 2);
  EXPECT_THAT(other.err, AllOf(HasSubstr("reference.safetensors"), HasSubstr("checkpoint")));
  std::string texts = read_text_file(source("prompts/windows.jsonl"));
  texts.replace(texts.find("weighs"), 6, "ponder");
  write("texts.jsonl", texts);
  const Finished another = fidelity({"--texts", "texts.jsonl"});
  EXPECT_EQ(another.code, 2);
  EXPECT_THAT(another.err, HasSubstr("another text"));
  EXPECT_EQ(fidelity({"--texts", source("prompts/windows.jsonl"), "--windows", "2", "--path", "prefill"}).code, 0);
}

// What was scored is drawn against what was timed, arm by arm of the same name.
TEST_F(FidelityCommand, IsDrawnAgainstTheSpeedOfARun) {
  const Finished measured = run({tare(), "run", write(small_experiment()), "--out", "speed"}, folder_);
  ASSERT_EQ(measured.code, 0) << measured.err;
  const std::filesystem::path figure = folder_ / "speed" / "figures" / "front.svg";
  EXPECT_FALSE(std::filesystem::exists(figure)) << "nothing was scored yet";
  write("arms.json", R"({"q8": {"weights": {"format": "q8"}}, "q4": {"weights": {"format": "q4"}}})");
  ASSERT_EQ(fidelity({"--arms", "arms.json", "--windows", "2", "--path", "prefill"}).code, 0);

  const Finished drawn = run({tare(), "report", "speed", "--fidelity", "out"}, folder_);
  ASSERT_EQ(drawn.code, 0) << drawn.err;
  const Json scored = read_json_file(folder_ / "speed" / "findings.json")["fidelity"];
  ASSERT_EQ(scored["arms"].size(), 2U);
  EXPECT_EQ(scored["arms"][0]["arm"], "q8");
  EXPECT_LT(scored["arms"][0]["divergence_nats"].get<double>(), scored["arms"][1]["divergence_nats"].get<double>());
  EXPECT_TRUE(std::filesystem::exists(figure));
  EXPECT_THAT(read_text_file(folder_ / "speed" / "report.html"), HasSubstr("Fidelity against speed"));

  // The file alone does as well as its directory; scores of other arms are refused by name.
  EXPECT_EQ(run({tare(), "report", "speed", "--fidelity", "out/fidelity.json"}, folder_).code, 0);
  write("arms.json", R"({"w8": {"weights": {"format": "q8"}}, "w4": {"weights": {"format": "q4"}}})");
  ASSERT_EQ(fidelity({"--arms", "arms.json", "--windows", "2", "--path", "prefill"}).code, 0);
  const Finished refused = run({tare(), "report", "speed", "--fidelity", "out"}, folder_);
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("none of this run's arms"));
}

}  // namespace
}  // namespace tare::e2e
