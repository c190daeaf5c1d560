// The embedded model on 64 prompts: the CPU's greedy text is forced onto the GPU, and every position at which the GPU
// would have chosen otherwise is listed with the CPU's margin between its two largest logits. Only near ties may
// differ.
#include <algorithm>
#include <iostream>
#include <limits>

#include "engine/cuda/cuda_backend.h"
#include "engine/tokenizer/tokenizer.h"
#include "forced/prompts.h"
#include "tests/cuda/gpu/gpu_test.h"
#include "tests/cuda/gpu/sanitized.h"
#include "tests/engine/cpu_fixture.h"

namespace tare::engine::test {
namespace {

constexpr std::size_t kTextTokens = 48;
constexpr std::size_t kWidth = 16;  // of the GPU's rounds: a text is verified in chains of 16

struct Position {
  std::int32_t token = 0;
  float margin = 0;
};

Position best_and_margin(std::span<const float> logits) {
  std::size_t best = 0;
  for (std::size_t i = 1; i < logits.size(); ++i)
    if (logits[i] > logits[best]) best = i;
  float second = -std::numeric_limits<float>::infinity();
  for (std::size_t i = 0; i < logits.size(); ++i)
    if (i != best) second = std::max(second, logits[i]);
  return {static_cast<std::int32_t>(best), logits[best] - second};
}

std::vector<Position> greedy_text(Backend& backend, std::span<const std::int32_t> prompt, std::size_t count) {
  backend.reset();
  std::vector<Position> text = {best_and_margin(backend.prefill(prompt))};
  while (text.size() < count) {
    text.push_back(best_and_margin(backend.verify(std::span(&text.back().token, 1)).logits));
    backend.commit(1);
  }
  return text;
}

// What the GPU chooses at each position of the forced text, in rounds of `width`.
std::vector<std::int32_t> forced_choices(Backend& backend, std::span<const std::int32_t> prompt,
                                         const std::vector<Position>& text, std::size_t width) {
  backend.reset();
  std::vector<std::int32_t> choices = {greedy(backend.prefill(prompt))};
  std::vector<std::int32_t> tokens;
  for (const Position& position : text) tokens.push_back(position.token);
  for (std::size_t begin = 0; begin + 1 < tokens.size(); begin += width) {
    const std::size_t count = std::min(width, tokens.size() - 1 - begin);
    const VerifyOutput output = backend.verify(std::span(tokens).subspan(begin, count), {.logits = false});
    choices.insert(choices.end(), output.best.begin(), output.best.end());
    backend.commit(static_cast<int>(count));
  }
  return choices;
}

struct Case {
  const char* name;
  WeightFormat weights;
  ActivationFormat activations;  // on the GPU; the CPU has FP32
  CacheFormat cache;
  float near_tie;  // nats; the largest margin that rounding may turn
};

class Agreement : public HopperTest, public ::testing::WithParamInterface<Case> {};

TEST_P(Agreement, OnlyNearTiesDiffer) {
  const Case& test = GetParam();
  const std::filesystem::path root = fixture("").parent_path().parent_path().parent_path();
  const std::string model = (root / "models" / "embedded").string();
  const std::unique_ptr<Checkpoint> checkpoint = open_checkpoint(model);
  const Tokenizer tokenizer = Tokenizer::from_file(root / "models" / "embedded" / "tokenizer.json");
  EngineOptions cpu;
  cpu.weights.format = test.weights;
  cpu.kv.key = cpu.kv.value = test.cache;
  cpu.cpu.threads = 8;
  EngineOptions cuda = cpu;
  cuda.backend = BackendKind::kCuda;
  cuda.activations.format = test.activations;
  const std::unique_ptr<Backend> on_cpu = make_cpu_backend(*checkpoint, cpu);
  const std::unique_ptr<Backend> on_gpu = make_cuda_backend(*checkpoint, cuda);
  std::size_t positions = 0;
  std::size_t prompts = 0;
  std::size_t widths_differ = 0;
  std::size_t turned = 0;
  const forced::PromptFile file = forced::read_prompts(root / "prompts" / "tare-64.jsonl");
  const std::size_t most = amount("prompts", file.prompts.size(), std::size_t{1});
  const std::size_t count = amount("tokens of a text", kTextTokens, std::size_t{18}, std::size_t{6});
  for (const forced::Prompt& prompt : std::span(file.prompts).first(most)) {
    std::vector<std::int32_t> tokens = tokenizer.encode(prompt.turns.front());
    const std::size_t most_tokens =
        amount("tokens of the prompt at most", tokens.size(), tokens.size(), std::size_t{12});
    tokens.resize(std::min(tokens.size(), most_tokens));
    const std::vector<Position> text = greedy_text(*on_cpu, tokens, count);
    const std::vector<std::int32_t> wide = forced_choices(*on_gpu, tokens, text, kWidth);
    const std::vector<std::int32_t> single = forced_choices(*on_gpu, tokens, text, 1);
    ASSERT_EQ(wide.size(), text.size());
    ++prompts;
    positions += text.size();
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (wide[i] != single[i]) ++widths_differ;
      if (wide[i] == text[i].token) continue;
      ++turned;
      std::cout << "[          ] " << test.name << ": prompt " << prompt.id << " position " << i << " CPU "
                << text[i].token << " GPU " << wide[i] << " margin " << text[i].margin << "\n";
      EXPECT_LE(text[i].margin, test.near_tie) << "not a near tie";
    }
  }
  std::cout << "[          ] " << test.name << ": " << positions << " positions of " << prompts << " prompts, "
            << turned << " differ from the CPU, " << widths_differ << " between rounds of 1 and " << kWidth << "\n";
  EXPECT_EQ(prompts, sanitized() ? most : 64U);
  EXPECT_EQ(widths_differ, 0U);
}

INSTANTIATE_TEST_SUITE_P(
    Embedded, Agreement,
    ::testing::Values(Case{"exact", WeightFormat::kBF16, ActivationFormat::kFP32, CacheFormat::kFP32, 1e-3F},
                      Case{"bf16", WeightFormat::kBF16, ActivationFormat::kBF16, CacheFormat::kBF16, 0.15F},
                      Case{"q4", WeightFormat::kQ4, ActivationFormat::kBF16, CacheFormat::kBF16, 0.15F},
                      Case{"int8 caches", WeightFormat::kBF16, ActivationFormat::kBF16, CacheFormat::kInt8, 0.15F},
                      Case{"nvfp4 caches", WeightFormat::kBF16, ActivationFormat::kBF16, CacheFormat::kNVFP4, 0.5F}));

}  // namespace
}  // namespace tare::engine::test
