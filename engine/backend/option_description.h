// What each option is called, takes and means (`tare worker --options`).
#pragma once

#include <string>
#include <vector>

#include "base/json_reader.h"

namespace tare::engine {

struct OptionDescription {
  std::string path;                // "weights.format"
  std::string type;                // "word", "integer", "number", "text", "list", "flag"
  std::vector<std::string> words;  // for type word
  Json default_value;
  std::string meaning;
};
[[nodiscard]] std::vector<OptionDescription> describe_options();

}  // namespace tare::engine
