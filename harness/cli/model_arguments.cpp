#include "harness/cli/model_arguments.h"

#include "base/json_reader.h"
#include "engine/backends/make_backend.h"
#include "profiles/nvtx/nvtx.h"

namespace tare::harness {

void ModelArguments::add_to(const Command& command) {
  command.add_option("--model", model, "checkpoint directory, or synthetic:NAME?seed=S").required();
  command.add_option("--options", options_json, "engine options as JSON; tare worker --options lists them");
  command.add_option("--set", assignments, "one engine option: PATH=VALUE (repeatable)").once_a_use();
}

engine::EngineOptions ModelArguments::options() const {
  engine::EngineOptions options;
  if (!options_json.empty()) engine::apply_options(options, parse_json(options_json, "--options"), "--options");
  for (const std::string& assignment : assignments) engine::apply_option(options, assignment);
  return options;
}

OpenModel open_model(const std::string& model, const engine::EngineOptions& options) {
  OpenModel opened;
  opened.checkpoint = engine::open_checkpoint(model);
  opened.backend = profiles::with_nvtx_ranges(engine::make_backend(*opened.checkpoint, options));
  return opened;
}

}  // namespace tare::harness
