#include "engine/checkpoint/stored_codes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/error.h"

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

std::int64_t scales_a_row(WeightCodec codec, std::int64_t columns) {
  const std::int64_t block = kGroupSize / static_cast<std::int64_t>(scales_a_group(codec.format));
  return (columns + block - 1) / block;
}

EncodedGroup StoredCodes::group(std::int64_t row, std::int64_t group) const {
  const int bits = code_bits_of(codec.format);
  const auto count = static_cast<std::size_t>(std::min(kGroupSize, columns - group * kGroupSize));
  EncodedGroup result;
  result.fields.fill(static_cast<std::uint8_t>(field_bias_of(codec.format)));
  // A group begins at a whole byte: 64 fields of any width fill whole bytes.
  const auto first =
      static_cast<std::size_t>(row * packed_bytes(columns, bits) + packed_bytes(group * kGroupSize, bits));
  const auto bytes = static_cast<std::size_t>(packed_bytes(static_cast<std::int64_t>(count), bits));
  unpack_fields({reinterpret_cast<const std::uint8_t*>(codes.bytes.data()) + first, bytes}, bits,
                std::span(result.fields).first(count));
  const auto a_group = static_cast<std::int64_t>(scales_a_group(codec.format));
  const std::int64_t a_row = scales_a_row(codec, columns);
  const std::size_t size = scale_bytes(codec);
  for (std::int64_t i = group * a_group; i < std::min(a_row, (group + 1) * a_group); ++i)  // little-endian
    std::memcpy(&result.scales[static_cast<std::size_t>(i - group * a_group)],
                scales.bytes.data() + static_cast<std::size_t>(row * a_row + i) * size, size);
  return result;
}

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
