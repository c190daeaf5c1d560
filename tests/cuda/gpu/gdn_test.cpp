// Gated DeltaNet on the GPU against a double-precision oracle, and against itself however a sequence is cut into
// passes.
#include <cuda_fp16.h>

#include <bit>
#include <numeric>

#include "base/error.h"
#include "engine/backend/options.h"
#include "tests/cuda/gpu/gdn_layer.h"
#include "tests/cuda/gpu/sanitized.h"

namespace tare::engine::test {
namespace {

// Relative, of a token's row. FP32 sums of 128 products and two norms; the chunk form's TF32 parts carry 22 bits.
constexpr double kFloatError = 3e-6;
// The gated norm divides by the outputs' size: where |o| is small against |S| |q| the state's rounding is larger.
constexpr double kHalfStateError = 5e-3;
// Three bits fewer. The oracle of an INT8 state rounds as the layer does; what is left are codes that FP32 turns.
constexpr double kCoarseStateError = 4e-2;

struct FormCase {
  GdnForm form;
  StateFormat state;
  CacheFormat columns;
  int slices;
};
std::vector<FormCase> all_cases() {
  std::vector<FormCase> cases;
  for (const GdnForm form : {GdnForm::kRecurrent, GdnForm::kChunked}) {
    for (const int slices : {1, 2}) {
      cases.push_back({form, StateFormat::kFP32, CacheFormat::kFP32, slices});
      cases.push_back({form, StateFormat::kFP32, CacheFormat::kBF16, slices});
      cases.push_back({form, StateFormat::kFP16, CacheFormat::kFP32, slices});
      cases.push_back({form, StateFormat::kBF16, CacheFormat::kFP32, slices});
      cases.push_back({form, StateFormat::kInt8, CacheFormat::kFP32, slices});
    }
  }
  return cases;
}
std::string case_name(const testing::TestParamInfo<FormCase>& info) {
  return to_text(info.param.form) + "_" + to_text(info.param.state) + "_columns_" + to_text(info.param.columns) + "_" +
         std::to_string(info.param.slices) + "_slices";
}

class GdnForms : public GpuTest, public testing::WithParamInterface<FormCase> {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (!IsSkipped() && GetParam().slices > gdn_slices_of_device()) GTEST_SKIP() << "no clusters on this GPU";
  }
  [[nodiscard]] static GdnLayerSettings settings() {
    return {
        .form = GetParam().form, .state = GetParam().state, .columns = GetParam().columns, .slices = GetParam().slices};
  }
  [[nodiscard]] static double bound() {
    return GetParam().state == StateFormat::kFP32   ? kFloatError
           : GetParam().state == StateFormat::kFP16 ? kHalfStateError
                                                    : kCoarseStateError;
  }
};
INSTANTIATE_TEST_SUITE_P(All, GdnForms, testing::ValuesIn(all_cases()), case_name);

std::vector<std::vector<double>> expected_of(GdnOracle& oracle, const GdnInputs& inputs) {
  std::vector<std::vector<double>> expected;
  for (const GdnInput& input : inputs) expected.push_back(oracle.step(input));
  return expected;
}

TEST_P(GdnForms, VerifyAndFoldFollowTheDefinition) {
  for (const int tokens : some("token counts", {1, 2, 8, 9, 15, 17, 24, 32, 3, 16, 31}, 11, 3)) {
    GdnLayer layer(settings());
    GdnOracle oracle = layer.oracle();
    // A first verify, all of it committed, gives the second a state and columns to start from.
    const GdnInputs first = random_inputs(layer.settings.shape, 1, tokens);
    const GdnInputs second = random_inputs(layer.settings.shape, 2, tokens);
    EXPECT_LE(largest_error(layer.round(first, 0), expected_of(oracle, first)), bound()) << tokens << " tokens, first";
    oracle.store();
    const std::vector<double> state = oracle.state();
    EXPECT_LE(largest_error(layer.round(second, tokens), expected_of(oracle, second)), bound())
        << tokens << " tokens, second";
    EXPECT_LE(relative_error(widened(layer.state(0, layer.half)), state), bound()) << tokens;
    EXPECT_LE(relative_error(widened(layer.state(tokens, 1 - layer.half)), oracle.state()), bound()) << tokens;
  }
}

TEST_P(GdnForms, CommitsOfAnyCountGoOnFromTheAcceptedTokens) {
  GdnLayer layer(settings());
  const CudaGdnShape& shape = layer.settings.shape;
  GdnOracle oracle = layer.oracle();
  Philox random(3, 4);
  int pending = 0;
  std::uint64_t position = 0;
  const int rounds = amount("rounds", 50, 12, 5);
  for (int round = 0; round < rounds; ++round) {
    const auto tokens = static_cast<int>(1 + random.below(32));
    const int most = std::min(tokens, round % 5);
    const int accepted = round % 5 == 4 ? tokens : most;
    GdnInputs inputs;
    for (int token = 0; token < tokens; ++token) {
      // Rejected tokens come from another sequence.
      inputs.push_back(random_input(shape, token < accepted ? 11 : 1000 + static_cast<std::uint64_t>(round),
                                    position + static_cast<std::uint64_t>(token)));
    }
    GdnOracle verify = oracle;
    ASSERT_LE(largest_error(layer.round(inputs, pending), expected_of(verify, inputs)), bound())
        << "round " << round << ", " << tokens << " tokens, " << pending << " pending";
    inputs.resize(static_cast<std::size_t>(accepted));
    expected_of(oracle, inputs);
    if (accepted > 0) oracle.store();
    pending = accepted;
    position += static_cast<std::uint64_t>(accepted);
  }
  EXPECT_LE(relative_error(widened(layer.state(pending, 1 - layer.half)), oracle.state()), bound());
}

TEST_P(GdnForms, PrefillsOfAnyLengthGoOnInDecoding) {
  for (const int tokens : some("lengths", {1, 3, 15, 16, 17, 63, 64, 261, 65}, 9, 1)) {
    GdnLayer layer(settings());
    const CudaGdnShape& shape = layer.settings.shape;
    GdnOracle oracle = layer.oracle();
    const GdnInputs before = random_inputs(shape, 20, 5);
    const GdnInputs prompt = random_inputs(shape, 21, tokens);
    const GdnInputs more = random_inputs(shape, 22, 7);
    layer.round(before, 0);
    GdnInputs committed(before.begin(), before.begin() + 2);
    expected_of(oracle, committed);
    oracle.store();
    EXPECT_LE(largest_error(layer.prefill(prompt, 2), expected_of(oracle, prompt)), bound()) << tokens;
    oracle.store();
    EXPECT_LE(relative_error(widened(layer.state(0, layer.half)), oracle.state()), bound()) << tokens;
    EXPECT_LE(largest_error(layer.prefill(more, 0), expected_of(oracle, more)), bound()) << tokens;
    oracle.store();
    EXPECT_LE(largest_error(layer.round(more, 0), expected_of(oracle, more)), bound()) << tokens;
  }
}

TEST_P(GdnForms, APassThatFoldedIsTheSameAgainWithoutPending) {
  TARE_SKIP_WHERE_RACECHECKED("CommitsOfAnyCountGoOnFromTheAcceptedTokens");
  GdnLayer layer(settings());
  const CudaGdnShape& shape = layer.settings.shape;
  layer.round(random_inputs(shape, 30, 16), 0);
  const GdnInputs inputs = random_inputs(shape, 31, 12);
  const GdnOutputs folded = layer.round(inputs, 9);
  EXPECT_EQ(first_difference(layer.run(inputs, 0, false), folded), "") << "the same half";
  EXPECT_EQ(first_difference(layer.round(inputs, 0), folded), "") << "the other half";
}

TEST_P(GdnForms, StrongDecayZeroKeysAndTinyNormsStayFinite) {
  TARE_SKIP_WHERE_RACECHECKED("VerifyAndFoldFollowTheDefinition");
  for (const int tokens : {5, 16, 32}) {
    GdnLayerSettings strong = settings();
    strong.decay_rate = 20;
    GdnLayer layer(strong);
    GdnOracle oracle = layer.oracle();
    GdnInputs inputs = random_inputs(strong.shape, 40, tokens);
    const int keys = strong.shape.key_heads * strong.shape.dk;
    for (std::size_t token = 0; token < inputs.size(); ++token) {
      const float factor = token % 3 == 0 ? 1e-8F : token % 3 == 1 ? 0.0F : 1.0F;
      for (int i = 0; i < 2 * keys; ++i) inputs[token].qkvz[static_cast<std::size_t>(i)] *= factor;
      for (int head = 0; head < strong.shape.value_heads; ++head) {
        inputs[token].gates[static_cast<std::size_t>(strong.shape.value_heads + head)] = token % 2 == 0 ? 30.0F : 1.0F;
      }
    }
    EXPECT_LE(largest_error(layer.round(inputs, 0), expected_of(oracle, inputs)), bound());
    oracle.store();
    EXPECT_LE(largest_error(layer.round(inputs, tokens), expected_of(oracle, inputs)), bound());
  }
}

// Keys that are one and the same direction: the chunk form's triangular matrix is full, u cancels.
TEST_P(GdnForms, RepeatedKeysFollowTheDefinition) {
  TARE_SKIP_WHERE_RACECHECKED("VerifyAndFoldFollowTheDefinition");
  GdnLayer layer(settings());
  GdnOracle oracle = layer.oracle();
  GdnInputs inputs = random_inputs(layer.settings.shape, 41, 32);
  for (GdnInput& input : inputs) {
    std::copy_n(inputs[0].qkvz.begin(), 2 * layer.settings.shape.key_heads * layer.settings.shape.dk,
                input.qkvz.begin());
  }
  EXPECT_LE(largest_error(layer.round(inputs, 0), expected_of(oracle, inputs)), bound());
}

// The control: one token too many, or too few, is far outside every bound.
TEST_P(GdnForms, ARejectedTokenThatLeaksIsSeen) {
  TARE_SKIP_WHERE_RACECHECKED("CommitsOfAnyCountGoOnFromTheAcceptedTokens");
  const GdnInputs inputs = random_inputs(GdnLayerSettings{}.shape, 50, 9);
  const GdnInputs next = random_inputs(GdnLayerSettings{}.shape, 51, 1);
  for (const int leaked : {3, 5}) {
    GdnLayer layer(settings());
    GdnOracle oracle = layer.oracle();
    layer.round(inputs, 0);
    expected_of(oracle, GdnInputs(inputs.begin(), inputs.begin() + 4));
    const std::vector<double> state = oracle.state();
    EXPECT_GT(largest_error(layer.round(next, leaked), expected_of(oracle, next)), 20 * bound());
    EXPECT_GT(relative_error(widened(layer.state(0, layer.half)), state), 20 * bound());
  }
}

// Every path of the kernel on two heads, small enough for compute-sanitizer's racecheck:
//   compute-sanitizer --tool racecheck gpu_gdn_tests --gtest_filter='*GdnPaths*'
class GdnPaths : public GdnForms {};
INSTANTIATE_TEST_SUITE_P(Fp32, GdnPaths,
                         testing::Values(FormCase{GdnForm::kRecurrent, StateFormat::kFP32, CacheFormat::kFP32, 2},
                                         FormCase{GdnForm::kChunked, StateFormat::kFP32, CacheFormat::kFP32, 2},
                                         FormCase{GdnForm::kRecurrent, StateFormat::kFP16, CacheFormat::kBF16, 1},
                                         FormCase{GdnForm::kChunked, StateFormat::kFP32, CacheFormat::kFP32, 1},
                                         FormCase{GdnForm::kRecurrent, StateFormat::kInt8, CacheFormat::kFP32, 2},
                                         FormCase{GdnForm::kChunked, StateFormat::kInt8, CacheFormat::kFP32, 2}),
                         case_name);

TEST_P(GdnPaths, RoundsOfPlanesFoldsAndPrefillsFollowTheDefinition) {
  GdnLayerSettings small = settings();
  small.shape.key_heads = 1;
  small.shape.value_heads = 2;
  GdnLayer layer(small);
  GdnOracle oracle = layer.oracle();
  const GdnInputs prompt = random_inputs(small.shape, 42, 19);
  EXPECT_LE(largest_error(layer.prefill(prompt, 0), expected_of(oracle, prompt)), bound());
  int pending = 0;
  for (const int tokens : {17, 16, 1, 5}) {
    GdnInputs inputs = random_inputs(small.shape, 43, tokens);
    const int width = operand_width(tokens);
    const PlanesOfRows qkvz = random_planes(width, 8, 23, 0.125F, inputs, &GdnInput::qkvz);
    const PlanesOfRows gates = random_planes(width, 8, 5, 0.25F, inputs, &GdnInput::gates);
    layer.half = 1 - layer.half;
    EXPECT_LE(largest_error(layer.run(qkvz.result, gates.result, tokens, pending, false), expected_of(oracle, inputs)),
              bound())
        << tokens << " tokens";
    pending = tokens;
  }
}

class GdnBits : public GpuTest, public testing::WithParamInterface<int> {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (!IsSkipped() && GetParam() > gdn_slices_of_device()) GTEST_SKIP() << "no clusters on this GPU";
  }
};
INSTANTIATE_TEST_SUITE_P(Slices, GdnBits, testing::Values(1, 2));

