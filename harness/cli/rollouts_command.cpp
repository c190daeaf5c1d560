#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <memory>

#include "base/error.h"
#include "engine/decode/session.h"
#include "engine/tokenizer/tokenizer.h"
#include "forced/acceptance.h"
#include "forced/prompts.h"
#include "forced/rounds_file.h"
#include "harness/cli/acceptance_table.h"
#include "harness/cli/commands.h"
#include "harness/cli/model_arguments.h"

namespace tare::harness {
namespace {

struct Arguments {
  ModelArguments model;
  std::string prompts;
  std::int64_t limit = 0;
  std::int64_t max_tokens = 128;
  double temperature = 0;
  std::uint64_t seed = 1;
  std::string out;
  bool every_position = false;
  bool json = false;
};

std::vector<std::int32_t> tokens_of(const forced::Prompt& prompt, const engine::Tokenizer* tokenizer) {
  if (!prompt.tokens.empty()) return prompt.tokens;
  if (tokenizer == nullptr)
    throw input_error("--model", "has no tokenizer.json", "give prompts as token ids (prompts/random-16.jsonl)");
  return tokenizer->encode(prompt.turns.front());
}

int write_rollouts(const Arguments& arguments) {
  engine::EngineOptions options = arguments.model.options();
  if (arguments.every_position) options.speculate.tree_nodes = 1;
  const std::vector<forced::Prompt> prompts =
      forced::select_prompts(forced::read_prompts(arguments.prompts).prompts, {{}, {}, arguments.limit});
  const OpenModel opened = open_model(arguments.model.model, options);
  if (!opened.backend->has_drafter())
    throw input_error("speculate.drafter", "is none: every round would be one token",
                      "--set speculate.drafter=mtp, or a drafter's directory");
  const std::filesystem::path tokenizer_path = std::filesystem::path(arguments.model.model) / "tokenizer.json";
  const std::unique_ptr<engine::Tokenizer> tokenizer =
      std::filesystem::exists(tokenizer_path)
          ? std::make_unique<engine::Tokenizer>(engine::Tokenizer::from_file(tokenizer_path))
          : nullptr;
  forced::RoundsFile file{
      arguments.model.model, opened.backend->config().vocab_size, engine::to_json(opened.backend->options()), {}};
  std::vector<forced::TextTally> tallies;
  for (const forced::Prompt& prompt : prompts) {
    const std::vector<std::int32_t> tokens = tokens_of(prompt, tokenizer.get());
    const std::unique_ptr<engine::TokenPolicy> policy =
        arguments.temperature > 0 ? engine::make_sampled_policy(arguments.temperature, arguments.seed, prompt.id)
                                  : engine::make_greedy_policy();
    const engine::Generation result = engine::generate(*opened.backend, tokens, *policy,
                                                       {.max_tokens = arguments.max_tokens,
                                                        .end_of_text_tokens = opened.backend->config().eos_token_ids,
                                                        .record_shapes = true,
                                                        .record_drafts = arguments.every_position});
    file.texts.push_back(forced::recorded_text(prompt.id, prompt.category, tokens, result));
    tallies.push_back({prompt.category, {}});
    for (const engine::Round& round : result.rounds)
      tallies.back().rounds.push_back({round.tokens, round.nodes, round.drafted, round.cut});
    if (::isatty(STDERR_FILENO) != 0) fmt::print(stderr, "\r{} of {} texts", file.texts.size(), prompts.size());
  }
  if (::isatty(STDERR_FILENO) != 0) fmt::print(stderr, "\n");
  forced::write_rounds(arguments.out, file);
  const forced::Acceptance acceptance = forced::measure_acceptance(tallies);
  if (arguments.json) {
    Json json = to_json(acceptance);
    json["file"] = arguments.out;
    json["texts"] = file.texts.size();
    fmt::print("{}\n", json.dump(2));
    return 0;
  }
  fmt::print("{} texts in {}\n", file.texts.size(), arguments.out);
  if (!arguments.every_position) print_acceptance(acceptance);
  return 0;
}

}  // namespace

void add_rollouts_command(CommandLine& line) {
  const auto arguments = std::make_shared<Arguments>();
  const Command command = line.add_command("rollouts", "write texts with the rounds and drafts that made them");
  arguments->model.add_to(command);
  command.add_option("--prompts", arguments->prompts, "prompt file").required();
  command.add_option("--limit", arguments->limit, "prompts at most, evenly over categories; 0: all").show_default();
  command.add_option("--max-tokens", arguments->max_tokens, "tokens a text at most").show_default();
  command.add_option("--temperature", arguments->temperature, "0 is greedy").show_default();
  command.add_option("--seed", arguments->seed, "of the sampling").show_default();
  command.add_option("--out", arguments->out, "file of recorded rounds to write").required();
  command.add_flag("--every-position", arguments->every_position,
                   "draft at every token and keep the candidates, for tare trees; rounds are then one token each");
  command.add_flag("--json", arguments->json, "the summary as JSON");
  command.set_footer(
      "Example: tare rollouts --model models/embedded --set speculate.drafter=mtp --prompts prompts/tare-64.jsonl "
      "--limit 4 --out /tmp/rounds.jsonl");
  command.set_action([arguments] { return write_rollouts(*arguments); });
}

}  // namespace tare::harness
