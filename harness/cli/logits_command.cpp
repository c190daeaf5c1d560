#include <fmt/format.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>

#include "base/error.h"
#include "base/json_reader.h"
#include "engine/checkpoint/safetensors.h"
#include "harness/cli/commands.h"
#include "harness/cli/model_arguments.h"

namespace tare::harness {
namespace {

struct Arguments {
  ModelArguments model;
  std::string tokens;
  std::string out;
  bool hidden = false;
  bool json = false;
};

// A JSON array of token ids, or the I32 tensor "input_ids" of a safetensors file.
std::vector<std::int32_t> read_tokens(const std::filesystem::path& file) {
  std::vector<std::int32_t> tokens;
  if (file.extension() == ".safetensors") {
    const engine::SafetensorsFile container(file);
    const engine::Tensor ids = container.tensor("input_ids");
    if (ids.dtype != engine::Dtype::kI32)
      throw input_error(file.string() + ": input_ids", "must be I32, is " + engine::dtype_name(ids.dtype));
    tokens.resize(static_cast<std::size_t>(ids.element_count()));
    if (!tokens.empty()) std::memcpy(tokens.data(), ids.bytes.data(), ids.bytes.size());
  } else {
    const Json json = read_json_file(file);
    if (!json.is_array()) throw input_error(file.string(), "must hold a JSON array of token ids");
    for (const Json& id : json) {
      if (!id.is_number_unsigned() || id.get<std::uint64_t>() > INT32_MAX)
        throw input_error(fmt::format("{}[{}]", file.string(), tokens.size()), "is not a token id");
      tokens.push_back(id.get<std::int32_t>());
    }
  }
  if (tokens.empty()) throw input_error(file.string(), "holds no tokens");
  return tokens;
}

engine::Tensor floats_tensor(std::string name, std::vector<std::int64_t> shape, std::span<const float> values) {
  engine::Tensor tensor;
  tensor.name = std::move(name);
  tensor.dtype = engine::Dtype::kF32;
  tensor.shape = std::move(shape);
  tensor.bytes = std::as_bytes(values);
  return tensor;
}

int write_logits(const Arguments& arguments) {
  const std::vector<std::int32_t> tokens = read_tokens(arguments.tokens);
  const OpenModel opened = open_model(arguments.model.model, arguments.model.options());
  const engine::ModelConfig& config = opened.backend->config();
  const auto length = static_cast<std::int64_t>(tokens.size());
  std::vector<float> logits(static_cast<std::size_t>(length * config.vocab_size));
  std::vector<std::vector<float>> hidden;
  engine::PrefillCapture capture;
  capture.logits = logits;
  if (arguments.hidden) {
    for (std::int64_t i = 0; i <= config.layer_count(); ++i)
      hidden.emplace_back(static_cast<std::size_t>(length * config.hidden_size));
    for (std::vector<float>& values : hidden) capture.hidden.emplace_back(values);
  }
  (void)opened.backend->prefill(tokens, capture);

  std::vector<engine::Tensor> tensors = {floats_tensor("logits", {length, config.vocab_size}, logits)};
  for (std::size_t i = 0; i < hidden.size(); ++i)
    tensors.push_back(floats_tensor(fmt::format("hidden.{}", i), {length, config.hidden_size}, hidden[i]));
  engine::write_safetensors(arguments.out, tensors, {{"checkpoint_digest", opened.checkpoint->digest()}});
  if (arguments.json) {
    const Json json = {{"file", arguments.out},
                       {"tokens", length},
                       {"vocab_size", config.vocab_size},
                       {"checkpoint_digest", opened.checkpoint->digest()},
                       {"options", engine::to_json(opened.backend->options())}};
    fmt::print("{}\n", json.dump(2));
  } else {
    fmt::print("{}: logits [{}, {}]{}\n", arguments.out, length, config.vocab_size,
               arguments.hidden ? fmt::format(", hidden.0 to hidden.{}", config.layer_count()) : "");
  }
  return 0;
}

}  // namespace

void add_logits_command(CommandLine& line) {
  const auto arguments = std::make_shared<Arguments>();
  const Command command = line.add_command("logits", "logits (and hidden states) of given tokens, as safetensors");
  arguments->model.add_to(command);
  command.add_option("--tokens", arguments->tokens, "JSON array of ids, or a .safetensors with input_ids (I32)")
      .required();
  command.add_option("--out", arguments->out, "file to write: logits [T, vocab] F32").required();
  command.add_flag("--hidden", arguments->hidden, "also hidden.0 (embedding) .. hidden.L (after the final norm)");
  command.add_flag("--json", arguments->json, "say what was written as JSON");
  command.set_footer(
      "Example: tare logits --model models/embedded --tokens tokens.json --out logits.safetensors --hidden");
  command.set_action([arguments] { return write_logits(*arguments); });
}

}  // namespace tare::harness