// Outputs of a sequence by verifies of `tokens`, each followed by tokens that are rejected.
GdnOutputs by_rounds(GdnLayer& layer, const GdnInputs& sequence, const std::vector<int>& cuts, int rejected) {
  GdnOutputs outputs;
  std::size_t position = 0;
  int pending = 0;
  for (std::size_t round = 0; position < sequence.size(); ++round) {
    const auto count =
        std::min<std::size_t>(static_cast<std::size_t>(cuts[round % cuts.size()]), sequence.size() - position);
    const auto from = sequence.begin() + static_cast<std::ptrdiff_t>(position);
    GdnInputs inputs(from, from + static_cast<std::ptrdiff_t>(count));
    for (int extra = 0; extra < rejected && inputs.size() < 32; ++extra) {
      inputs.push_back(random_input(layer.settings.shape, 77, position + static_cast<std::uint64_t>(extra)));
    }
    const GdnOutputs round_outputs = layer.round(inputs, pending);
    outputs.insert(outputs.end(), round_outputs.begin(), round_outputs.begin() + static_cast<std::ptrdiff_t>(count));
    position += count;
    pending = static_cast<int>(count);
  }
  // One more pass folds the last commit.
  layer.round({random_input(layer.settings.shape, 78, 0)}, pending);
  return outputs;
}

