// Synthetic checkpoints: the shapes of the family, weights that are what synthetic.h says, the same wherever they are
// made.
#include <cmath>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/digest.h"
#include "base/philox.h"
#include "engine/checkpoint/synthetic.h"
#include "engine/checkpoint/tensor_plan.h"
#include "tests/engine/model_files.h"

namespace tare::engine {
namespace {

constexpr const char* kSmall = "synthetic:hidden=256,layers=8,intermediate=512,vocab=1024?seed=3";

double deviation(const std::vector<float>& values, double centre) {
  double sum = 0;
  for (const float value : values) sum += (value - centre) * (value - centre);
  return std::sqrt(sum / static_cast<double>(values.size()));
}

double mean(const std::vector<float>& values) {
  double sum = 0;
  for (const float value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

// Parameters by name, without making the tensors of a large model: from one layer of each kind.
TEST(Synthetic, TheFamilyHasTheParameterCountsOfItsReleases) {
  struct Member {
    const char* name;
    std::int64_t text, mtp;
  };
  // Model specification, section 1.3.
  for (const Member& member : {Member{"0.8b", 752'393'024, 20'452'864}, Member{"2b", 1'881'825'088, 60'828'160},
                               Member{"4b", 4'205'751'296, 120'599'552}, Member{"9b", 8'953'803'264, 243'290'624},
                               Member{"27b", 26'895'998'464, 424'699'392}}) {
    const auto model = open_checkpoint(std::string("synthetic:") + member.name + "?seed=1");
    const ModelConfig& config = model->config();
    std::int64_t text = 0;
    std::int64_t mtp = 0;
    for (const PlannedTensor& tensor : plan_tensors(config)) {
      std::int64_t count = 1;
      for (const std::int64_t extent : tensor.shape) count *= extent;
      (tensor.name.starts_with("mtp.") ? mtp : text) += count;
    }
    EXPECT_EQ(text, member.text) << member.name;
    EXPECT_EQ(mtp, member.mtp) << member.name;
    EXPECT_EQ(config.layers.back(), LayerKind::kFullAttention);
    EXPECT_EQ(config.rotary_dim, 64);
    EXPECT_EQ(model->has("lm_head.weight"), !config.tie_word_embeddings);
  }
}

TEST(Synthetic, TheTwentySevenBillionShapeHas851TextAnd15MtpTensors) {
  const auto model = open_checkpoint("synthetic:27b?seed=1");
  EXPECT_EQ(model->names().size(), 851U + 15U);
  EXPECT_EQ(model->config().conv_channels(), 10240);
}

TEST(Synthetic, AWeightIsTheFunctionOfSeedNameAndIndexThatTheHeaderStates) {
  const auto model = open_checkpoint(kSmall);
  const std::string name = "layers.2.mlp.gate_proj.weight";
  const Tensor tensor = model->tensor(name);
  const std::vector<float> weights = to_floats(tensor);
  const std::uint64_t stream = hash64(name);
  for (const std::size_t element : {0UL, 1UL, 7UL, 8UL, 12345UL, weights.size() - 1}) {
    const std::uint64_t index = element / 8;
    const auto block = philox4x32({static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32),
                                   static_cast<std::uint32_t>(stream), static_cast<std::uint32_t>(stream >> 32)},
                                  {3, 0});
    const std::uint32_t word = block[element % 8 / 2];
    const std::uint32_t bits = element % 2 == 0 ? word & 0xFFFF : word >> 16;
    const double exact = (2.0 * bits - 65535) / 65536 * std::sqrt(3.0 / 256);
    EXPECT_NEAR(weights[element], exact, std::fabs(exact) / 256) << element;  // BF16 keeps 8 bits
  }
}

TEST(Synthetic, AnElementByItsRecipeIsTheTensorsElementForEveryRole) {
  const SyntheticCheckpoint model("synthetic:hidden=65,layers=4,vocab=1100,intermediate=33,tied=0?seed=6");
  for (const char* name :
       {"embed_tokens.weight", "lm_head.weight", "layers.1.mlp.gate_proj.weight",
        "layers.0.linear_attn.out_proj.weight", "layers.0.input_layernorm.weight", "layers.0.linear_attn.norm.weight",
        "layers.0.linear_attn.conv1d.weight", "layers.0.linear_attn.A_log", "layers.0.linear_attn.dt_bias"}) {
    const Tensor tensor = model.tensor(name);
    const SyntheticRecipe recipe = model.recipe(name);
    std::vector<std::uint16_t> expected;
    for (std::int64_t i = 0; i < tensor.element_count(); ++i)
      expected.push_back(synthetic_weight(recipe, static_cast<std::uint64_t>(i)));
    EXPECT_EQ(bytes_text(tensor), raw_bytes(expected)) << name;
  }
}

TEST(Synthetic, ARecipeSaysHowATensorIsMadeAndShapesNeedNoMaking) {
  const SyntheticCheckpoint model("synthetic:27b?seed=8");
  const std::string name = "layers.63.mlp.down_proj.weight";
  const SyntheticRecipe recipe = model.recipe(name);
  EXPECT_EQ(recipe.seed, 8U);
  EXPECT_EQ(recipe.stream, hash64(name));
  EXPECT_EQ(recipe.role, TensorRole::kResidualProjection);
  EXPECT_EQ(recipe.scale, static_cast<double>(static_cast<float>(std::sqrt(3.0 / 17408) / std::sqrt(128.0))));
  EXPECT_EQ(model.shape("lm_head.weight"), (std::vector<std::int64_t>{248320, 5120}));
  expect_refused([&] { static_cast<void>(model.shape("layers.64.input_layernorm.weight")); },
                 "synthetic:", "has no tensor");
}

// Digests of whole tensors, so that no compiler, machine or later change can alter a synthetic model unnoticed.
TEST(Synthetic, ItsBytesNeverChange) {
  const auto model = open_checkpoint(kSmall);
  const std::map<std::string, std::string> wanted = {
      {"embed_tokens.weight", "52e56143edf3f6aa7a9febe5cc7b2ba6"},
      {"layers.0.linear_attn.A_log", "f8b77d403b4b7661575aef539dd6c30c"},
      {"layers.0.linear_attn.dt_bias", "829c23a4bb589a660bf4db68289fd9d3"},
      {"layers.0.linear_attn.norm.weight", "93e75477b2b4193444c9334d74edfd54"},
      {"layers.3.self_attn.o_proj.weight", "e87555628b5faa8da031054328eb9cdd"},
  };
  for (const auto& [name, digest_wanted] : wanted) EXPECT_EQ(digest(model->tensor(name).bytes), digest_wanted) << name;
}

TEST(Synthetic, WeightsDependOnSeedAndName) {
  const auto model = open_checkpoint(kSmall);
  const auto again = open_checkpoint(kSmall);
  const auto other = open_checkpoint("synthetic:hidden=256,layers=8,intermediate=512,vocab=1024?seed=4");
  std::set<std::string> seen;
  for (const std::string& name : model->names()) {
    const std::string bytes = bytes_text(model->tensor(name));
    EXPECT_EQ(bytes, bytes_text(again->tensor(name))) << name;
    EXPECT_NE(bytes, bytes_text(other->tensor(name))) << name;
    EXPECT_TRUE(seen.insert(bytes).second) << name << " equals another tensor";
  }
}

TEST(Synthetic, ScalesAreThoseOfTheHeader) {
  const auto model = open_checkpoint(kSmall);
  const auto weights = [&](const char* name) { return to_floats(model->tensor(name)); };
  constexpr double kTolerance = 0.02;  // of a deviation; the smallest of these tensors has 65,536 elements
  const auto expect_deviation = [&](const char* name, double wanted) {
    EXPECT_NEAR(deviation(weights(name), 0) / wanted, 1, kTolerance) << name;
    EXPECT_LT(std::fabs(mean(weights(name))), kTolerance * wanted) << name;
  };
  expect_deviation("embed_tokens.weight", 2 / std::sqrt(256.0));
  expect_deviation("layers.0.mlp.up_proj.weight", 1 / std::sqrt(256.0));
  expect_deviation("layers.0.mlp.down_proj.weight", 1 / std::sqrt(512.0) / 4);  // sqrt(2 * 8 layers) = 4
  expect_deviation("layers.0.linear_attn.out_proj.weight", 1 / std::sqrt(2048.0) / 4);
}

TEST(Synthetic, NormsStandNearTheirNeutralValueAndAreNotConstant) {
  const auto model = open_checkpoint(kSmall);
  const auto expect_near = [&](const char* name, float neutral) {
    const std::vector<float> weights = to_floats(model->tensor(name));
    EXPECT_GT(deviation(weights, mean(weights)), 0.03) << name;
    for (const float weight : weights) EXPECT_NEAR(weight, neutral, 0.11) << name;
  };
  expect_near("norm.weight", 0);
  expect_near("layers.0.input_layernorm.weight", 0);
  expect_near("layers.3.self_attn.q_norm.weight", 0);
  expect_near("layers.0.linear_attn.norm.weight", 1);
}

TEST(Synthetic, DecayParametersLieWhereTheModelInitialisesThem) {
  const auto model = open_checkpoint("synthetic:linear_key_heads=64,linear_value_heads=4096,hidden=8,layers=1?seed=2");
  const std::vector<float> decay_logs = to_floats(model->tensor("layers.0.linear_attn.A_log"));
  double decay_sum = 0;
  for (const float value : decay_logs) {
    EXPECT_LT(std::exp(value), 16.1);
    decay_sum += std::exp(value);
  }
  EXPECT_NEAR(decay_sum / 4096, 8, 0.3);  // uniform in (0, 16): standard error 0.07
  double step_log_sum = 0;
  for (const float value : to_floats(model->tensor("layers.0.linear_attn.dt_bias"))) {
    const double step = std::log1p(std::exp(static_cast<double>(value)));
    EXPECT_GT(step, 0.0009);
    EXPECT_LT(step, 0.11);
    step_log_sum += std::log(step);
  }
  EXPECT_NEAR(step_log_sum / 4096, std::log(0.01), 0.1);  // log-uniform in 0.001 to 0.1: standard error 0.02
}

TEST(Synthetic, TheDigestNamesTheModelHoweverItIsSpelt) {
  const auto digest_of = [](const char* model) { return open_checkpoint(model)->digest(); };
  EXPECT_EQ(digest_of("synthetic:hidden=64,layers=4?seed=1"), digest_of("synthetic:0.8b,layers=4,hidden=64?seed=1"));
  EXPECT_NE(digest_of("synthetic:hidden=64,layers=4?seed=1"), digest_of("synthetic:hidden=64,layers=4?seed=2"));
  EXPECT_NE(digest_of("synthetic:0.8b?seed=1"), digest_of("synthetic:2b?seed=1"));
}

TEST(Synthetic, WrongSpellingsAreRefused) {
  const auto refused = [](const std::string& model, const std::string& what) {
    expect_refused([&] { static_cast<void>(open_checkpoint(model)); }, model, what);
  };
  refused("synthetic:0.8b", "names no seed");
  refused("synthetic:0.8b?seed=", "seed must be an integer");
  refused("synthetic:0.8b?seed=1x", "seed must be an integer, is '1x'");
  refused("synthetic:7b?seed=1", "unknown size '7b'");
  refused("synthetic:?seed=1", "unknown size ''");
  refused("synthetic:hidden=64,0.8b?seed=1", "unknown size '0.8b'");
  refused("synthetic:hiden=64?seed=1", "unknown key 'hiden'");
  refused("synthetic:hidden=6.4?seed=1", "hidden must be an integer, is '6.4'");
  refused("synthetic:tied=2?seed=1", "tied must be 0 or 1");
  refused("synthetic:hidden=0?seed=1", "must lie in 1 to");
  refused("synthetic:rotary=63?seed=1", "even");
  refused("synthetic:heads=7?seed=1", "does not divide");
}

}  // namespace
}  // namespace tare::engine
