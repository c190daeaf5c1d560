#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/digest.h"
#include "base/error.h"
#include "base/json_reader.h"
#include "base/text.h"
#include "engine/backends/make_streamed.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/streamed/streamed_run.h"
#include "engine/streamed/work_directory.h"
#include "engine/tokenizer/tokenizer.h"
#include "forced/windows.h"
#include "harness/cli/commands.h"
#include "harness/cli/interruption.h"
#include "harness/cli/progress_printer.h"

namespace tare::harness {
namespace {

constexpr double kTera = 1e12;
constexpr double kGiga = 1e9;
// Of activations and their snapshot; 27B and 44 windows of 2,048 tokens take 3.7 GB.
constexpr std::uint64_t kActivationBytes = 8'000'000'000;

struct Arguments {
  std::string model;
  std::string texts;
  std::int64_t window_tokens = forced::kWindowTokens;
  std::int64_t windows = 0;
  std::string out;
  engine::StreamedOptions options;
  bool json = false;
};

std::unique_ptr<engine::Tokenizer> open_tokenizer(const engine::Checkpoint& checkpoint) {
  const std::filesystem::path path = checkpoint.directory() / "tokenizer.json";
  if (checkpoint.directory().empty() || !std::filesystem::exists(path)) return nullptr;
  return std::make_unique<engine::Tokenizer>(engine::Tokenizer::from_file(path));
}

std::vector<engine::StreamedWindow> streamed_windows(const forced::WindowFile& file) {
  std::vector<engine::StreamedWindow> windows;
  for (const forced::TextWindow& window : file.windows)
    windows.push_back({.window = {.id = window.id, .kind = window.kind}, .tokens = window.tokens});
  return windows;
}

std::string parts_text(const std::vector<engine::MemoryPart>& parts) {
  std::vector<std::string> texts;
  for (const engine::MemoryPart& part : parts)
    if (part.bytes > 0) texts.push_back(fmt::format("{} {}", part.name, human_bytes(part.bytes)));
  return fmt::format("{} ({})", human_bytes(engine::total_bytes(parts)), join(texts, ", "));
}

// Before anything of it is taken.
void tell_memory(const engine::StreamedMemory& memory, const engine::StreamedShape& shape,
                 const engine::ModelConfig& config) {
  if (!memory.device.empty()) fmt::print(stderr, "GPU memory: {}\n", parts_text(memory.device));
  fmt::print(stderr, "host memory: {}\n", parts_text(memory.host));
  fmt::print(stderr, "disk: {} beside the result while it is made{}\n",
             human_bytes(engine::WorkDirectory::bytes(shape, config.hidden_size)),
             memory.slots < shape.windows
                 ? fmt::format("; {} of {} windows are held at once, the others are there", memory.slots, shape.windows)
                 : "");
}

Json parts_json(const std::vector<engine::MemoryPart>& parts) {
  Json json = Json::object();
  for (const engine::MemoryPart& part : parts) json[part.name] = part.bytes;
  return json;
}

Json summary_json(const Arguments& arguments, const engine::StreamedSummary& summary,
                  const engine::StreamedMemory& memory, const engine::StreamedShape& shape,
                  const engine::ReferenceDigests& digests) {
  const double seconds = summary.layer_seconds + summary.head_seconds;
  return {{"file", arguments.out},
          {"digest", digest_file(arguments.out)},
          {"backend", arguments.options.backend},
          {"windows", shape.windows},
          {"window_tokens", shape.window_tokens},
          {"checkpoint", digests.checkpoint},
          {"tokenizer", digests.tokenizer},
          {"texts", digests.texts},
          {"tokens", digests.tokens},
          {"first_layer", summary.first_layer},
          {"layers_kept", summary.layers_kept},
          {"spilled", summary.spilled},
          {"layer_seconds", summary.layer_seconds},
          {"head_seconds", summary.head_seconds},
          {"flops", summary.flops},
          {"tflops", summary.flops / seconds / kTera},
          {"device_bytes", parts_json(memory.device)},
          {"host_bytes", parts_json(memory.host)}};
}

int write_reference_file(Arguments arguments) {
  if (arguments.windows < 0) throw input_error("--windows", "must be 0 or more");
  if (arguments.options.threads < 1) throw input_error("--threads", "must be at least 1");
  const std::unique_ptr<engine::Checkpoint> checkpoint = engine::open_checkpoint(arguments.model);
  const std::unique_ptr<engine::Tokenizer> tokenizer = open_tokenizer(*checkpoint);
  const forced::WindowFile file =
      forced::read_windows(arguments.texts, tokenizer.get(), arguments.window_tokens, arguments.windows);
  const std::vector<engine::StreamedWindow> windows = streamed_windows(file);
  const engine::StreamedShape shape = engine::check_windows(windows, checkpoint->config());
  const engine::StreamedMemory memory = engine::plan_streamed(*checkpoint, shape, arguments.options);
  tell_memory(memory, shape, checkpoint->config());
  const std::unique_ptr<engine::StreamedBackend> backend = engine::make_streamed(*checkpoint, shape, arguments.options);
  ProgressPrinter printer;
  engine::StreamedSettings settings{.out = arguments.out,
                                    .tokenizer_digest = tokenizer == nullptr ? "" : tokenizer->digest(),
                                    .texts_digest = file.texts_digest,
                                    .backend = arguments.options.backend,
                                    .interrupted = interruption()};
  settings.progress = [&](const engine::StreamedProgress& progress) {
    printer.show({.phase = "reference",
                  .what = progress.what,
                  .done = static_cast<std::int64_t>(progress.done / kGiga),
                  .total = static_cast<std::int64_t>(progress.total / kGiga),
                  .seconds_left = progress.seconds_left});
  };
  const engine::StreamedSummary summary = engine::run_streamed(*checkpoint, *backend, windows, settings);
  printer.finish();
  const engine::Reference reference = engine::read_reference(arguments.out);
  if (arguments.json) {
    fmt::print("{}\n", summary_json(arguments, summary, memory, shape, reference.digests).dump(2));
    return 0;
  }
  const double seconds = summary.layer_seconds + summary.head_seconds;
  fmt::print("{}: {} windows of {} tokens, {} candidates a position\n", arguments.out, shape.windows,
             shape.window_tokens, reference.candidates());
  fmt::print("{}{:.3g} TFLOP in {}, {:.3g} TFLOP/s\n",
             summary.first_layer > 0 ? fmt::format("went on after {} layers; ", summary.first_layer) : "",
             summary.flops / kTera, human_seconds(seconds), summary.flops / seconds / kTera);
  return 0;
}

}  // namespace

void add_reference_command(CommandLine& line) {
  const auto arguments = std::make_shared<Arguments>();
  arguments->options.activation_bytes = kActivationBytes;
  arguments->options.threads = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  const Command command =
      line.add_command("reference", "FP32 log-probabilities of texts, one layer in memory at a time");
  command.add_option("--model", arguments->model, "checkpoint directory, or synthetic:NAME?seed=S").required();
  command.add_option("--texts", arguments->texts, "file of windows (prompts/windows.jsonl)").required();
  command.add_option("--window-tokens", arguments->window_tokens, "tokens of a window").show_default();
  command.add_option("--windows", arguments->windows, "windows at most, the first of the file; 0: all").show_default();
  command.add_option("--out", arguments->out, "file to write; a reference that was stopped goes on in OUT.work")
      .required();
  command.add_option("--backend", arguments->options.backend, "cpu or cuda").show_default();
  command.add_option("--threads", arguments->options.threads, "of the CPU").show_default();
  command.add_option("--device", arguments->options.device, "GPU of the cuda backend").show_default();
  command
      .add_option("--activation-bytes", arguments->options.activation_bytes,
                  "memory for activations; what does not fit is spilled to OUT.work")
      .show_default();
  command.add_flag("--json", arguments->json, "say what was written as JSON");
  command.set_footer(
      "Example: tare reference --model models/embedded --texts prompts/windows.jsonl --out reference.safetensors");
  command.set_action([arguments] { return write_reference_file(*arguments); });
}

}  // namespace tare::harness
