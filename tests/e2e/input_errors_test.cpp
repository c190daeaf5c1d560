// Every wrong input of a kind that users meet: one clear error line, exit code 2, and the place is named.
#include <gmock/gmock.h>

#include <cstring>
#include <fstream>
#include <limits>

#include "engine/checkpoint/safetensors.h"
#include "tests/e2e/workspace.h"

namespace tare::e2e {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

class InputErrors : public Workspace {
 protected:
  fs::path model_;

  void SetUp() override {
    Workspace::SetUp();
    model_ = folder_ / "model";
    fs::create_directories(model_);
    for (const fs::directory_entry& entry : fs::directory_iterator(source("tests/fixtures/hybrid-small")))
      if (entry.path().filename() == "config.json" || entry.path().filename() == "model.safetensors")
        fs::copy_file(entry.path(), model_ / entry.path().filename());
    write("tokens.json", "[1, 2, 3]");
  }

  [[nodiscard]] Finished logits() const {
    return run({tare(), "logits", "--model", model_.string(), "--tokens", "tokens.json", "--out", "logits.safetensors"},
               folder_);
  }

  // Exit code 2, one error line with all the parts, nothing written.
  static void expect_error(const Finished& result, const std::vector<std::string>& parts) {
    EXPECT_EQ(result.code, 2) << result.err;
    EXPECT_EQ(result.err.rfind("error: ", 0), 0U) << result.err;
    EXPECT_EQ(result.err.find("error: ", 1), std::string::npos) << result.err;
    const std::string line = result.err.substr(0, result.err.find('\n'));
    for (const std::string& part : parts) EXPECT_THAT(line, HasSubstr(part));
  }

  // The fixture's tensors, changed by `change`, written in place of its file.
  template <class Change>
  void rewrite_weights(const Change& change) const {
    const fs::path file = model_ / "model.safetensors";
    std::vector<engine::Tensor> tensors;
    {
      const engine::SafetensorsFile source_file(file);
      for (const std::string& name : source_file.names()) tensors.push_back(source_file.tensor(name));
    }
    std::vector<std::vector<std::byte>> copies;
    for (engine::Tensor& tensor : tensors) {
      copies.emplace_back(tensor.bytes.begin(), tensor.bytes.end());
      change(tensor, copies.back());
      tensor.bytes = copies.back();
    }
    engine::write_safetensors(file, tensors, {});
  }
  void change_config(const std::string& key, const Json& value) const {
    Json config = read_json_file(model_ / "config.json");
    config[key] = value;
    write_file_atomically(model_ / "config.json", config.dump());
  }
};

TEST_F(InputErrors, TheUnchangedModelIsGood) {
  EXPECT_EQ(logits().code, 0);
}

TEST_F(InputErrors, TruncatedSafetensors) {
  fs::resize_file(model_ / "model.safetensors", fs::file_size(model_ / "model.safetensors") - 1000);
  expect_error(logits(), {"model.safetensors"});
}

TEST_F(InputErrors, HeaderOfTwoToTheSixty) {
  std::fstream file(model_ / "model.safetensors", std::ios::binary | std::ios::in | std::ios::out);
  const std::uint64_t length = std::uint64_t{1} << 60;
  file.write(reinterpret_cast<const char*>(&length), sizeof length);
  file.close();
  expect_error(logits(), {"model.safetensors", "header"});
}

TEST_F(InputErrors, MissingShard) {
  write_file_atomically(model_ / "model.safetensors.index.json",
                        R"({"weight_map": {"model.embed_tokens.weight": "model-00001-of-00002.safetensors"}})");
  fs::remove(model_ / "model.safetensors");
  expect_error(logits(), {"model-00001-of-00002.safetensors"});
}

TEST_F(InputErrors, WrongShape) {
  change_config("intermediate_size", 96);
  expect_error(logits(), {"mlp", "80", "96"});
}

TEST_F(InputErrors, NanWeights) {
  rewrite_weights([](const engine::Tensor& tensor, std::vector<std::byte>& bytes) {
    if (tensor.name.find("layers.2.mlp.up_proj") == std::string::npos) return;
    const std::uint16_t nan = 0x7fc0;  // BF16
    std::memcpy(bytes.data() + 10, &nan, sizeof nan);
  });
  expect_error(logits(), {"layers.2.mlp.up_proj.weight", "NaN"});
}

TEST_F(InputErrors, AnotherArchitecture) {
  change_config("model_type", "llama");
  change_config("architectures", Json::array({"LlamaForCausalLM"}));
  expect_error(logits(), {"config.json", "LlamaForCausalLM"});
}

TEST_F(InputErrors, TokenOutsideTheVocabulary) {
  write("tokens.json", "[1, 320]");
  expect_error(logits(), {"320"});
}

TEST_F(InputErrors, BadPromptLine) {
  Json experiment = small_experiment();
  experiment["prompts"] = {{"file", write("prompts.jsonl", R"({"question_id": 1, "category": "c", "turns": ["x"]})"
                                                           "\nnot json\n")}};
  expect_error(tare_run(write(experiment)), {"prompts.jsonl line 2"});
}

TEST_F(InputErrors, ZeroPrompts) {
  Json experiment = small_experiment();
  experiment["prompts"] = {{"file", write("prompts.jsonl", "\n")}};
  expect_error(tare_run(write(experiment)), {"prompts.jsonl", "no prompts"});
}

TEST_F(InputErrors, MisspeltKeys) {
  Json experiment = small_experiment();
  experiment["schedul"] = experiment["schedule"];
  Finished result = tare_run(write(experiment));
  expect_error(result, {"schedul"});
  EXPECT_THAT(result.err, HasSubstr("did you mean 'schedule'?"));
  experiment = small_experiment();
  experiment["arms"][1]["options"]["weights"]["fromat"] = "q4";
  result = tare_run(write(experiment));
  expect_error(result, {"fromat"});
  EXPECT_THAT(result.err, HasSubstr("did you mean 'format'?"));
}

TEST_F(InputErrors, ArmWhoseProgramIsNotThere) {
  Json experiment = small_experiment();
  experiment["arms"][1]["program"] = {"./no-such-worker"};
  const Finished result = tare_run(write(experiment));
  expect_error(result, {"no-such-worker"});
  EXPECT_FALSE(fs::exists(folder_ / "out" / "verdict.json"));
}

TEST_F(InputErrors, ModelThatIsNotThere) {
  Json experiment = small_experiment();
  experiment["model"] = "nowhere";
  expect_error(tare_run(write(experiment)), {"nowhere"});
}

TEST_F(InputErrors, ProfilesAndWidthsThatMakeNoSense) {
  expect_error(run({tare(), "profile", "--model", model_.string(), "--width", "33"}, folder_), {"--width", "1 to 32"});
  expect_error(run({tare(), "profile", "--model", model_.string(), "--rounds", "0"}, folder_),
               {"--rounds", "at least 1"});
  expect_error(run({tare(), "ceiling", "--model", model_.string(), "--width", "33"}, folder_), {"--width", "1 to 32"});
}

TEST_F(InputErrors, UnknownCommandsAndOptions) {
  expect_error(run({tare(), "rum"}, folder_), {"rum"});
  expect_error(run({tare(), "run", "x.json", "--ot", "y"}, folder_), {"--ot"});
  expect_error(
      run({tare(), "generate", "--model", model_.string(), "--prompt", "x", "--set", "weights.format=q5"}, folder_),
      {});
}

}  // namespace
}  // namespace tare::e2e
