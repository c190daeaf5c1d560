// Trees through Gated DeltaNet on the GPU: every node against the definition along its path, and against its path
// alone.
#include <algorithm>
#include <bit>

#include "engine/backend/options.h"
#include "tests/cuda/gpu/gdn_layer.h"
#include "tests/cuda/gpu/random_tree.h"

namespace tare::engine::test {
namespace {

// As in gdn_test.cu.
constexpr double kFloatError = 3e-6;
constexpr double kHalfStateError = 5e-3;
constexpr double kCoarseStateError = 4e-2;
constexpr std::uint64_t kVocab = 1000;  // tokens of the trees say nothing here

struct TreeCase {
  GdnForm form;
  StateFormat state;
  CacheFormat columns;
  bool snapshots;
  int slices;
};
void PrintTo(const TreeCase& at, std::ostream* out) {
  *out << to_text(at.form) << ", " << to_text(at.state) << " state, " << at.slices << " slices";
}
std::vector<TreeCase> all_cases() {
  std::vector<TreeCase> cases;
  for (const int slices : {1, 2}) {
    for (const GdnForm form : {GdnForm::kRecurrent, GdnForm::kChunked}) {
      for (const bool snapshots : {false, true}) {
        if (snapshots && form == GdnForm::kChunked) continue;
        cases.push_back({form, StateFormat::kFP32, CacheFormat::kFP32, snapshots, slices});
        cases.push_back({form, StateFormat::kFP16, CacheFormat::kBF16, snapshots, slices});
        cases.push_back({form, StateFormat::kBF16, CacheFormat::kBF16, snapshots, slices});
        cases.push_back({form, StateFormat::kInt8, CacheFormat::kFP32, snapshots, slices});
      }
    }
  }
  return cases;
}
std::string case_name(const testing::TestParamInfo<TreeCase>& info) {
  return to_text(info.param.form) + (info.param.snapshots ? "_snapshots_" : "_") + to_text(info.param.state) +
         "_columns_" + to_text(info.param.columns) + "_" + std::to_string(info.param.slices) + "_slices";
}

class GdnTrees : public GpuTest, public testing::WithParamInterface<TreeCase> {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (!IsSkipped() && GetParam().slices > gdn_slices_of_device()) GTEST_SKIP() << "no clusters on this GPU";
  }
  [[nodiscard]] static GdnLayerSettings settings() {
    return {.form = GetParam().form,
            .state = GetParam().state,
            .columns = GetParam().columns,
            .snapshots = GetParam().snapshots,
            .slices = GetParam().slices};
  }
  [[nodiscard]] static double bound() {
    return GetParam().state == StateFormat::kFP32   ? kFloatError
           : GetParam().state == StateFormat::kFP16 ? kHalfStateError
                                                    : kCoarseStateError;
  }
};
INSTANTIATE_TEST_SUITE_P(All, GdnTrees, testing::ValuesIn(all_cases()), case_name);

// The layer in double precision after each node, and what each node gives.
struct NodeOracles {
  std::vector<GdnOracle> after;
  std::vector<std::vector<double>> outputs;
};
NodeOracles oracles_of(const TokenTree& tree, const GdnInputs& inputs, const GdnOracle& root) {
  NodeOracles nodes;
  for (std::size_t node = 0; node < inputs.size(); ++node) {
    const std::int32_t parent = tree.parents()[node];
    nodes.after.push_back(parent < 0 ? root : nodes.after[static_cast<std::size_t>(parent)]);
    nodes.outputs.push_back(nodes.after.back().step(inputs[node]));
  }
  return nodes;
}
GdnInputs inputs_at(const GdnInputs& inputs, const std::vector<std::int32_t>& path) {
  GdnInputs along;
  for (const std::int32_t node : path) along.push_back(inputs[static_cast<std::size_t>(node)]);
  return along;
}

// Rounds of trees of every kind, each after a commit of some path of the one before, of any depth or empty.
TEST_P(GdnTrees, EveryNodeFollowsTheDefinitionAlongItsPath) {
  for (const TreeKind kind : tree_kinds(1)) {
    GdnLayer layer(settings());
    GdnOracle oracle = layer.oracle();
    Philox random(5, static_cast<std::uint64_t>(kind));
    std::vector<std::int32_t> path;
    std::uint64_t seed = 100;
    std::size_t committed = 0;
    for (const int nodes : some("trees", {3, 16, 5, 16, 1, 9, 8, 2, 12, 16}, 10, 4)) {
      const TokenTree tree = random_tree(kind, nodes, kVocab, random);
      const GdnInputs inputs = random_inputs(layer.settings.shape, ++seed, nodes);
      const NodeOracles expected = oracles_of(tree, inputs, oracle);
      const GdnOutputs outputs = layer.round(tree, inputs, path);
      for (std::size_t node = 0; node < outputs.size(); ++node) {
        const double error = relative_error(widened(outputs[node]), expected.outputs[node]);
        ASSERT_LE(error, bound()) << "node " << node << " of " << to_text(tree) << ", " << path.size() << " pending";
      }
      const std::uint64_t last = random.below(static_cast<std::uint64_t>(nodes) + 1);
      path = last == 0 ? std::vector<std::int32_t>{} : tree.path_to(static_cast<int>(last) - 1);
      if (!path.empty()) oracle = expected.after[static_cast<std::size_t>(path.back())];
      if (!path.empty()) oracle.store();
      committed += path.size();
      if (committed == 0) continue;  // a state of zeros has no relative error
      ASSERT_LE(relative_error(widened(layer.state(path, 1 - layer.half)), oracle.state()), bound())
          << "after a path of " << path.size() << " of " << to_text(tree);
    }
    // What goes on after a tree: a prefill, and a chain.
    const GdnInputs prompt = random_inputs(layer.settings.shape, 90, 21);
    std::vector<std::vector<double>> expected;
    for (const GdnInput& input : prompt) expected.push_back(oracle.step(input));
    EXPECT_LE(largest_error(layer.prefill(prompt, path), expected), bound());
    EXPECT_LE(relative_error(widened(layer.state(0, layer.half)), oracle.state()), bound());
  }
}

// A node's bits, and those of the state after it, are those of its path alone as a chain in one verify: always in the
// recurrent form; in the chunk form the sums have other zeros between, which change nothing, but for the order of the
// tensor cores.
TEST_P(GdnTrees, TheRecurrentFormHasTheBitsOfThePathAlone) {
  if (GetParam().form == GdnForm::kChunked) GTEST_SKIP() << "promised of the recurrent form";
  for (const TreeKind kind : tree_kinds(1)) {
    Philox random(6, static_cast<std::uint64_t>(kind));
    const TokenTree tree = random_tree(kind, 16, kVocab, random);
    const GdnInputs before = random_inputs(GdnLayerSettings{}.shape, 200, 7);
    const GdnInputs inputs = random_inputs(GdnLayerSettings{}.shape, 201, 16);
    const GdnInputs next = random_inputs(GdnLayerSettings{}.shape, 202, 3);
    const int step = amount("nodes between two", 3, 3, 9);
    for (int node = 15; node >= 0; node -= step) {
      const std::vector<std::int32_t> path = tree.path_to(node);
      GdnLayer whole(settings());
      whole.round(before, 0);
      const GdnOutputs of_tree = whole.round(tree, inputs, 7);
      GdnLayer alone(settings());
      alone.round(before, 0);
      const GdnOutputs of_path = alone.round(inputs_at(inputs, path), 7);
      ASSERT_EQ(first_difference({of_tree[static_cast<std::size_t>(node)]}, {of_path.back()}), "")
          << "node " << node << " of " << to_text(tree);
      const auto count = static_cast<int>(path.size());
      ASSERT_EQ(whole.state(path, 1 - whole.half), alone.state(count, 1 - alone.half)) << "node " << node;
      ASSERT_EQ(first_difference(whole.round(next, path), alone.round(next, count)), "")
          << "after node " << node << " of " << to_text(tree);
      ASSERT_EQ(whole.state(0, whole.half), alone.state(0, alone.half)) << "node " << node;
    }
  }
}

// With an FP32 state it does not matter either how the path is cut into passes.
TEST_P(GdnTrees, CommittedPathsHaveTheBitsOfTokensOneByOne) {
  if (GetParam().form == GdnForm::kChunked || GetParam().state != StateFormat::kFP32) {
    GTEST_SKIP() << "promised of the recurrent form and an FP32 state";
  }
  GdnLayer trees(settings());
  GdnLayer single(settings());
  Philox random(8, 9);
  std::vector<std::int32_t> path;
  int pending = 0;
  const int rounds = amount("rounds", 12, 12, 4);
  for (int round = 0; round < rounds; ++round) {
    const auto nodes = static_cast<int>(1 + random.below(16));
    const TokenTree tree = random_tree(kTreeKinds[static_cast<std::size_t>(round) % 4], nodes, kVocab, random);
    const GdnInputs inputs = random_inputs(trees.settings.shape, 300 + static_cast<std::uint64_t>(round), nodes);
    const GdnOutputs outputs = trees.round(tree, inputs, path);
    path = tree.path_to(static_cast<int>(random.below(static_cast<std::uint64_t>(nodes))));
    for (const std::int32_t node : path) {
      const GdnOutputs one = single.round({inputs[static_cast<std::size_t>(node)]}, pending);
      pending = 1;
      ASSERT_EQ(first_difference({outputs[static_cast<std::size_t>(node)]}, one), "")
          << "round " << round << ", node " << node << " of " << to_text(tree);
    }
  }
  EXPECT_EQ(trees.state(path, 1 - trees.half), single.state(pending, 1 - single.half));
}

TEST_P(GdnTrees, AChainHasTheBitsOfTheKernelsForChains) {
  GdnLayerSettings without = settings();
  without.snapshots = false;
  for (const int tokens : some("token counts", {1, 8, 9, 3, 16}, 5, 2)) {
    GdnLayer as_tree(settings());
    GdnLayer as_chain(without);
    int pending = 0;
    const std::uint64_t rounds = amount<std::uint64_t>("rounds", 3, 3, 2);
    for (std::uint64_t round = 0; round < rounds; ++round) {
      const GdnInputs inputs = random_inputs(without.shape, 400 + round, tokens);
      std::vector<std::int32_t> ids(static_cast<std::size_t>(tokens));
      const TokenTree chain = TokenTree::chain(ids);
      ASSERT_EQ(first_difference(as_tree.round(chain, inputs, pending), as_chain.round(inputs, pending)), "")
          << tokens << " tokens, round " << round;
      pending = (tokens + 1) / 2;
    }
  }
}

// The controls: a sibling taken for the parent, and a commit of the sibling, are far outside every bound. Two unrelated
// outputs differ by about 0.65 of their size, so beside the bound of BF16 states "far" is half of the size.
TEST_P(GdnTrees, AWrongParentIsSeen) {
  TARE_SKIP_WHERE_RACECHECKED("EveryNodeFollowsTheDefinitionAlongItsPath");
  const double far = std::min(20 * bound(), 0.5);
  ASSERT_GE(far, 10 * bound());
  Philox random(10, 11);
  TokenTree tree(0);
  TokenTree wrong(0);
  for (const int parent : {0, 0, 1, 2, 3, 4}) tree.add(parent, 1);
  for (const int parent : {0, 0, 2, 1, 3, 4}) wrong.add(parent, 1);
  const GdnInputs inputs = random_inputs(GdnLayerSettings{}.shape, 500, 7);
  const GdnInputs next = random_inputs(GdnLayerSettings{}.shape, 501, 1);
  GdnLayer layer(settings());
  NodeOracles expected = oracles_of(tree, inputs, layer.oracle());
  EXPECT_LE(largest_error(layer.round(tree, inputs, 0), expected.outputs), bound());
  GdnLayer other(settings());
  const GdnOutputs outputs = other.round(wrong, inputs, 0);
  for (const std::size_t node : {3U, 4U, 5U, 6U}) {
    EXPECT_GT(relative_error(widened(outputs[node]), expected.outputs[node]), far) << node;
  }
  EXPECT_GT(relative_error(widened(layer.state(tree.path_to(6), 1 - layer.half)), expected.after[5].state()), far);
  EXPECT_GT(relative_error(widened(layer.round(next, tree.path_to(6))[0]), expected.after[5].step(next[0])), far);
}

// Every path of the kernels for trees on two heads, from planes; small enough for compute-sanitizer's racecheck:
//   compute-sanitizer --tool racecheck gpu_gdn_tests --gtest_filter='*GdnTreePaths*'
class GdnTreePaths : public GdnTrees {};
INSTANTIATE_TEST_SUITE_P(
    Fp32, GdnTreePaths,
    testing::Values(TreeCase{GdnForm::kRecurrent, StateFormat::kFP32, CacheFormat::kFP32, false, 2},
                    TreeCase{GdnForm::kRecurrent, StateFormat::kFP16, CacheFormat::kBF16, true, 2},
                    TreeCase{GdnForm::kChunked, StateFormat::kFP32, CacheFormat::kFP32, false, 2},
                    TreeCase{GdnForm::kRecurrent, StateFormat::kFP32, CacheFormat::kFP32, true, 1},
                    TreeCase{GdnForm::kChunked, StateFormat::kFP32, CacheFormat::kFP32, false, 1},
                    TreeCase{GdnForm::kRecurrent, StateFormat::kInt8, CacheFormat::kFP32, false, 2},
                    TreeCase{GdnForm::kRecurrent, StateFormat::kInt8, CacheFormat::kFP32, true, 2}),
    case_name);

TEST_P(GdnTreePaths, TreesOfPlanesFollowTheDefinition) {
  GdnLayerSettings small = settings();
  small.shape.key_heads = 1;
  small.shape.value_heads = 2;
  GdnLayer layer(small);
  GdnOracle oracle = layer.oracle();
  Philox random(12, 13);
  std::vector<std::int32_t> path;
  for (const int nodes : {6, 16}) {
    const TokenTree tree = random_tree(TreeKind::kRandom, nodes, kVocab, random);
    GdnInputs inputs = random_inputs(small.shape, 600, nodes);
    const int width = operand_width(nodes);
    const PlanesOfRows qkvz = random_planes(width, 8, 23, 0.125F, inputs, &GdnInput::qkvz);
    const PlanesOfRows gates = random_planes(width, 8, 5, 0.25F, inputs, &GdnInput::gates);
    const NodeOracles expected = oracles_of(tree, inputs, oracle);
    layer.half = 1 - layer.half;
    layer.tree = &tree;
    EXPECT_LE(largest_error(layer.run(qkvz.result, gates.result, nodes, path, false), expected.outputs), bound())
        << to_text(tree);
    layer.tree = nullptr;
    path = tree.path_to(nodes - 1);
    oracle = expected.after.back();
  }
}

}  // namespace
}  // namespace tare::engine::test