TEST_P(GdnBits, TheRecurrentFormHasTheSameBitsHoweverItIsCut) {
  for (const CacheFormat columns : {CacheFormat::kFP32, CacheFormat::kBF16}) {
    GdnLayerSettings settings{.columns = columns, .slices = GetParam()};
    const GdnInputs sequence = random_inputs(settings.shape, 60, amount("tokens", 96, 96, 20));
    const std::ptrdiff_t prompt_tokens = std::ssize(sequence) / 2 + 2;
    GdnLayer single(settings);
    const GdnOutputs expected = by_rounds(single, sequence, {1}, 0);
    const std::vector<float> state = single.state(0, single.half);
    struct Cut {
      std::vector<int> cuts;
      int rejected;
    };
    for (const Cut& cut :
         {Cut{{16}, 0}, Cut{{32}, 0}, Cut{{1}, 15}, Cut{{2, 3, 7}, 4}, Cut{{17, 1, 31}, 1}, Cut{{8}, 24}}) {
      GdnLayer layer(settings);
      EXPECT_EQ(first_difference(by_rounds(layer, sequence, cut.cuts, cut.rejected), expected), "")
          << "cuts of " << cut.cuts[0] << " and so on";
      EXPECT_EQ(layer.state(0, layer.half), state) << "cuts of " << cut.cuts[0] << " and so on";
    }
    GdnLayer prefilled(settings);
    const GdnOutputs prompt = prefilled.prefill(GdnInputs(sequence.begin(), sequence.begin() + prompt_tokens), 0);
    EXPECT_EQ(first_difference(prompt, GdnOutputs(expected.begin(), expected.begin() + prompt_tokens)), "");
    const GdnOutputs rest = by_rounds(prefilled, GdnInputs(sequence.begin() + prompt_tokens, sequence.end()), {5}, 3);
    EXPECT_EQ(first_difference(rest, GdnOutputs(expected.begin() + prompt_tokens, expected.end())), "");
    EXPECT_EQ(prefilled.state(0, prefilled.half), state);
  }
}

