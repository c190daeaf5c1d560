#include "engine/checkpoint/stored_quantisation.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/json_reader.h"

namespace tare::engine {
namespace {

constexpr const char* kMethod = "tare";

template <class Table>
std::vector<std::string> texts_of(const Table& table) {
  std::vector<std::string> texts;
  for (const auto& name : table) texts.emplace_back(name.text);
  return texts;
}

template <class Table>
auto value_of(const Table& table, const std::string& text) {
  return std::find_if(table.begin(), table.end(), [&](const auto& name) { return text == name.text; })->value;
}

template <class Table, class Format>
std::string text_of(const Table& table, Format format) {
  return std::find_if(table.begin(), table.end(), [&](const auto& name) { return format == name.value; })->text;
}

}  // namespace

StoredQuantisation read_quantisation(const Json& json, const std::string& where) {
  JsonReader reader(json, where);
  const std::string method = reader.text("quant_method");
  if (method != kMethod)
    throw reader.error("quant_method", fmt::format("is '{}'; only checkpoints of tare quantize are read", method),
                       "use the BF16 release and quantise with tare");
  const std::int64_t version = reader.integer("version");
  if (version != kQuantisationVersion)
    throw reader.error("version", fmt::format("is {}, this program reads {}", version, kQuantisationVersion),
                       "quantise the model again");
  StoredQuantisation result;
  result.weights = reader.any("weights");
  result.excluded = reader.texts("modules_to_not_convert");
  const Json& tensors = reader.any("tensors");
  if (!tensors.is_object()) throw reader.error("tensors", "must be an object");
  for (const auto& [name, codec] : tensors.items()) {
    JsonReader entry(codec, fmt::format("{}: {}", reader.place("tensors"), name));
    const WeightFormat format = value_of(kWeightFormatNames, entry.word("format", texts_of(kWeightFormatNames)));
    const ScaleFormat scales = value_of(kScaleFormatNames, entry.word("scales", texts_of(kScaleFormatNames)));
    entry.refuse_unknown_keys();
    const WeightCodec stored{format, scales};
    if (format == WeightFormat::kBF16 || normalized(stored) != stored)
      throw entry.error("format", "is no codec with these scales");
    result.codecs.emplace(name, stored);
  }
  reader.refuse_unknown_keys();
  return result;
}

Json to_json(const StoredQuantisation& quantisation) {
  Json tensors = Json::object();
  for (const auto& [name, codec] : quantisation.codecs)
    tensors[name] = {{"format", text_of(kWeightFormatNames, codec.format)},
                     {"scales", text_of(kScaleFormatNames, codec.scales)}};
  return {{"quant_method", kMethod},
          {"version", kQuantisationVersion},
          {"weights", quantisation.weights},
          {"modules_to_not_convert", quantisation.excluded},
          {"tensors", std::move(tensors)}};
}

}  // namespace tare::engine
