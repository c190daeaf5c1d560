// The CPU backend against Hugging Face transformers in FP32 (goldens in tests/fixtures).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/engine/cpu_fixture.h"

namespace tare::engine::test {
namespace {

struct Case {
  const char* model;
  double tolerance;  // of logits and hidden states; model.md, validation: FP32 rounding alone reaches half of these
  const char* golden;
  GdnForm form;
  std::int64_t chunk;
};

std::vector<Case> cases() {
  std::vector<Case> result;
  constexpr std::int64_t kWhole = 512;
  for (const auto& [model, tolerance] : {std::pair{"hybrid-small", 4e-4}, std::pair{"hybrid-headdim256", 3e-5}})
    for (const char* golden : {"golden-97.safetensors", "golden-261.safetensors"})
      for (const GdnForm form : {GdnForm::kRecurrent, GdnForm::kChunked})
        for (const std::int64_t chunk : {std::int64_t{1}, std::int64_t{7}, std::int64_t{64}, kWhole})
          result.push_back({model, tolerance, golden, form, chunk});
  return result;
}

std::string case_name(const testing::TestParamInfo<Case>& info) {
  std::string name = std::string(info.param.model) + "_" + std::string(info.param.golden).substr(7, 3) + "_" +
                     to_text(info.param.form) + "_chunk" + std::to_string(info.param.chunk);
  for (char& letter : name)
    if (letter == '-' || letter == '.') letter = '_';
  return name;
}

class CpuParity : public testing::TestWithParam<Case> {
 protected:
  std::unique_ptr<Backend> open() const {
    EngineOptions options = exact_options(GetParam().form);
    options.prefill.chunk = GetParam().chunk;
    return open_backend(GetParam().model, options);
  }
  Golden golden() const { return Golden(fixture(GetParam().model) / GetParam().golden); }
};

TEST_P(CpuParity, LogitsAndHiddenStatesEqualTheGoldens) {
  const std::unique_ptr<Backend> backend = open();
  const Golden expected = golden();
  const Captured captured = capture_prefill(*backend, expected.tokens);
  EXPECT_LE(max_difference(captured.logits, expected.floats("logits")), GetParam().tolerance);
  for (std::size_t layer = 0; layer < captured.hidden.size(); ++layer) {
    const std::string name = "hidden." + std::to_string(layer);
    if (!expected.file.has(name)) continue;  // only the short golden has them
    EXPECT_LE(max_difference(captured.hidden[layer], expected.floats(name)), GetParam().tolerance) << name;
  }
}

TEST_P(CpuParity, FortyGreedyTokensFollow) {
  const std::unique_ptr<Backend> backend = open();
  const Golden expected = golden();
  std::int32_t token = greedy(backend->prefill(expected.tokens));
  std::vector<std::int32_t> produced = {token};
  while (produced.size() < 40) {
    token = greedy(backend->verify(std::span(&token, 1)).logits);
    backend->commit(1);
    produced.push_back(token);
  }
  EXPECT_THAT(produced, testing::ElementsAreArray(integers(expected.file.tensor("greedy_ids"))));
}

INSTANTIATE_TEST_SUITE_P(Goldens, CpuParity, testing::ValuesIn(cases()), case_name);

}  // namespace
}  // namespace tare::engine::test