// The host's fold is the kernels'.
TEST_P(GdnBits, TheHostFoldsAsTheKernelsDo) {
  GdnLayer layer({.slices = GetParam()});
  layer.round(random_inputs(layer.settings.shape, 61, 32), 0);
  for (const int pending : {0, 1, 13, 31}) {
    const std::vector<float> by_host = layer.state(pending, 1 - layer.half);
    layer.round(random_inputs(layer.settings.shape, 62, 32), pending);
    EXPECT_EQ(layer.state(0, layer.half), by_host) << pending;
  }
}

class Gdn : public GpuTest {};

TEST_F(Gdn, OtherShapesFollowTheDefinition) {
  struct Case {
    int key_heads, value_heads, dk, dv;
  };
  for (const Case& at : some("shapes",
                             {Case{16, 16, 128, 128}, Case{16, 48, 128, 128}, Case{2, 6, 12, 20}, Case{2, 4, 128, 128},
                              Case{3, 3, 64, 64}, Case{1, 1, 4, 4}, Case{2, 4, 100, 124}},
                             7, 5)) {
    for (const GdnForm form : {GdnForm::kRecurrent, GdnForm::kChunked}) {
      for (int slices = 1; slices <= gdn_slices_of_device(); ++slices) {
        GdnLayer layer(
            {.shape = {at.key_heads, at.value_heads, at.dk, at.dv, 4, 1e-6F}, .form = form, .slices = slices});
        GdnOracle oracle = layer.oracle();
        for (const int tokens : {5, 16}) {
          const GdnInputs inputs = random_inputs(layer.settings.shape, 70, tokens);
          EXPECT_LE(largest_error(layer.round(inputs, tokens == 5 ? 0 : 5), expected_of(oracle, inputs)), kFloatError)
              << at.key_heads << " " << at.value_heads << " " << at.dk << " " << at.dv << " " << to_text(form) << " "
              << slices << " slices";
        }
      }
    }
  }
}

