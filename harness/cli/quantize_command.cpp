#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <thread>

#include "base/error.h"
#include "base/json_reader.h"
#include "base/thread_pool.h"
#include "engine/quantize/norm_fold.h"
#include "engine/quantize/quantise_checkpoint.h"
#include "harness/cli/commands.h"
#include "harness/cli/model_arguments.h"

namespace tare::harness {
namespace {

struct Arguments {
  ModelArguments model;
  std::string out;
  bool fold_norms = false;
  bool json = false;
};

// Only the weights group is read (and cpu.threads); another switch would be lost without a word.
void refuse_other_options(const engine::EngineOptions& options) {
  engine::EngineOptions rest = options;
  rest.weights = {};
  rest.cpu.threads = 0;
  if (engine::to_json(rest) != engine::to_json(engine::EngineOptions{}))
    throw input_error("--options", "quantize reads weights.* and cpu.threads, and other options were given",
                      "set them when the quantised model is run");
}

void show_progress(std::uint64_t done, std::uint64_t all) {
  fmt::print(stderr, "\r{:3.0f} %", 100.0 * static_cast<double>(done) / static_cast<double>(all));
  if (done == all) fmt::print(stderr, "\n");
}

int quantize(const Arguments& arguments) {
  const engine::EngineOptions options = arguments.model.options();
  refuse_other_options(options);
  const std::unique_ptr<engine::Checkpoint> checkpoint = engine::open_checkpoint(arguments.model.model);
  const engine::NormFoldedCheckpoint folded(*checkpoint);
  const engine::Checkpoint& source =
      arguments.fold_norms ? static_cast<const engine::Checkpoint&>(folded) : *checkpoint;
  const auto hardware = static_cast<int>(std::thread::hardware_concurrency());
  ThreadPool pool(options.cpu.threads > 0 ? static_cast<int>(options.cpu.threads) : std::max(1, hardware));
  const engine::QuantisedFiles files =
      engine::quantise_checkpoint(source, options, arguments.out, pool, engine::kShardBytes, show_progress);
  const std::unique_ptr<engine::Checkpoint> written = engine::open_checkpoint(arguments.out);
  std::uint64_t bytes_before = 0;  // of the model given, not of folded matrices in F32
  for (const std::string& name : checkpoint->names()) bytes_before += checkpoint->tensor(name).bytes.size();
  if (arguments.json) {
    const Json json = {{"directory", arguments.out},
                       {"weights", engine::to_json(options)["weights"]},
                       {"norms_folded", arguments.fold_norms},
                       {"tensors", files.tensors},
                       {"coded", files.coded},
                       {"bytes_before", bytes_before},
                       {"bytes", files.bytes},
                       {"shards", files.shards},
                       {"copied", files.copied},
                       {"source_digest", checkpoint->digest()},
                       {"checkpoint_digest", written->digest()}};
    fmt::print("{}\n", json.dump(2));
  } else {
    fmt::print("{}: {} of {} tensors as codes, {:.2f} MB of {:.2f} MB, {} file{} of weights\n", arguments.out,
               files.coded, files.tensors, static_cast<double>(files.bytes) / 1e6,
               static_cast<double>(bytes_before) / 1e6, files.shards.size(), files.shards.size() == 1 ? "" : "s");
  }
  return 0;
}

}  // namespace

void add_quantize_command(CommandLine& line) {
  const auto arguments = std::make_shared<Arguments>();
  const Command command =
      line.add_command("quantize", "write a checkpoint with the weights that a backend would make at load");
  arguments->model.add_to(command);
  command.add_option("--out", arguments->out, "directory to make").required();
  command.add_flag("--fold-norms", arguments->fold_norms,
                   "fold the gains 1 + w of layer norms into the projections that read them, before quantising");
  command.add_flag("--json", arguments->json, "say what was written as JSON");
  command.set_footer("Example: tare quantize --model models/embedded --set weights.format=q4 --out embedded-q4");
  command.set_action([arguments] { return quantize(*arguments); });
}

}  // namespace tare::harness
