// What a checkpoint of `tare quantize` says of itself (docs/protocol/quantised-checkpoint.md).
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/json.h"
#include "engine/formats/weight_codes.h"

namespace tare::engine {

// The object quantization_config of a config.json that `tare quantize` wrote.
struct StoredQuantisation {
  Json weights;                               // the options group that made it
  std::map<std::string, WeightCodec> codecs;  // of the tensors that are stored as codes, by canonical name
  std::vector<std::string> excluded;          // modules that are never quantised
};
constexpr std::int64_t kQuantisationVersion = 1;
// Throws Error (input): another method, another version, unknown keys or words.
[[nodiscard]] StoredQuantisation read_quantisation(const Json& json, const std::string& where);
[[nodiscard]] Json to_json(const StoredQuantisation& quantisation);

}  // namespace tare::engine