// What store_group makes of FP32 rows.
TEST_F(Gdn, PanelsHoldTheRowsRoundedAndZerosPastTheLastToken) {
  struct Case {
    int key_heads, value_heads, dk, dv;
  };
  for (const Case& at : {Case{2, 6, 128, 128}, Case{2, 6, 12, 20}, Case{1, 3, 64, 64}}) {
    for (const OperandLayout layout : {OperandLayout::kFP16Panels, OperandLayout::kBF16Panels}) {
      for (const int tokens : some("token counts", {1, 9, 17, 8, 16, 32}, 6, 3)) {
        GdnLayer layer({.shape = {at.key_heads, at.value_heads, at.dk, at.dv, 4, 1e-6F}});
        const GdnInputs inputs = random_inputs(layer.settings.shape, 80, tokens);
        const GdnOutputs rows = layer.run(inputs, 0, false);
        const int width = operand_width(tokens);
        const int exponent = layout == OperandLayout::kFP16Panels ? 3 : 0;
        PoisonedBuffer out(static_cast<std::size_t>(operand_bytes(layout, layer.columns(), width)));
        const DeviceBuffer qkvz = on_device(GdnLayer::rows_of(inputs, false));
        const DeviceBuffer gates = on_device(GdnLayer::rows_of(inputs, true));
        layer.launch(GdnLayer::rows_result(qkvz, inputs, false), GdnLayer::rows_result(gates, inputs, true), tokens, 0,
                     false, {layout, width, layer.columns(), exponent, out.data()}, {});
        EXPECT_TRUE(out.canaries_intact());
        const std::vector<std::byte> bytes = out.read<std::byte>();
        int wrong = 0;
        for (std::int64_t group = 0; group < operand_blocks(layer.columns()); ++group) {
          const std::byte* block = bytes.data() + group * operand_block_bytes(width);
          for (int token = 0; token < width; ++token) {
            float sum = 0;
            for (int column = 0; column < 64; ++column) {
              std::uint16_t bits = 0;
              std::memcpy(&bits, block + 2 * operand_panel_place(width, token, column), 2);
              const auto of_row = static_cast<std::size_t>(group * 64 + column);
              const float row = token < tokens && static_cast<int>(of_row) < layer.columns()
                                    ? round_to_bfloat16(rows[static_cast<std::size_t>(token)][of_row])
                                    : 0.0F;
              const float kept =
                  layout == OperandLayout::kFP16Panels ? float16_to_float(bits) : bfloat16_to_float(bits);
              const float wanted =
                  layout == OperandLayout::kFP16Panels ? float16_to_float(float_to_float16(row * 8)) : row;
              wrong += kept == wanted ? 0 : 1;
              sum += kept;
            }
            if (layout == OperandLayout::kBF16Panels) continue;
            float stored = 0;
            std::memcpy(&stored, block + operand_panel_bytes(width) + 4 * operand_sum_place(width, token), 4);
            wrong += std::abs(stored - sum) <= 1e-2F ? 0 : 1;
          }
        }
        EXPECT_EQ(wrong, 0) << at.dk << " " << at.dv << ", " << tokens << " tokens";
      }
    }
  }
}

