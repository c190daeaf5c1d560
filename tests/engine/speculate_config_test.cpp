// config.json of block drafters: what is read, what follows from it, what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/checkpoint/model_config.h"
#include "engine/speculate/block_drafter_config.h"
#include "tests/engine/model_files.h"

namespace tare::engine {
namespace {

using testing::ElementsAre;

ModelConfig target() {
  ModelConfig config;
  config.hidden_size = 48;
  config.vocab_size = 320;
  config.layers.assign(8, LayerKind::kFullAttention);
  return config;
}

Json config() {
  return read_json_file(kFixtures / "block-drafter" / "config.json");
}

BlockDrafterConfig parsed(const Json& json) {
  return parse_block_drafter_config(json, target(), "config.json");
}

void expect_fault(const Json& json, const std::string& where, const std::string& what) {
  expect_refused([&] { (void)parsed(json); }, where, what);
}

std::vector<std::pair<std::int64_t, bool>> masks(const Json& json) {
  std::vector<std::pair<std::int64_t, bool>> result;
  for (const DraftLayerMask& mask : parsed(json).layers) result.emplace_back(mask.window, mask.causal);
  return result;
}

TEST(BlockDrafterConfig, ReadsThePublicLayout) {
  const BlockDrafterConfig read = read_block_drafter_config(kFixtures / "block-drafter", target());
  EXPECT_EQ(read.hidden_size, 48);
  EXPECT_EQ(read.intermediate_size, 80);
  EXPECT_EQ(read.vocab_size, 320);
  EXPECT_EQ(read.heads, 4);
  EXPECT_EQ(read.key_value_heads, 2);
  EXPECT_EQ(read.head_dim, 24);
  EXPECT_EQ(read.rope_theta, 10000);
  EXPECT_EQ(read.eps, 1e-6F);
  EXPECT_EQ(read.block_size, 8);
  EXPECT_EQ(read.mask_token, 5);
  EXPECT_THAT(read.taps, ElementsAre(1, 3, 5));
  EXPECT_EQ(read.layer_count(), 3);
  EXPECT_EQ(plan_block_drafter(read).size(), 36U);
}

TEST(BlockDrafterConfig, BlockSizeAndThetaAtTheirOtherPlaces) {
  Json json = config();
  json["dflash_config"]["block_size"] = 12;
  expect_fault(json, "dflash_config.block_size", "contradicts");
  json.erase("block_size");
  EXPECT_EQ(parsed(json).block_size, 12);
  json["dflash_config"].erase("block_size");
  expect_fault(json, "block_size", "is missing");
  json = config();
  json.erase("rope_parameters");
  expect_fault(json, "rope_theta", "is missing");
  json["rope_theta"] = 5000000;
  EXPECT_EQ(parsed(json).rope_theta, 5e6);
}

TEST(BlockDrafterConfig, TapsFollowFromTheLayersWhenNotNamed) {
  EXPECT_THAT(default_taps(64, 5), ElementsAre(1, 16, 31, 46, 61));
  EXPECT_THAT(default_taps(32, 5), ElementsAre(1, 8, 15, 22, 29));
  EXPECT_THAT(default_taps(64, 1), ElementsAre(32));
  EXPECT_THAT(default_taps(9, 3), ElementsAre(1, 4, 6));   // 3.5 to the even 4
  EXPECT_THAT(default_taps(11, 3), ElementsAre(1, 4, 8));  // 4.5 to the even 4
  Json json = config();
  json["dflash_config"].erase("target_layer_ids");
  EXPECT_THAT(parsed(json).taps, ElementsAre(1, 3, 5));
}

// Pitfall: sliding layers are causal when nothing is said, full ones are not.
TEST(BlockDrafterConfig, CausalityIsTheConfigsOrTheKindsOfLayers) {
  Json json = config();
  EXPECT_THAT(masks(json), ElementsAre(std::pair(0, false), std::pair(0, false), std::pair(0, false)));
  json["layer_types"] = {"sliding_attention", "sliding_attention", "full_attention"};
  expect_fault(json, "sliding_window", "must be an integer");
  json["sliding_window"] = 2048;
  EXPECT_THAT(masks(json), ElementsAre(std::pair(2048, true), std::pair(2048, true), std::pair(0, false)));
  json["is_causal"] = false;
  EXPECT_THAT(masks(json), ElementsAre(std::pair(2048, false), std::pair(2048, false), std::pair(0, false)));
  json["is_causal"] = true;
  EXPECT_THAT(masks(json), ElementsAre(std::pair(2048, true), std::pair(2048, true), std::pair(0, true)));
  json["dflash_config"]["causal"] = false;
  expect_fault(json, "dflash_config.causal", "contradicts");
  json.erase("is_causal");
  EXPECT_THAT(masks(json), ElementsAre(std::pair(2048, false), std::pair(2048, false), std::pair(0, false)));
}

TEST(BlockDrafterConfig, OtherArchitecturesAreRefusedByName) {
  Json json = config();
  json["architectures"] = {"DFlash2DraftModel"};
  expect_fault(json, "architectures", "'DFlash2DraftModel' is not supported: its grouped convolutions");
  json["architectures"] = {"Qwen3DSparkModel"};
  expect_fault(json, "architectures", "its Markov head");
  json["architectures"] = {"LlamaForCausalLM"};
  expect_fault(json, "architectures", "is not a block drafter");
}

TEST(BlockDrafterConfig, ADrafterForAnotherTargetIsOneErrorThatNamesBoth) {
  for (const auto& [key, value] : {std::pair("hidden_size", 64), {"vocab_size", 321}, {"num_target_layers", 64}}) {
    Json json = config();
    json[key] = value;
    expect_fault(json, "config.json", "is a drafter for another target: one of hidden_size");
    expect_fault(json, "config.json", std::to_string(value));
    expect_fault(json, "config.json", "this model has 48, 320 and 8");
  }
  Json json = config();
  json["dflash_config"]["target_layer_ids"] = {1, 8};
  expect_fault(json, "target_layer_ids[1]", "8 is not a layer of the target, which has 8");
  json["dflash_config"]["target_layer_ids"] = Json::array();
  expect_fault(json, "target_layer_ids", "must name a layer");
}

TEST(BlockDrafterConfig, WhatIsNotComputedIsRefused) {
  const auto with = [](const std::string& key, const Json& value) {
    Json json = config();
    json[key] = value;
    return json;
  };
  const auto with_own = [](const std::string& key, const Json& value) {
    Json json = config();
    json["dflash_config"][key] = value;
    return json;
  };
  expect_fault(with("attention_bias", true), "attention_bias", "not supported");
  expect_fault(with("hidden_act", "gelu"), "hidden_act", "'gelu' is not supported");
  expect_fault(with("draft_vocab_size", 100), "draft_vocab_size", "100 is not supported");
  expect_fault(with_own("use_swa", true), "use_swa", "true is not supported");
  EXPECT_NO_THROW((void)parsed(with_own("use_swa", false)));
  expect_fault(with_own("attention_sink_bias", true), "attention_sink_bias", "not supported");
  expect_fault(with("rope_parameters", {{"rope_theta", 1e4}, {"rope_type", "yarn"}}), "rope_type", "'yarn'");
  expect_fault(with("rope_parameters", {{"rope_theta", 1e4}, {"partial_rotary_factor", 0.25}}), "partial_rotary_factor",
               "must be 1");
  expect_fault(with("num_key_value_heads", 3), "num_key_value_heads", "does not divide");
  expect_fault(with("head_dim", 23), "head_dim", "must be even");
  expect_fault(with("block_size", 1), "block_size", "must lie in 2");
  expect_fault(with_own("mask_token_id", 320), "mask_token_id", "must lie in 0 to 319");
  expect_fault(with("layer_types", {"full_attention"}), "layer_types", "has 1 entries, num_hidden_layers is 3");
  expect_fault(with("layer_types", {"a", "b", "c"}), "layer_types[0]", "unknown value 'a'");
  expect_refused([] { (void)read_block_drafter_config("/no/such/folder", target()); }, "/no/such/folder/config.json",
                 "is not there");
}

}  // namespace
}  // namespace tare::engine
