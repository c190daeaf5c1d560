// Gated DeltaNet: the definition against the specification's micro vectors, and the cache in both forms against the
// definition, for every instruction set.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <random>
#include <tuple>

#include "base/file.h"
#include "base/thread_pool.h"
#include "engine/backend/options.h"
#include "engine/backend/rope.h"
#include "engine/cpu/convolution_columns.h"
#include "engine/cpu/gdn_cache.h"
#include "engine/cpu/gdn_definition.h"
#include "tests/source_folder.h"

namespace tare::engine {
namespace {

using testing::DoubleNear;
using testing::Pointwise;

constexpr double kPrinted = 6e-10;  // the vectors are printed with nine digits

struct MicroCase {
  std::vector<double> q, k, v;
  double b, a;
};

std::vector<GdnToken> micro_tokens() {
  const std::vector<MicroCase> cases = {{{1, 2}, {3, 4}, {1, -1}, 0, 0.5},
                                        {{0.5, -1}, {1, 0}, {2, 0.5}, 1, -0.5},
                                        {{2, 0}, {0.6, -0.8}, {-0.5, 3}, -1, 2}};
  std::vector<GdnToken> tokens;
  for (const MicroCase& c : cases)
    tokens.push_back({l2_normalized(c.q, 1 / std::sqrt(2.0)), l2_normalized(c.k, 1.0), c.v,
                      gdn_gates(c.b, c.a, std::log(2.0), 0.25)});
  return tokens;
}

const std::vector<std::vector<double>> kMicroU = {{0.5, -0.5}, {1.392803537, 0.43484291}, {-0.136405839, 0.806078143}};
const std::vector<std::vector<double>> kMicroO = {
    {0.347850501, -0.347850501}, {0.390472082, 0.187479951}, {-0.048308663, 0.344175721}};
const std::vector<double> kMicroState = {-0.068318775, 0.486738033, 0.110273939, -0.646011514};

TEST(GdnDefinition, GatesEqualTheMicroVectors) {
  const std::vector<double> beta = {0.5, 0.731058579, 0.268941421};
  const std::vector<double> g = {-2.273742012, -1.15187884, -4.700413118};
  const std::vector<GdnToken> tokens = micro_tokens();
  for (std::size_t t = 0; t < 3; ++t) {
    EXPECT_NEAR(tokens[t].gates.beta, beta[t], kPrinted);
    EXPECT_NEAR(tokens[t].gates.log_decay, g[t], kPrinted);
  }
}

TEST(GdnDefinition, StepsEqualTheMicroVectors) {
  std::vector<double> state(4);
  const std::vector<GdnToken> tokens = micro_tokens();
  for (std::size_t t = 0; t < 3; ++t) {
    const GdnResult result = gdn_step(tokens[t], state);
    EXPECT_THAT(result.u, Pointwise(DoubleNear(kPrinted), kMicroU[t]));
    EXPECT_THAT(result.o, Pointwise(DoubleNear(kPrinted), kMicroO[t]));
  }
  EXPECT_THAT(state, Pointwise(DoubleNear(kPrinted), kMicroState));
}

TEST(GdnDefinition, TheChunkEqualsTheMicroVectors) {
  std::vector<double> state(4);
  const GdnChunkResult result = gdn_chunk(micro_tokens(), state);
  EXPECT_NEAR(result.a[3], 0.138627241, kPrinted);
  EXPECT_NEAR(result.a[6], -0.00021637, 6e-9);
  EXPECT_NEAR(result.a[7], 0.00146705, 6e-9);
  for (std::size_t t = 0; t < 3; ++t) EXPECT_THAT(result.tokens[t].o, Pointwise(DoubleNear(kPrinted), kMicroO[t]));
  EXPECT_THAT(state, Pointwise(DoubleNear(kPrinted), kMicroState));
}

TEST(GdnDefinition, NearZeroKeysAreNormalisedWithTheEpsilonInsideTheRoot) {
  for (const double norm : {0.0, 1e-8, 1e-4, 1e-3}) {
    const std::vector<double> x = {norm, 0.0};
    EXPECT_DOUBLE_EQ(l2_normalized(x, 1.0)[0], norm / std::sqrt(norm * norm + 1e-6));
  }
}

ModelConfig head_config(std::int64_t heads, std::int64_t dk, std::int64_t dv) {
  ModelConfig config;
  config.linear_key_heads = config.linear_value_heads = heads;
  config.linear_key_head_dim = dk;
  config.linear_value_head_dim = dv;
  return config;
}

std::vector<GdnToken> random_tokens(std::int64_t count, std::int64_t dk, std::int64_t dv, double log_decay) {
  std::mt19937 generator(17);
  std::normal_distribution<double> normal;
  const auto vector = [&](std::int64_t size) {
    std::vector<double> values(static_cast<std::size_t>(size));
    for (double& value : values) value = normal(generator);
    return values;
  };
  std::vector<GdnToken> tokens;
  for (std::int64_t t = 0; t < count; ++t) {
    std::vector<double> key = vector(dk);
    if (t % 11 == 3)  // near-zero key norms
      for (double& value : key) value *= 1e-5;
    tokens.push_back({l2_normalized(vector(dk), 1 / std::sqrt(static_cast<double>(dk))),
                      l2_normalized(key, 1.0),
                      vector(dv),
                      {1.0 / (1.0 + std::exp(-normal(generator))), log_decay * std::fabs(normal(generator))}});
  }
  return tokens;
}

// Tokens as the cache takes them: FP32, padded.
struct PaddedToken {
  explicit PaddedToken(const GdnToken& token)
      : query(64 * ((token.query.size() + 63) / 64)), key(query.size()), value(16 * ((token.value.size() + 15) / 16)) {
    std::transform(token.query.begin(), token.query.end(), query.begin(),
                   [](double x) { return static_cast<float>(x); });
    std::transform(token.key.begin(), token.key.end(), key.begin(), [](double x) { return static_cast<float>(x); });
    std::transform(token.value.begin(), token.value.end(), value.begin(),
                   [](double x) { return static_cast<float>(x); });
    double product = 0;
    for (std::size_t i = 0; i < key.size(); ++i) product += static_cast<double>(key[i]) * static_cast<double>(query[i]);
    input = {query.data(),
             key.data(),
             value.data(),
             static_cast<float>(product),
             static_cast<float>(token.gates.beta),
             static_cast<float>(token.gates.log_decay)};
  }
  std::vector<float> query, key, value;
  GdnTokenInput input;
};

// 0, 1, 2 ...
std::vector<std::int32_t> counted(std::size_t count) {
  std::vector<std::int32_t> numbers(count);
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

struct Form {
  std::string instruction_set;
  GdnForm form;
};

class GdnForms : public testing::TestWithParam<Form> {
 protected:
  // Outputs [token][stride] of head 0 over all tokens, absorbed in passes of `pass` tokens.
  std::vector<std::vector<float>> absorb(GdnCache& cache, const GdnShape& shape, const std::vector<GdnToken>& tokens,
                                         std::size_t pass) {
    std::vector<std::vector<float>> outputs;
    GdnScratch scratch(shape);
    for (std::size_t begin = 0; begin < tokens.size(); begin += pass) {
      const std::size_t count = std::min(pass, tokens.size() - begin);
      cache.begin_absorb(static_cast<std::int64_t>(count));
      for (std::size_t t = 0; t < count; ++t) {
        const PaddedToken token(tokens[begin + t]);
        outputs.emplace_back(static_cast<std::size_t>(shape.stride), -7.0F);
        cache.step(kernels_, 0, static_cast<std::int64_t>(t), token.input, scratch, outputs.back().data());
      }
      cache.end_pass();
    }
    return outputs;
  }
  const Kernels kernels_ = select_kernels(GetParam().instruction_set);
};

std::vector<Form> forms() {
  std::vector<Form> result;
  for (const std::string& name : available_instruction_sets())
    for (const GdnForm form : {GdnForm::kRecurrent, GdnForm::kChunked}) result.push_back({name, form});
  return result;
}
INSTANTIATE_TEST_SUITE_P(All, GdnForms, testing::ValuesIn(forms()),
                         [](const auto& info) { return info.param.instruction_set + "_" + to_text(info.param.form); });

TEST_P(GdnForms, MicroVectorsHoldInSinglePrecision) {
  const ModelConfig config = head_config(1, 2, 2);
  const GdnShape shape(config);
  GdnCache cache(config, GetParam().form, Rollback::kRing);
  const std::vector<std::vector<float>> outputs = absorb(cache, shape, micro_tokens(), 3);
  for (std::size_t t = 0; t < 3; ++t)
    for (std::size_t i = 0; i < 2; ++i) EXPECT_NEAR(outputs[t][i], kMicroO[t][i], 2e-7);
  const std::vector<float> state = cache.state(kernels_);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(state[i], kMicroState[i], 2e-7);
}

TEST_P(GdnForms, LongSequencesEqualTheDefinitionAtOddAndRealSizes) {
  for (const auto& [dk, dv] : {std::pair{12, 20}, {128, 128}}) {
    const ModelConfig config = head_config(1, dk, dv);
    const GdnShape shape(config);
    const std::vector<GdnToken> tokens = random_tokens(150, dk, dv, -0.1);
    GdnCache cache(config, GetParam().form, Rollback::kRing);
    const std::vector<std::vector<float>> outputs = absorb(cache, shape, tokens, 37);
    std::vector<double> state(static_cast<std::size_t>(dk * dv));
    for (std::size_t t = 0; t < tokens.size(); ++t) {
      const GdnResult expected = gdn_step(tokens[t], state);
      for (std::size_t i = 0; i < expected.o.size(); ++i) ASSERT_NEAR(outputs[t][i], expected.o[i], 3e-6) << t;
    }
    const std::vector<float> actual = cache.state(kernels_);
    for (std::size_t i = 0; i < state.size(); ++i) ASSERT_NEAR(actual[i], state[i], 5e-6);
  }
}

TEST_P(GdnForms, StrongDecayGivesNoInfinityAndNoNaN) {
  const ModelConfig config = head_config(1, 12, 20);
  const GdnShape shape(config);
  std::vector<GdnToken> tokens = random_tokens(130, 12, 20, 0.0);
  for (GdnToken& token : tokens) token.gates.log_decay = -20;
  GdnCache cache(config, GetParam().form, Rollback::kRing);
  const std::vector<std::vector<float>> outputs = absorb(cache, shape, tokens, 64);
  std::vector<double> state(12 * 20);
  for (std::size_t t = 0; t < tokens.size(); ++t) {
    const GdnResult expected = gdn_step(tokens[t], state);
    for (std::size_t i = 0; i < 20; ++i) ASSERT_NEAR(outputs[t][i], expected.o[i], 1e-6);
  }
}

TEST_P(GdnForms, CommittingAPrefixOfAVerifyEqualsAbsorbingItBitForBit) {
  const ModelConfig config = head_config(1, 12, 20);
  const GdnShape shape(config);
  const std::vector<GdnToken> tokens = random_tokens(200, 12, 20, -0.1);
  ThreadPool pool(1);
  GdnScratch scratch(shape);
  for (const std::size_t frontier :
       {std::size_t{0}, std::size_t{1}, std::size_t{60}, std::size_t{63}, std::size_t{64}}) {
    for (const std::size_t width : {std::size_t{1}, std::size_t{5}, std::size_t{70}, std::size_t{130}}) {
      for (const std::size_t kept : {std::size_t{0}, std::size_t{1}, std::size_t{4}, width}) {
        if (kept > width) continue;
        GdnCache verified(config, GetParam().form, Rollback::kRing);
        GdnCache plain(config, GetParam().form, Rollback::kRing);
        const std::vector<GdnToken> past(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(frontier));
        absorb(verified, shape, past, 7);
        absorb(plain, shape, past, 64);
        const std::vector<std::int32_t> numbers = counted(width);
        const TreeWalk walk(TokenTree::chain(numbers));
        verified.begin_verify(walk);
        std::vector<float> output(static_cast<std::size_t>(shape.stride));
        const std::vector<float> before = verified.state(kernels_);
        for (std::size_t t = 0; t < width; ++t)
          verified.step(kernels_, 0, static_cast<std::int64_t>(t), PaddedToken(tokens[frontier + t]).input, scratch,
                        output.data());
        verified.end_pass();
        EXPECT_EQ(verified.state(kernels_), before) << "a verify moved the committed state";
        verified.commit(kernels_, std::span(numbers).first(kept), pool);
        absorb(plain, shape,
               {tokens.begin() + static_cast<std::ptrdiff_t>(frontier),
                tokens.begin() + static_cast<std::ptrdiff_t>(frontier + kept)},
               1);
        ASSERT_EQ(verified.state(kernels_), plain.state(kernels_)) << frontier << " " << width << " " << kept;
        // What follows has the same bits as well.
        const std::vector<GdnToken> next(tokens.begin() + static_cast<std::ptrdiff_t>(frontier + kept),
                                         tokens.begin() + static_cast<std::ptrdiff_t>(frontier + kept + 3));
        ASSERT_EQ(absorb(verified, shape, next, 3), absorb(plain, shape, next, 1));
      }
    }
  }
}

struct Undone {
  std::string instruction_set;
  Rollback rollback;
};

class GdnRollbacks : public testing::TestWithParam<Undone> {
 protected:
  const Kernels kernels_ = select_kernels(GetParam().instruction_set);
};

std::vector<Undone> rollbacks() {
  std::vector<Undone> result;
  for (const std::string& name : available_instruction_sets())
    for (const Rollback rollback : {Rollback::kRing, Rollback::kSnapshot, Rollback::kTreeChunk})
      result.push_back({name, rollback});
  return result;
}
INSTANTIATE_TEST_SUITE_P(All, GdnRollbacks, testing::ValuesIn(rollbacks()), [](const auto& info) {
  return info.param.instruction_set + "_" + to_text(info.param.rollback);
});

// Two verifies with a commit each; the paths in double precision by the definition. 90 nodes: a path of more than 64,
// and decays so strong that e^c vanishes along it.
TEST_P(GdnRollbacks, NodesAndCommittedPathsEqualTheDefinition) {
  for (const auto& [dk, dv, log_decay, nodes] :
       {std::tuple{12, 20, -0.1, 20}, {128, 128, -0.1, 20}, {12, 20, -0.01, 90}, {12, 20, -20.0, 20}}) {
    const ModelConfig config = head_config(1, dk, dv);
    const GdnShape shape(config);
    GdnCache cache(config, GdnForm::kRecurrent, GetParam().rollback);
    GdnScratch scratch(shape);
    ThreadPool pool(1);
    std::vector<double> committed(static_cast<std::size_t>(dk * dv));
    const std::vector<GdnToken> tokens = random_tokens(2 * nodes, dk, dv, log_decay);
    std::mt19937 generator(5);
    for (int round = 0; round < 2; ++round) {
      TokenTree tree(0);
      for (int node = 1; node < nodes; ++node)
        tree.add(std::uniform_int_distribution<int>(std::max(0, node - 2), node - 1)(generator), node);
      const TreeWalk walk(tree);
      scratch.reserve_states(shape, walk.places);
      const auto token_of = [&](std::int32_t node) { return tokens[static_cast<std::size_t>(round * nodes + node)]; };
      std::vector<std::vector<float>> outputs(static_cast<std::size_t>(nodes),
                                              std::vector<float>(static_cast<std::size_t>(shape.stride), -7.0F));
      cache.begin_verify(walk);
      for (const std::int32_t node : walk.order)
        cache.step(kernels_, 0, node, PaddedToken(token_of(node)).input, scratch,
                   outputs[static_cast<std::size_t>(node)].data());
      cache.end_pass();

      std::vector<std::vector<double>> states(static_cast<std::size_t>(nodes));
      for (int node = 0; node < nodes; ++node) {
        const std::int32_t parent = walk.node(node).parent;
        std::vector<double>& state = states[static_cast<std::size_t>(node)];
        state = parent == kNoNode ? committed : states[static_cast<std::size_t>(parent)];
        const GdnResult expected = gdn_step(token_of(node), state);
        for (std::size_t i = 0; i < expected.o.size(); ++i)
          ASSERT_NEAR(outputs[static_cast<std::size_t>(node)][i], expected.o[i], 4e-6) << round << " node " << node;
      }
      cache.commit(kernels_, tree.path_to(nodes - 1), pool);
      committed = states.back();
      const std::vector<float> state = cache.state(kernels_);
      for (std::size_t i = 0; i < committed.size(); ++i) ASSERT_NEAR(state[i], committed[i], 6e-6) << round;
    }
  }
}

// docs/method/model.md prints what the function says of the 27B shape: 48 GDN layers of 48 value heads of 128 by 128.
TEST(Rollbacks, TheDocumentPrintsWhatTheyCost) {
  ModelConfig config = head_config(48, 128, 128);
  constexpr std::uint64_t kLayers = 48;
  constexpr double kMegabyte = 1e6;
  const std::string document = read_text_file(source_folder() / "docs" / "method" / "model.md");
  for (const Rollback rollback : {Rollback::kRing, Rollback::kSnapshot, Rollback::kTreeChunk}) {
    std::string row = fmt::format("| {} |", to_text(rollback));
    for (const std::int64_t nodes : {1, 16, 32}) {
      const RollbackCost cost = rollback_cost(GdnShape(config), rollback, nodes);
      row += fmt::format(" {:.0f} | {:.0f} |", static_cast<double>(kLayers * cost.held) / kMegabyte,
                         static_cast<double>(kLayers * cost.moved) / kMegabyte);
    }
    EXPECT_THAT(document, testing::HasSubstr(row));
  }
}

TEST(ConvolutionColumns, ATreesWindowIsItsAncestorsAndThenThePast) {
  const Kernels kernels = select_kernels("auto");
  //       0
  //      / \       4 continues 2: its neighbour by number is not on its path
  //     1   2      5 continues 4
  //     |   |
  //     3   4 - 5
  const std::vector<std::int32_t> parents = {-1, 0, 0, 1, 2, 4};
  const std::vector<std::vector<float>> windows = {{-3, -2, -1, 100},   {-2, -1, 100, 101},  {-2, -1, 100, 102},
                                                   {-1, 100, 101, 103}, {-1, 100, 102, 104}, {100, 102, 104, 105}};
  for (const CacheFormat format : {CacheFormat::kFP32, CacheFormat::kBF16}) {
    for (const std::vector<std::int32_t>& path : {std::vector<std::int32_t>{}, {0}, {0, 2}, {0, 2, 4}, {0, 2, 4, 5}}) {
      ConvolutionColumns columns(1, 4, format);
      RowBuffer past(1);
      past.reserve(4);
      for (std::int64_t t = 0; t < 4; ++t) past.row(t)[0] = static_cast<float>(t - 4);
      columns.absorb(past, 4, kernels.vectors);
      RowBuffer projected(1);
      projected.reserve(6);
      for (std::int64_t node = 0; node < 6; ++node) projected.row(node)[0] = static_cast<float>(100 + node);
      columns.begin_pass(projected, 6, parents, kernels.vectors);
      for (std::size_t node = 0; node < 6; ++node) {
        std::vector<const float*> rows;
        columns.taps_of(static_cast<std::int64_t>(node), rows);
        std::vector<float> window;
        for (const float* row : rows) window.push_back(*row);
        EXPECT_EQ(window, windows[node]) << node;
      }
      columns.absorb(projected, path, kernels.vectors);
      std::vector<float> expected = {-3, -2, -1};
      for (const std::int32_t node : path) expected.push_back(static_cast<float>(100 + node));
      for (std::int64_t age = 1; age <= 3; ++age)
        EXPECT_THAT(columns.column(age),
                    testing::ElementsAre(expected[expected.size() - static_cast<std::size_t>(age)]));
    }
  }
}

TEST(ConvolutionColumns, MicroVectorHoldsAcrossEverySplit) {
  const Kernels kernels = select_kernels("auto");
  const std::vector<float> taps = {0.1F, -0.2F, 0.3F, 0.4F};
  const std::vector<double> expected = {0.239475064, 0.825286116, 1.331229416, 1.980548924, 2.639492307};
  AlignedBuffer<float> weights(4 * kRowPadding);
  for (std::size_t tap = 0; tap < 4; ++tap) weights.data()[tap * kRowPadding] = taps[tap];
  for (const CacheFormat format : {CacheFormat::kFP32, CacheFormat::kBF16}) {
    for (std::int64_t split = 0; split <= 5; ++split) {
      ConvolutionColumns columns(1, 4, format);
      std::vector<const float*> rows;
      std::int64_t done = 0;
      for (const std::int64_t count : {split, 5 - split}) {
        if (count == 0) continue;
        RowBuffer projected(1);
        projected.reserve(count);
        for (std::int64_t t = 0; t < count; ++t) projected.row(t)[0] = static_cast<float>(done + t + 1);
        columns.begin_pass(projected, count, {}, kernels.vectors);
        for (std::int64_t t = 0; t < count; ++t) {
          columns.taps_of(t, rows);
          alignas(64) float out[16];
          kernels.gdn.convolve_silu(rows.data(), weights.data(), 4, kRowPadding, 1, out);
          EXPECT_NEAR(out[0], expected[static_cast<std::size_t>(done + t)], 1e-6);
        }
        columns.absorb(projected, count, kernels.vectors);
        done += count;
      }
      EXPECT_THAT(columns.column(1), testing::ElementsAre(5.0F));
      EXPECT_THAT(columns.column(3), testing::ElementsAre(3.0F));
    }
  }
}

TEST(Rope, FrequenciesEqualTheMicroVectors) {
  const std::vector<float> frequencies = rope_frequencies(64, 1e7);
  ASSERT_EQ(frequencies.size(), 32U);
  EXPECT_EQ(frequencies[0], 1.0F);
  EXPECT_FLOAT_EQ(frequencies[1], 0.60429639F);
  EXPECT_FLOAT_EQ(frequencies[2], 0.365174127F);
  EXPECT_FLOAT_EQ(frequencies[16], 3.16227766e-4F);
  EXPECT_NEAR(frequencies[31], std::pow(1e7, -31.0 / 32.0), 1e-13);
}

TEST(Rope, RotatesHalvesAndLeavesTheRestAloneAtEveryDistance) {
  constexpr std::int64_t kPositions = 1001;
  const RopeTable table(kPositions, 6, 1e4);
  const std::vector<float> frequencies = rope_frequencies(6, 1e4);
  for (const std::int64_t position : {0, 5, 1000}) {
    std::vector<float> x = {1, 2, 3, 4, 5, 6, 7, 8};
    const std::vector<float> before = x;
    table.rotate(position, x.data());
    for (std::size_t i = 0; i < 3; ++i) {
      const auto angle = static_cast<double>(static_cast<float>(position) * frequencies[i]);
      EXPECT_NEAR(x[i], before[i] * std::cos(angle) - before[i + 3] * std::sin(angle), 2e-6);
      EXPECT_NEAR(x[i + 3], before[i + 3] * std::cos(angle) + before[i] * std::sin(angle), 2e-6);
    }
    EXPECT_EQ(x[6], 7.0F);
    EXPECT_EQ(x[7], 8.0F);
  }
}

}  // namespace
}  // namespace tare::engine