TEST_F(Gdn, PlanesGiveTheSameBitsAsTheirSums) {
  std::size_t turn = 0;
  for (const int blocks : {1, 7, 23, 60}) {  // one plane a row block, several, more than are read at once
    for (const int tokens : in_turn("token counts", {1, 2, 8, 9, 16, 17, 31, 32}, 8, 3 * turn++)) {
      for (const GdnForm form : {GdnForm::kRecurrent, GdnForm::kChunked}) {
        for (int slices = 1; slices <= gdn_slices_of_device(); ++slices) {
          GdnLayer layer({.form = form, .slices = slices});
          GdnInputs inputs = random_inputs(layer.settings.shape, 90, tokens);
          const PlanesOfRows planes = random_planes(operand_width(tokens), 8, blocks, 0.125F, inputs, &GdnInput::qkvz);
          const GdnOutputs rows = layer.run(inputs, 0, false);
          const DeviceBuffer gates = on_device(GdnLayer::rows_of(inputs, true));
          EXPECT_EQ(first_difference(
                        layer.run(planes.result, GdnLayer::rows_result(gates, inputs, true), tokens, 0, false), rows),
                    "")
              << to_text(form) << ", " << slices << " slices, " << tokens << " tokens, at most "
              << planes.result.plan.most_planes() << " planes";
        }
      }
    }
  }
}

