// INT8 states on the GPU against the scalar definition, bit for bit: up to where a state is first stored its layer and
// one with an FP32 state do the same operations, so what is stored is the definition of the other's state.
#include <cmath>
#include <limits>

#include "engine/backend/options.h"
#include "tests/cuda/gpu/gdn_layer.h"
#include "tests/cuda/gpu/random_tree.h"

namespace tare::engine::test {
namespace {

struct Case {
  GdnForm form;
  int slices;
};
class GdnInt8 : public GpuTest, public testing::WithParamInterface<Case> {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (!IsSkipped() && GetParam().slices > gdn_slices_of_device()) GTEST_SKIP() << "no clusters on this GPU";
  }
  [[nodiscard]] static GdnLayerSettings settings(StateFormat format, int dk = 128, int dv = 128) {
    return {.shape = {.key_heads = 2, .value_heads = 4, .dk = dk, .dv = dv, .taps = 4, .eps = 1e-6F},
            .form = GetParam().form,
            .state = format,
            .slices = GetParam().slices};
  }
};
INSTANTIATE_TEST_SUITE_P(All, GdnInt8,
                         testing::Values(Case{GdnForm::kRecurrent, 1}, Case{GdnForm::kRecurrent, 2},
                                         Case{GdnForm::kChunked, 1}, Case{GdnForm::kChunked, 2}),
                         [](const testing::TestParamInfo<Case>& info) {
                           return to_text(info.param.form) + "_" + std::to_string(info.param.slices) + "_slices";
                         });

std::vector<float> stored(std::vector<float> state, std::int64_t stride) {
  round_state(StateFormat::kInt8, state, stride);
  return state;
}

TEST_P(GdnInt8, WhatIsStoredIsTheDefinition) {
  struct Shape {
    int dk, dv;
  };
  for (const Shape& shape : {Shape{128, 128}, Shape{128, 100}, Shape{12, 20}, Shape{64, 64}, Shape{100, 124}}) {
    for (const int tokens : some("token counts", {1, 5, 16, 40}, 4, 1)) {
      GdnLayer exact(settings(StateFormat::kFP32, shape.dk, shape.dv));
      GdnLayer int8(settings(StateFormat::kInt8, shape.dk, shape.dv));
      const GdnInputs inputs = random_inputs(exact.settings.shape, 1, tokens);
      EXPECT_EQ(first_difference(int8.prefill(inputs, 0), exact.prefill(inputs, 0)), "");
      const std::vector<float> state = exact.state(0, exact.half);
      const std::vector<float> got = int8.state(0, int8.half);
      EXPECT_EQ(got, stored(state, shape.dv))
          << "after a prefill of " << tokens << ", " << shape.dk << " x " << shape.dv;
      EXPECT_EQ(got, stored(got, shape.dv)) << "what was stored once is stored again without loss";
      // The control: other blocks, or no rounding, are something else.
      if (shape.dv > 64) {
        EXPECT_NE(got, stored(state, shape.dv / 4)) << "blocks of another size would pass";
      }
      EXPECT_NE(got, state);
    }
    // A fold: the records of one verify of a state of zeros are the same in both.
    GdnLayer exact(settings(StateFormat::kFP32, shape.dk, shape.dv));
    GdnLayer int8(settings(StateFormat::kInt8, shape.dk, shape.dv));
    const GdnInputs first = random_inputs(exact.settings.shape, 2, 16);
    const GdnInputs next = random_inputs(exact.settings.shape, 3, 4);
    for (GdnLayer* layer : {&exact, &int8}) {
      layer->round(first, 0);
      layer->round(next, 11);
    }
    EXPECT_EQ(int8.state(0, int8.half), stored(exact.state(0, exact.half), shape.dv)) << "after a fold";
  }
}

TEST_P(GdnInt8, ATreesPathIsStoredAsTheDefinitionSays) {
  for (const bool snapshots : {false, true}) {
    if (snapshots && GetParam().form == GdnForm::kChunked) continue;
    GdnLayerSettings of_exact = settings(StateFormat::kFP32);
    GdnLayerSettings of_int8 = settings(StateFormat::kInt8);
    of_exact.snapshots = of_int8.snapshots = snapshots;
    GdnLayer exact(of_exact);
    GdnLayer int8(of_int8);
    Philox random(4, 5);
    const TokenTree tree = random_tree(TreeKind::kRandom, 16, 1000, random);
    const GdnInputs inputs = random_inputs(exact.settings.shape, 6, 16);
    const GdnInputs next = random_inputs(exact.settings.shape, 7, 2);
    const std::vector<std::int32_t> path = tree.path_to(13);
    EXPECT_EQ(first_difference(int8.round(tree, inputs, 0), exact.round(tree, inputs, 0)), "");
    exact.round(next, path);
    int8.round(next, path);
    EXPECT_EQ(int8.state(0, int8.half), stored(exact.state(0, exact.half), 128))
        << (snapshots ? "snapshots" : "records");
  }
}

// An update that is not finite makes every block of its head that it reaches NaN, and no other head's; the next pass
// gives it out.
TEST_P(GdnInt8, WhatIsNotFiniteStaysVisible) {
  GdnLayer layer(settings(StateFormat::kInt8));
  const CudaGdnShape& shape = layer.settings.shape;
  GdnInputs inputs = random_inputs(shape, 8, 3);
  constexpr int kHead = 1;
  constexpr int kColumn = 70;  // of the second block
  inputs[1].qkvz[static_cast<std::size_t>((2 * shape.key_heads) * shape.dk + kHead * shape.dv + kColumn)] =
      std::numeric_limits<float>::infinity();
  layer.prefill(inputs, 0);
  const std::vector<float> state = layer.state(0, layer.half);
  for (std::size_t i = 0; i < state.size(); ++i) {
    const auto at = static_cast<int>(i);
    const bool reached = at / (shape.dk * shape.dv) == kHead && at % shape.dv >= 64;
    ASSERT_EQ(std::isnan(state[i]), reached) << "element " << i;
  }
  const GdnOutputs outputs = layer.round(random_inputs(shape, 9, 1), 0);
  int of_head = 0;
  for (std::size_t column = 0; column < outputs[0].size(); ++column) {
    const bool own = static_cast<int>(column) / shape.dv == kHead;
    EXPECT_EQ(std::isnan(outputs[0][column]), own) << column;  // the norm spreads it over the head
    of_head += own ? 1 : 0;
  }
  EXPECT_EQ(of_head, shape.dv);
}

}  // namespace
}  // namespace tare::engine::test
