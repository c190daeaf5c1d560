#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <memory>

#include "base/error.h"
#include "base/json_reader.h"
#include "engine/decode/session.h"
#include "engine/tokenizer/tokenizer.h"
#include "harness/cli/commands.h"
#include "harness/cli/model_arguments.h"

namespace tare::harness {
namespace {

constexpr double kNsPerSecond = 1e9;

struct Arguments {
  ModelArguments model;
  std::string prompt;
  std::int64_t max_tokens = 128;
  double temperature = 0;
  std::uint64_t seed = 1;
  bool json = false;
};

int generate_text(const Arguments& arguments) {
  const engine::Tokenizer tokenizer =
      engine::Tokenizer::from_file(std::filesystem::path(arguments.model.model) / "tokenizer.json");
  const OpenModel opened = open_model(arguments.model.model, arguments.model.options());
  const std::vector<std::int32_t> prompt = tokenizer.encode(arguments.prompt);
  const std::unique_ptr<engine::TokenPolicy> policy =
      arguments.temperature > 0 ? engine::make_sampled_policy(arguments.temperature, arguments.seed, "generate")
                                : engine::make_greedy_policy();
  const auto print = [&](std::int32_t token) {
    const std::string_view bytes = tokenizer.token_bytes(token);
    std::fwrite(bytes.data(), 1, bytes.size(), stdout);
    std::fflush(stdout);
    return true;
  };
  const engine::GenerationLimits limits{arguments.max_tokens, opened.backend->config().eos_token_ids};
  const engine::Generation result =
      engine::generate(*opened.backend, prompt, *policy, limits,
                       arguments.json ? engine::TokenCallback{} : engine::TokenCallback{print});
  const double decode_s = static_cast<double>(result.decode_ns) / kNsPerSecond;
  const auto decoded = static_cast<double>(result.tokens.size() - 1);
  const double rate = decode_s > 0 ? decoded / decode_s : 0;
  if (arguments.json) {
    const Json json = {{"prompt_tokens", prompt},
                       {"tokens", result.tokens},
                       {"text", tokenizer.decode(result.tokens)},
                       {"outcome", engine::to_text(result.outcome)},
                       {"first_token_s", static_cast<double>(result.first_token_ns) / kNsPerSecond},
                       {"decode_s", decode_s},
                       {"decode_tokens_per_s", rate},
                       {"backend", opened.backend->description()},
                       {"options", engine::to_json(opened.backend->options())}};
    fmt::print("{}\n", json.dump(2, ' ', false, Json::error_handler_t::replace));
    return 0;
  }
  fmt::print("\n");
  fmt::print(stderr,
             "{} prompt tokens, first token after {:.1f} ms; {} tokens in {:.3f} s of decode, {:.1f} tok/s ({})\n",
             prompt.size(), static_cast<double>(result.first_token_ns) / 1e6, result.tokens.size(), decode_s, rate,
             engine::to_text(result.outcome));
  return 0;
}

}  // namespace

void add_generate_command(CommandLine& line) {
  const auto arguments = std::make_shared<Arguments>();
  const Command command = line.add_command("generate", "continue a text and say how fast");
  arguments->model.add_to(command);
  command.add_option("--prompt", arguments->prompt, "text to continue").required();
  command.add_option("--max-tokens", arguments->max_tokens, "tokens at most").show_default();
  command.add_option("--temperature", arguments->temperature, "0 is greedy").show_default();
  command.add_option("--seed", arguments->seed, "of the sampling").show_default();
  command.add_flag("--json", arguments->json, "one JSON object instead of the stream");
  command.set_footer("Example: tare generate --model models/embedded --prompt 'def main(' --set weights.format=q4");
  command.set_action([arguments] { return generate_text(*arguments); });
}

}  // namespace tare::harness