TEST_F(Gdn, GatesMayComeAsPlanesToo) {
  std::size_t turn = 0;
  for (const int blocks : {1, 2, 5, 24, 31}) {  // planes; the last ones are more than are read at once
    for (const int tokens : in_turn("token counts", {1, 2, 9, 16, 17, 32}, 6, 5 * ++turn)) {
      for (const GdnForm form : {GdnForm::kRecurrent, GdnForm::kChunked}) {
        for (int slices = 1; slices <= gdn_slices_of_device(); ++slices) {
          GdnLayer layer({.form = form, .slices = slices});
          GdnInputs inputs = random_inputs(layer.settings.shape, 92, tokens);
          PlanesOfRows gates = random_planes(operand_width(tokens), 40, blocks, 0.25F, inputs, &GdnInput::gates);
          ASSERT_EQ(gates.result.plan.most_planes(), blocks);
          const DeviceBuffer qkvz = on_device(GdnLayer::rows_of(inputs, false));
          const ProductResult rows = GdnLayer::rows_result(qkvz, inputs, false);
          const GdnOutputs expected = layer.run(inputs, 0, false);
          const std::string which = to_text(form) + ", " + std::to_string(slices) + " slices, " +
                                    std::to_string(tokens) + " tokens, " + std::to_string(blocks) + " planes";
          EXPECT_EQ(first_difference(layer.run(rows, gates.result, tokens, 0, false), expected), "") << which;
          // The control: a plane less shows.
          if (blocks == 1) continue;
          gates.result.plan.grid = blocks - 1;
          EXPECT_NE(first_difference(layer.run(rows, gates.result, tokens, 0, false), expected), "") << which;
        }
      }
    }
  }
}

TEST_F(Gdn, FillingL2ChangesNoBits) {
  GdnLayer layer({});
  const GdnInputs inputs = random_inputs(layer.settings.shape, 91, 16);
  const GdnOutputs rows = layer.run(inputs, 0, false);
  const DeviceBuffer weights(1000 * 1000 + 48, "a test's weights");
  fill_device(weights.data(), weights.bytes(), 1);
  const DeviceBuffer qkvz = on_device(GdnLayer::rows_of(inputs, false));
  const DeviceBuffer gates = on_device(GdnLayer::rows_of(inputs, true));
  PoisonedBuffer out(static_cast<std::size_t>(operand_bytes(OperandLayout::kFP32Rows, layer.columns(), 16)));
  layer.launch(GdnLayer::rows_result(qkvz, inputs, false), GdnLayer::rows_result(gates, inputs, true), 16, 0, false,
               {OperandLayout::kFP32Rows, 16, layer.columns(), 0, out.data()},
               {weights.data(), static_cast<std::int64_t>(weights.bytes()), 5});
  const std::vector<float> flat = out.read<float>();
  for (std::size_t token = 0; token < 16; ++token) {
    const auto from = flat.begin() + static_cast<std::ptrdiff_t>(token * rows[token].size());
    ASSERT_TRUE(std::equal(rows[token].begin(), rows[token].end(), from)) << token;
  }
}

TEST(GdnShape, OthersAreRefusedByName) {
  const auto refuses = [](CudaGdnShape shape, const std::string& name) {
    try {
      check_gdn_shape(shape);
    } catch (const Error& error) {
      return error.parts().where == name;
    }
    return false;
  };
  const CudaGdnShape good{.key_heads = 2, .value_heads = 6, .dk = 128, .dv = 128, .taps = 4, .eps = 1e-6F};
  EXPECT_NO_THROW(check_gdn_shape(good));
  CudaGdnShape shape = good;
  shape.dk = 256;
  EXPECT_TRUE(refuses(shape, "linear_key_head_dim"));
  shape = good;
  shape.dv = 30;
  EXPECT_TRUE(refuses(shape, "linear_value_head_dim"));
  shape = good;
  shape.taps = 3;
  EXPECT_TRUE(refuses(shape, "linear_conv_kernel_dim"));
  shape = good;
  shape.value_heads = 5;
  EXPECT_TRUE(refuses(shape, "linear_num_value_heads"));
  shape.value_heads = 126;  // 32,768 rows of q, k, v and z
  EXPECT_NO_THROW(check_gdn_shape(shape));
  shape.value_heads = 128;
  EXPECT_TRUE(refuses(shape, "linear_num_value_heads"));
}

}  // namespace
}  // namespace tare::engine::test
