// The third control of the instrument, with real models: a text that another model wrote is not taken for one's own.
#include <gtest/gtest.h>

#include "engine/cpu/cpu_backend.h"
#include "engine/decode/session.h"
#include "engine/tokenizer/tokenizer.h"
#include "forced/prompts.h"
#include "forced/validation.h"

namespace tare::e2e {
namespace {

const std::string kModel = std::string(TARE_SOURCE_DIR) + "/models/embedded";
constexpr std::int64_t kTokens = 48;

class Engine {
 public:
  explicit Engine(const std::string& weights) {
    engine::EngineOptions options;
    engine::apply_option(options, "weights.format=" + weights);
    engine::apply_option(options, "context=512");
    backend_ = engine::make_cpu_backend(*engine::open_checkpoint(kModel), options);
  }

  engine::Generation free(const forced::ReplayText& text) {
    const auto policy = engine::make_sampled_policy(0.8, 1, text.prompt_id);
    return engine::generate(*backend_, text.prompt_tokens, *policy, {kTokens, {}});
  }
  forced::ForcedRun forced(const forced::ReplayText& text) {
    const auto policy = engine::make_forced_policy(text.tokens, engine::make_sampled_policy(0.8, 1, text.prompt_id));
    const engine::Generation run = engine::generate(*backend_, text.prompt_tokens, *policy, {0, {}});
    return {run.tokens, run.natural, rounds_of(run)};
  }
  static std::vector<std::int32_t> rounds_of(const engine::Generation& run) {
    std::vector<std::int32_t> tokens;
    for (const engine::Round& round : run.rounds) tokens.push_back(round.tokens);
    return tokens;
  }

 private:
  std::unique_ptr<engine::Backend> backend_;
};

std::vector<forced::ReplayText> texts_by(Engine& writer) {
  const engine::Tokenizer tokenizer = engine::Tokenizer::from_file(kModel + "/tokenizer.json");
  const auto file = forced::read_prompts(std::string(TARE_SOURCE_DIR) + "/prompts/tare-64.jsonl");
  std::vector<forced::ReplayText> texts;
  for (const forced::Prompt& prompt : forced::select_prompts(file.prompts, {{}, {}, 4})) {
    forced::ReplayText text;
    text.prompt_id = prompt.id;
    text.prompt_tokens = tokenizer.encode(prompt.turns.front());
    const engine::Generation run = writer.free(text);
    text.tokens = run.tokens;
    text.round_tokens = Engine::rounds_of(run);
    texts.push_back(std::move(text));
  }
  return texts;
}

forced::Validation validate(Engine& reader, const std::vector<forced::ReplayText>& texts) {
  forced::Validation validation;
  for (const forced::ReplayText& text : texts) forced::add(validation, text, reader.forced(text));
  return validation;
}

TEST(OtherModel, OwnTextsAreReproducedAndAnotherModelsAreCaught) {
  Engine q8("q8");
  const std::vector<forced::ReplayText> own = texts_by(q8);
  EXPECT_TRUE(validate(q8, own).passed());
  Engine q4("q4");
  const forced::Validation foreign = validate(q8, texts_by(q4));
  EXPECT_FALSE(foreign.passed());
  ASSERT_TRUE(foreign.first_difference);
  EXPECT_EQ(foreign.first_difference->kind, forced::DifferenceKind::kNatural);
}

}  // namespace
}  // namespace tare::e2e
