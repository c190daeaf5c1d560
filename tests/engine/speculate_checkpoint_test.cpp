// The tensors of a block drafter: what a directory must hold, and what a synthetic one is.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "engine/checkpoint/synthetic.h"
#include "engine/speculate/block_drafter_checkpoint.h"
#include "tests/engine/model_files.h"

namespace tare::engine {
namespace {

const std::filesystem::path kDrafter = kFixtures / "block-drafter";

const Checkpoint& target() {
  static const std::unique_ptr<Checkpoint> checkpoint = open_checkpoint((kFixtures / "hybrid-small").string());
  return *checkpoint;
}

// The fixture's tensors, renamed or left out by `name`: an empty name leaves one out.
void write_drafter(const std::filesystem::path& directory, const std::function<std::string(const std::string&)>& name,
                   const std::vector<Tensor>& more = {}, const std::string& file = "model.safetensors") {
  std::filesystem::copy_file(kDrafter / "config.json", directory / "config.json",
                             std::filesystem::copy_options::overwrite_existing);
  const SafetensorsFile source(kDrafter / "model.safetensors");
  std::vector<Tensor> tensors = more;
  for (const std::string& old : source.names()) {
    const std::string renamed = name(old);
    if (renamed.empty()) continue;
    tensors.push_back(source.tensor(old));
    tensors.back().name = renamed;
  }
  write_safetensors(directory / file, tensors);
}

std::int64_t elements(const BlockDrafterCheckpoint& drafter) {
  std::int64_t total = 0;
  for (const std::string& name : drafter.names()) {
    const std::vector<std::int64_t> shape = drafter.shape(name);
    total += std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
  }
  return total;
}

TEST(BlockDrafterCheckpoint, ReadsADirectory) {
  const auto drafter = open_block_drafter(kDrafter.string(), target());
  EXPECT_EQ(drafter->names().size(), 36U);
  EXPECT_EQ(drafter->config().taps.size(), 3U);
  EXPECT_EQ(drafter->expect("fc.weight", {48, 144}).bytes.size(), 48U * 144 * 2);
  EXPECT_FALSE(drafter->has("round1.output_hidden"));  // the golden beside it is not the drafter's
}

TEST(BlockDrafterCheckpoint, DropsAPrefixAndReadsShards) {
  const auto prefixed = [](const std::string& name) { return "model." + name; };
  const ScratchDirectory scratch;
  write_drafter(scratch.path(), prefixed, {}, "part-1.safetensors");
  const auto drafter = open_block_drafter(scratch.path().string(), target());
  EXPECT_TRUE(drafter->has("layers.2.self_attn.k_norm.weight"));
  EXPECT_EQ(drafter->tensor("norm.weight").name, "norm.weight");
}

TEST(BlockDrafterCheckpoint, RefusesWhatIsMissingOrLeftOver) {
  const auto same = [](const std::string& name) { return name; };
  const ScratchDirectory missing;
  write_drafter(missing.path(), [](const std::string& name) { return name == "fc.weight" ? "" : name; });
  expect_refused([&] { (void)open_block_drafter(missing.path().string(), target()); }, missing.path().string(),
                 "has no tensor 'fc.weight'");
  const ScratchDirectory more;
  write_drafter(more.path(), same, {make_tensor("markov_head.weight", Dtype::kF32, {1}, raw_bytes<float>({1}))});
  expect_refused([&] { (void)open_block_drafter(more.path().string(), target()); }, more.path().string(),
                 "'markov_head.weight', which no DFlash drafter has");
  const ScratchDirectory twice;
  write_drafter(twice.path(), same, {make_tensor("model.norm.weight", Dtype::kF32, {1}, raw_bytes<float>({1}))});
  expect_refused([&] { (void)open_block_drafter(twice.path().string(), target()); }, twice.path().string(),
                 "'norm.weight' twice");
  const ScratchDirectory empty;
  std::filesystem::copy_file(kDrafter / "config.json", empty.path() / "config.json");
  expect_refused([&] { (void)open_block_drafter(empty.path().string(), target()); }, empty.path().string(),
                 "no *.safetensors");
}

TEST(BlockDrafterCheckpoint, SyntheticOnesHaveThePublicGeometry) {
  const SyntheticCheckpoint model("synthetic:27b?seed=4");
  const auto drafter = open_block_drafter(kSyntheticDrafter, model);
  EXPECT_EQ(drafter->names().size(), 58U);
  EXPECT_EQ(elements(*drafter), 1'730'213'120);
  EXPECT_THAT(drafter->config().taps, testing::ElementsAre(1, 16, 31, 46, 61));
  EXPECT_EQ(drafter->config().block_size, 16);
  expect_refused([] { (void)open_block_drafter(kSyntheticDrafter, target()); }, "speculate.drafter",
                 "synthetic: model");
  const SyntheticCheckpoint flat("synthetic:hidden=64,layers=4,vocab=100?seed=4");
  expect_refused([&] { (void)open_block_drafter(kSyntheticDrafter, flat); }, "speculate.drafter", "5 of the target");
}

// A drafter's weights are its own: they follow the model's seed, and are not those of the model's tensor of that name.
TEST(BlockDrafterCheckpoint, SyntheticWeightsFollowTheModelsSeed) {
  const std::string name = "layers.0.mlp.down_proj.weight";
  const auto weights = [&](const TensorSource& source) { return to_floats(source.tensor(name)); };
  const std::string sizes = "synthetic:hidden=64,intermediate=128,layers=8,vocab=100?seed=";
  const SyntheticCheckpoint model(sizes + "4");
  const auto drafter = open_block_drafter(kSyntheticDrafter, model);
  EXPECT_EQ(weights(*drafter), weights(*open_block_drafter(kSyntheticDrafter, SyntheticCheckpoint(sizes + "4"))));
  EXPECT_NE(weights(*drafter), weights(*open_block_drafter(kSyntheticDrafter, SyntheticCheckpoint(sizes + "5"))));
  EXPECT_NE(weights(*drafter), weights(model));
  const SyntheticRecipe recipe = dynamic_cast<const SyntheticRecipes&>(*drafter).recipe(name);
  const Tensor tensor = drafter->tensor(name);
  std::uint16_t third = 0;
  std::memcpy(&third, tensor.bytes.data() + 2 * 3, sizeof third);
  EXPECT_EQ(third, synthetic_weight(recipe, 3));
}

}  // namespace
}  // namespace tare::engine
