// config.json: what is read, what stands in for an absent field, what is refused and how the error names it.
#include <functional>
#include <ostream>
#include <string>

#include "engine/checkpoint/model_config.h"
#include "tests/engine/model_files.h"

namespace tare::engine {
namespace {

using testing::ElementsAre;

ModelConfig parse(const Json& config, const Json& generation = Json()) {
  return parse_model_config(config, generation, "config.json");
}

Json nested(const Json& text) {
  Json inner = text;
  inner.erase("architectures");
  return {{"architectures", Json::array({"Qwen3_5ForConditionalGeneration"})},
          {"model_type", "qwen3_5"},
          {"text_config", inner},
          {"vision_config", {{"depth", 27}}}};
}

TEST(ModelConfig, ReadsEveryFieldInBothNestings) {
  for (const Json& json : {small_config(), nested(small_config())}) {
    const ModelConfig config = parse(json);
    EXPECT_EQ(config.hidden_size, 16);
    EXPECT_EQ(config.intermediate_size, 24);
    EXPECT_EQ(config.vocab_size, 64);
    EXPECT_THAT(config.layers, ElementsAre(LayerKind::kLinearAttention, LayerKind::kLinearAttention,
                                           LayerKind::kLinearAttention, LayerKind::kFullAttention));
    EXPECT_EQ(config.attention_heads, 4);
    EXPECT_EQ(config.key_value_heads, 2);
    EXPECT_EQ(config.head_dim, 8);
    EXPECT_EQ(config.rotary_dim, 4);
    EXPECT_EQ(config.rope_theta, 10000);
    EXPECT_EQ(config.linear_key_heads, 2);
    EXPECT_EQ(config.linear_value_heads, 6);
    EXPECT_EQ(config.linear_key_head_dim, 4);
    EXPECT_EQ(config.linear_value_head_dim, 5);
    EXPECT_EQ(config.conv_kernel, 4);
    EXPECT_EQ(config.rms_norm_eps, 1e-6F);
    EXPECT_FALSE(config.tie_word_embeddings);
    EXPECT_EQ(config.mtp_layers, 1);
    EXPECT_EQ(config.max_positions, 128);
    EXPECT_THAT(config.eos_token_ids, ElementsAre(3));
    EXPECT_EQ(config.conv_channels(), 2 * 8 + 30);
  }
}

TEST(ModelConfig, LayerTypesWinOverTheInterval) {
  Json json = small_config();
  json["full_attention_interval"] = 2;
  EXPECT_EQ(parse(json).layers[1], LayerKind::kFullAttention);
  json["layer_types"] = {"full_attention", "linear_attention", "linear_attention", "linear_attention"};
  EXPECT_THAT(parse(json).layers, ElementsAre(LayerKind::kFullAttention, LayerKind::kLinearAttention,
                                              LayerKind::kLinearAttention, LayerKind::kLinearAttention));
}

TEST(ModelConfig, NullCountsAsAbsentAndUnknownKeysAreFine) {
  Json json = small_config();
  json["layer_types"] = nullptr;
  json["head_dim"] = nullptr;
  json["rope_parameters"]["partial_rotary_factor"] = nullptr;
  json["eos_token_id"] = nullptr;
  json["mtp_num_hidden_layers"] = nullptr;
  json["use_cache"] = true;
  const ModelConfig config = parse(json);
  EXPECT_EQ(config.head_dim, 256);
  EXPECT_EQ(config.rotary_dim, 64);
  EXPECT_EQ(config.mtp_layers, 0);
  EXPECT_TRUE(config.eos_token_ids.empty());
}

TEST(ModelConfig, RopeIsReadFromBothPlaces) {
  Json json = small_config();
  json.erase("rope_parameters");
  json["rope_theta"] = 5000000;
  json["partial_rotary_factor"] = 0.25;
  EXPECT_EQ(parse(json).rope_theta, 5e6);
  EXPECT_EQ(parse(json).rotary_dim, 2);
  json["rope_parameters"] = {{"rope_theta", 5000000}, {"mrope_section", {11, 11, 10}}, {"mrope_interleaved", true}};
  EXPECT_EQ(parse(json).rope_theta, 5e6);
  json["rope_parameters"]["rope_theta"] = 4000000;
  expect_refused([&] { parse(json); }, "rope_theta", "is 4e+06, but config.json.rope_theta is 5e+06");
}

TEST(ModelConfig, TiedEmbeddingsComeFromTheTextThenTheTop) {
  Json json = nested(small_config());
  json["text_config"].erase("tie_word_embeddings");
  EXPECT_FALSE(parse(json).tie_word_embeddings);
  json["tie_word_embeddings"] = true;
  EXPECT_TRUE(parse(json).tie_word_embeddings);
  json["text_config"]["tie_word_embeddings"] = false;
  EXPECT_FALSE(parse(json).tie_word_embeddings);
}

TEST(ModelConfig, EndOfTextComesFromGenerationThenTextThenTop) {
  Json json = nested(small_config());
  json["eos_token_id"] = 9;
  EXPECT_THAT(parse(json, {{"eos_token_id", {6, 3}}}).eos_token_ids, ElementsAre(6, 3));
  EXPECT_THAT(parse(json, {{"eos_token_id", nullptr}}).eos_token_ids, ElementsAre(3));
  json["text_config"].erase("eos_token_id");
  EXPECT_THAT(parse(json).eos_token_ids, ElementsAre(9));
  expect_refused(
      [&] {
        parse(json, {{"eos_token_id", {6, 64}}});
      },
      "generation_config.json.eos_token_id", "64 is not a token id below vocab_size 64");
}

struct BadConfig {
  const char* name;
  std::function<void(Json&)> spoil;
  const char* where;
  const char* what;
};

void PrintTo(const BadConfig& bad, std::ostream* stream) {
  *stream << bad.name;
}

class RefusedConfig : public testing::TestWithParam<BadConfig> {};

TEST_P(RefusedConfig, NamesFieldAndReason) {
  Json json = small_config();
  EXPECT_NO_THROW(parse(json));
  GetParam().spoil(json);
  expect_refused([&] { parse(json); }, std::string("config.json.") + GetParam().where, GetParam().what);
}

BadConfig set(const char* name, const char* key, Json value, const char* what) {
  return {name, [key, value](Json& json) { json[key] = value; }, key, what};
}

BadConfig lose(const char* key) {
  return {key, [key](Json& json) { json.erase(key); }, key, "is missing"};
}

INSTANTIATE_TEST_SUITE_P(
    Settings, RefusedConfig,
    testing::Values(set("bias", "attention_bias", true, "no bias"),
                    set("no_gate", "attn_output_gate", false, "always gated"),
                    set("own_embeddings", "mtp_use_dedicated_embeddings", true, "shares"),
                    set("mlp_only", "mlp_only_layers", Json::array({1}), "must be empty"),
                    set("experts", "num_experts", 128, "experts"),
                    set("activation", "hidden_act", "gelu", "'gelu' is not supported"),
                    set("gate_type", "output_gate_type", "sigmoid", "'sigmoid' is not supported"),
                    set("quantised", "quantization_config", {{"quant_method", "fp8"}}, "not read"),
                    set("architecture", "architectures", Json::array({"LlamaForCausalLM"}),
                        "another architecture: 'LlamaForCausalLM'"),
                    set("mixture", "architectures", Json::array({"Qwen3_5MoeForCausalLM"}), "another architecture"),
                    set("model_type", "model_type", "llama", "another architecture: 'llama'"),
                    BadConfig{"unnamed",
                              [](Json& json) {
                                json.erase("architectures");
                                json.erase("model_type");
                              },
                              "model_type", "is missing"},
                    BadConfig{"yarn", [](Json& json) { json["rope_parameters"]["rope_type"] = "yarn"; },
                              "rope_parameters.rope_type", "'yarn' is not supported"},
                    BadConfig{"old_yarn",
                              [](Json& json) {
                                json["rope_scaling"] = {{"type", "yarn"}};
                              },
                              "rope_scaling.type", "yarn"},
                    BadConfig{"no_theta", [](Json& json) { json["rope_parameters"].erase("rope_theta"); },
                              "rope_parameters.rope_theta", "is missing"},
                    BadConfig{"bad_theta", [](Json& json) { json["rope_parameters"]["rope_theta"] = 0; },
                              "rope_parameters.rope_theta", "above 1"},
                    BadConfig{"odd_rotary",
                              [](Json& json) { json["rope_parameters"]["partial_rotary_factor"] = 0.375; },
                              "rope_parameters.partial_rotary_factor", "even"},
                    BadConfig{"large_rotary", [](Json& json) { json["rope_parameters"]["partial_rotary_factor"] = 2; },
                              "rope_parameters.partial_rotary_factor", "even"},
                    BadConfig{"sections",
                              [](Json& json) {
                                json["rope_parameters"]["mrope_section"] = {1, 2};
                              },
                              "rope_parameters.mrope_section", "three"}),
    [](const auto& bad) { return std::string(bad.param.name); });

INSTANTIATE_TEST_SUITE_P(
    Sizes, RefusedConfig,
    testing::Values(set("zero_hidden", "hidden_size", 0, "must lie in 1 to"),
                    set("negative", "intermediate_size", -5, "must lie in 1 to"),
                    set("text", "vocab_size", "64", "must be an integer, is string"),
                    set("fraction", "num_hidden_layers", 4.5, "must be an integer"),
                    set("no_layers", "num_hidden_layers", 0, "must lie in 1 to"),
                    set("huge", "hidden_size", 1LL << 40, "must lie in 1 to"),
                    set("overflow", "hidden_size", 18446744073709551615ULL, "too large"),
                    set("kv_heads", "num_key_value_heads", 3, "3 does not divide num_attention_heads 4"),
                    set("linear_heads", "linear_num_key_heads", 4, "4 does not divide linear_num_value_heads 6"),
                    set("interval", "full_attention_interval", 0, "must lie in 1 to"),
                    set("eps", "rms_norm_eps", 0, "above 0"),
                    set("mtp", "mtp_num_hidden_layers", -1, "must lie in 0 to"),
                    set("eos", "eos_token_id", 64, "64 is not a token id"),
                    set("eos_text", "eos_token_id", "</s>", "is not a token id"),
                    set("layer_count", "layer_types", Json::array({"full_attention"}),
                        "has 1 entries, num_hidden_layers is 4"),
                    BadConfig{"layer_kind",
                              [](Json& json) {
                                json["layer_types"] = {"full_attention", "sliding_attention"};
                              },
                              "layer_types[1]", "unknown value 'sliding_attention'"}),
    [](const auto& bad) { return std::string(bad.param.name); });

INSTANTIATE_TEST_SUITE_P(Missing, RefusedConfig,
                         testing::Values(lose("hidden_size"), lose("intermediate_size"), lose("num_hidden_layers"),
                                         lose("vocab_size"), lose("num_attention_heads"), lose("num_key_value_heads"),
                                         lose("linear_num_key_heads"), lose("linear_num_value_heads"),
                                         lose("linear_key_head_dim"), lose("linear_value_head_dim"),
                                         lose("linear_conv_kernel_dim"), lose("max_position_embeddings")),
                         [](const auto& bad) { return std::string(bad.param.name); });

TEST(ModelConfig, FieldsOfTheNestedTextAreNamedWithTheirPath) {
  Json json = nested(small_config());
  json["text_config"]["hidden_size"] = 0;
  expect_refused([&] { parse(json); }, "config.json.text_config.hidden_size", "must lie in");
  json["text_config"] = 5;
  expect_refused([&] { parse(json); }, "config.json.text_config", "must be an object");
}

TEST(ModelConfig, TheFilesAreReadFromADirectory) {
  const ScratchDirectory scratch;
  expect_refused([&] { static_cast<void>(read_model_config(scratch.path())); }, "config.json", "is not there");
  write_config(scratch.path(), small_config());
  write_file_atomically(scratch.path() / "generation_config.json", R"({"eos_token_id": [5, 6]})");
  EXPECT_THAT(read_model_config(scratch.path()).eos_token_ids, ElementsAre(5, 6));
  write_file_atomically(scratch.path() / "config.json", "{\"hidden_size\": 1,\n}");
  expect_refused([&] { static_cast<void>(read_model_config(scratch.path())); }, "config.json:2:1", "is not JSON");
}

}  // namespace
}  // namespace tare::engine
