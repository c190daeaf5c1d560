#include "profiles/roofline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <stdexcept>

#include "base/error.h"
#include "engine/backends/make_backend.h"
#include "profiles/floor_phases.h"

namespace tare::profiles {
namespace {

using testing::HasSubstr;

constexpr double kRate = 10e9;

std::unique_ptr<engine::Backend> embedded() {
  engine::EngineOptions options;
  options.cpu.threads = 1;
  options.context = 256;
  options.weights.format = engine::WeightFormat::kQ4;
  return engine::make_backend(*engine::open_checkpoint(std::string(TARE_SOURCE_DIR) + "/models/embedded"), options);
}

const RooflineRow& row_of(const Roofline& roofline, RooflineClass kind) {
  for (const RooflineRow& row : roofline.rows)
    if (row.kind == kind) return row;
  throw std::logic_error("no such row");
}

std::string fault(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Roofline, CountsTheOperationsOfASmallModelByHand) {
  engine::ModelConfig config;
  config.attention_heads = 4;
  config.head_dim = 8;
  config.linear_key_heads = config.linear_value_heads = 2;
  config.linear_key_head_dim = config.linear_value_head_dim = 3;
  config.conv_kernel = 4;
  const engine::WeightInventory inventory{
      {{"layers.0.mlp.down_proj.weight", "q4", engine::AccessPattern::kStream, 53, 53, 100},
       {"layers.1.mlp.down_proj.weight", "q8", engine::AccessPattern::kStream, 103, 103, 100},
       {"layers.0.kv cache", "bf16", engine::AccessPattern::kCache, 999, 40, 20},
       {"layers.1.recurrent state", "fp32", engine::AccessPattern::kState, 72, 144, 18},
       {"layers.1.convolution columns", "fp32", engine::AccessPattern::kState, 30, 30, 54},
       {"drafter.layers.0.mlp.down_proj.weight", "q4", engine::AccessPattern::kStream, 53, 53, 100},
       {"lm_head.weight (draft)", "q4", engine::AccessPattern::kStream, 0, 53, 100},
       {"norm.weight", "fp32", engine::AccessPattern::kStream, 32, 32, 8}}};
  const Roofline roofline = make_roofline(inventory, config, 10, 3, kRate, 5e9);
  ASSERT_EQ(roofline.rows.size(), 3U);
  const RooflineRow& mlp = row_of(roofline, RooflineClass::kMlp);
  EXPECT_EQ(mlp.bytes, 156U);
  EXPECT_DOUBLE_EQ(mlp.operations, 2 * 200 * 3);
  EXPECT_DOUBLE_EQ(mlp.intensity, 1200 / 156.0);
  EXPECT_DOUBLE_EQ(mlp.attainable, 5e9) << "7.7 operations a byte at 10 GB/s are more than arithmetic can do";
  const RooflineRow& cache = row_of(roofline, RooflineClass::kKeyValueCache);
  EXPECT_DOUBLE_EQ(cache.operations, 4 * 4 * 8 * (11 + 12 + 13)) << "token t sees 10 + t + 1 positions";
  const RooflineRow& state = row_of(roofline, RooflineClass::kRecurrentState);
  EXPECT_EQ(state.bytes, 174U);
  EXPECT_DOUBLE_EQ(state.operations, 3 * (7 * 18 + 2 * 18 * 4));
  EXPECT_DOUBLE_EQ(state.attainable, std::min(5e9, kRate * state.operations / 174));
  const Roofline unknown = make_roofline(inventory, config, 10, 3, kRate, std::nullopt);
  EXPECT_DOUBLE_EQ(row_of(unknown, RooflineClass::kMlp).attainable, kRate * 1200 / 156);
  EXPECT_DOUBLE_EQ(row_of(unknown, RooflineClass::kMlp).floor_s, 156 / kRate);
}

TEST(Roofline, TwiceTheTokensAreTwiceTheOperationsOfTheSameWeights) {
  const auto backend = embedded();
  const auto at = [&](std::int64_t width) {
    return make_roofline(backend->inventory(64, width), backend->config(), 64, width, kRate, std::nullopt);
  };
  for (const RooflineClass kind : {RooflineClass::kMlp, RooflineClass::kGdn, RooflineClass::kHead}) {
    EXPECT_EQ(row_of(at(1), kind).bytes, row_of(at(2), kind).bytes);
    EXPECT_DOUBLE_EQ(2 * row_of(at(1), kind).intensity, row_of(at(2), kind).intensity);
  }
}

TEST(Roofline, TakesTheTimesOfAProfileByClass) {
  const auto backend = embedded();
  const Json options = engine::to_json(backend->options());
  Roofline roofline = make_roofline(backend->inventory(64, 1), backend->config(), 64, 1, kRate, std::nullopt);
  Json profile = {{"width", 1}, {"options", options}, {"rows", Json::array()}};
  const auto add = [&](const std::string& launch, const std::string& part, double us) {
    profile["rows"].push_back({{"kernel", "k"}, {"launch", launch}, {"part", part}, {"us_per_round", us}});
  };
  add("product q4 + activation", "layers.*.mlp.gate_proj.weight", 40);
  add("product q4", "layers.*.mlp.down_proj.weight", 20);
  add("gdn", "layers.*.linear_attn", 10);
  add("gdn_commit", "layers.*.linear_attn", 1);
  add("attention", "layers.*.self_attn", 8);
  add("product q4", "lm_head.weight", 9);
  add("rms_norm", "layers.*.input_layernorm.weight", 2);
  add("embed", "embed_tokens.weight", 0.5);
  add("", "", 0.25);
  add("draft product q4", "drafter.layers.*.mlp.gate_proj.weight", 3);
  add_profile(roofline, profile, options, "p.json");
  const RooflineRow& mlp = row_of(roofline, RooflineClass::kMlp);
  EXPECT_DOUBLE_EQ(*mlp.measured_s, 60e-6);
  EXPECT_DOUBLE_EQ(*mlp.share, mlp.floor_s / 60e-6);
  EXPECT_DOUBLE_EQ(*row_of(roofline, RooflineClass::kRecurrentState).measured_s, 11e-6);
  EXPECT_DOUBLE_EQ(*row_of(roofline, RooflineClass::kKeyValueCache).measured_s, 8e-6);
  EXPECT_FALSE(row_of(roofline, RooflineClass::kAttention).measured_s.has_value());
  EXPECT_DOUBLE_EQ(roofline.other_s, 5.75e-6);
  EXPECT_NEAR(roofline.profiled_s, 93.75e-6, 1e-15);

  Json other = profile;
  other["width"] = 2;
  EXPECT_THAT(fault([&] { add_profile(roofline, other, options, "p.json"); }), HasSubstr("rounds of 2 tokens"));
  other = profile;
  other["options"]["weights"]["format"] = "q8";
  EXPECT_THAT(fault([&] { add_profile(roofline, other, options, "p.json"); }), HasSubstr("another weights.format"));
  other = profile;
  other["options"]["context"] = 4096;
  EXPECT_EQ(fault([&] { add_profile(roofline, other, options, "p.json"); }), "no error");
  EXPECT_THAT(fault([&] { add_profile(roofline, Json::array(), options, "p.json"); }), HasSubstr("has no rows"));
}

TEST(FloorPhases, AddUpToTheBytesOfARound) {
  const auto backend = embedded();
  const engine::WeightInventory inventory = backend->inventory(64, 3);
  std::uint64_t sum = 0;
  std::vector<std::string> names;
  for (const FloorPhase& phase : floor_phases(inventory, kRate)) {
    sum += phase.bytes;
    names.push_back(phase.name);
    EXPECT_DOUBLE_EQ(phase.seconds, static_cast<double>(phase.bytes) / kRate);
  }
  EXPECT_EQ(sum, inventory.bytes_per_round());
  EXPECT_EQ(names, (std::vector<std::string>{"embedding", "gdn", "attention", "mlp", "norms", "head"}));
}

TEST(FloorPhases, APrefillReadsTheLayersOnceAChunk) {
  const auto backend = embedded();
  const auto chunk = backend->options().prefill.chunk;
  const PrefillFloor one = prefill_floor(*backend, chunk, kRate, std::nullopt);
  const PrefillFloor two = prefill_floor(*backend, 2 * chunk, kRate, 1e9);
  EXPECT_EQ(one.chunks, 1);
  EXPECT_EQ(two.chunks, 2);
  EXPECT_EQ(prefill_floor(*backend, chunk + 1, kRate, std::nullopt).chunks, 2);
  EXPECT_GT(two.bytes, one.bytes * 3 / 2);
  EXPECT_LT(two.bytes, one.bytes * 5 / 2);
  EXPECT_DOUBLE_EQ(two.operations, 2 * one.operations);
  EXPECT_DOUBLE_EQ(*two.compute_s, two.operations / 1e9);
  EXPECT_DOUBLE_EQ(two.seconds(), std::max(two.read_s, *two.compute_s));
}

}  // namespace
}  // namespace tare::profiles
