// --model, --options and --set, the same for every command that opens a model in this process.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/backend/options.h"
#include "engine/checkpoint/checkpoint.h"
#include "harness/cli/command_line.h"

namespace tare::harness {

struct ModelArguments {
  std::string model;
  std::string options_json;
  std::vector<std::string> assignments;

  void add_to(const Command& command);
  // Defaults, then --options, then each --set in order. Throws Error (input).
  [[nodiscard]] engine::EngineOptions options() const;
};

struct OpenModel {
  std::unique_ptr<engine::Checkpoint> checkpoint;
  std::unique_ptr<engine::Backend> backend;
};
[[nodiscard]] OpenModel open_model(const std::string& model, const engine::EngineOptions& options);

}  // namespace tare::harness
