#include "base/json_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/file.h"
#include "base/text.h"

namespace tare {
namespace {

std::string line_and_column(std::string_view text, std::size_t byte) {
  const std::size_t end = std::min(byte == 0 ? 0 : byte - 1, text.size());
  const std::string_view before = text.substr(0, end);
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const std::size_t last_break = before.rfind('\n');
  const std::size_t column = last_break == std::string_view::npos ? end + 1 : end - last_break;
  return fmt::format("{}:{}", line, column);
}

// nlohmann's text minus its "[json.exception.parse_error.101] parse error at ...: " head, which we say ourselves.
std::string reason_of(const nlohmann::json::exception& failure) {
  std::string reason = failure.what();
  const std::size_t head = reason.find(": ");
  return head == std::string::npos ? reason : reason.substr(head + 2);
}

template <typename AnyJson>
std::string brief(const AnyJson& value) {
  constexpr std::size_t kLongest = 60;
  if (value.is_structured()) return fmt::format("an {}", value.type_name());
  const std::string text = value.dump(-1, ' ', true);
  return text.size() <= kLongest ? text : text.substr(0, kLongest) + "...";
}

template <typename AnyJson>
AnyJson parse_without_duplicates(std::string_view text, const std::string& where, JsonComments comments) {
  std::vector<std::set<std::string>> open_objects;
  const auto refuse_duplicates = [&](int, nlohmann::json::parse_event_t event, AnyJson& parsed) {
    if (event == AnyJson::parse_event_t::object_start) open_objects.emplace_back();
    if (event == AnyJson::parse_event_t::object_end) open_objects.pop_back();
    if (event == AnyJson::parse_event_t::key) {
      const auto key = parsed.template get<std::string>();
      if (!open_objects.back().insert(key).second) throw input_error(where, fmt::format("key '{}' appears twice", key));
    }
    return true;
  };
  try {
    return AnyJson::parse(text, refuse_duplicates, true, comments == JsonComments::kAllowed);
  } catch (const nlohmann::json::parse_error& failure) {
    throw input_error(fmt::format("{}:{}", where, line_and_column(text, failure.byte)),
                      "is not JSON: " + reason_of(failure));
  } catch (const nlohmann::json::exception& failure) {
    throw input_error(where, "is not JSON: " + reason_of(failure));
  }
}

}  // namespace

Json parse_json(std::string_view text, const std::string& where, JsonComments comments) {
  return parse_without_duplicates<Json>(text, where, comments);
}

SortedJson parse_sorted_json(std::string_view text, const std::string& where) {
  return parse_without_duplicates<SortedJson>(text, where, JsonComments::kRefused);
}

std::string brief_json(const Json& value) {
  return brief(value);
}

std::string brief_json(const SortedJson& value) {
  return brief(value);
}

Json read_json_file(const std::filesystem::path& path, JsonComments comments) {
  return parse_json(read_text_file(path), path.string(), comments);
}

JsonReader::JsonReader(const Json& object, std::string where) : object_(&object), where_(std::move(where)) {
  if (!object.is_object()) throw input_error(where_, fmt::format("must be an object, is {}", object.type_name()));
}

std::string JsonReader::place(const std::string& key) const {
  return where_.empty() ? key : fmt::format("{}.{}", where_, key);
}

Error JsonReader::error(const std::string& key, const std::string& what, const std::string& hint) const {
  return input_error(place(key), what, hint);
}

void JsonReader::ignore(const std::string& key) {
  if (std::find(known_.begin(), known_.end(), key) == known_.end()) known_.push_back(key);
}

bool JsonReader::has(const std::string& key) {
  ignore(key);
  const auto found = object_->find(key);
  return found != object_->end() && !found->is_null();
}

const Json& JsonReader::any(const std::string& key) {
  ignore(key);
  const auto found = object_->find(key);
  if (found == object_->end()) throw error(key, "is missing");
  return *found;
}

const Json& JsonReader::required(const std::string& key, const char* type) {
  const Json& value = any(key);
  const std::string_view wanted = type;
  const bool matches = (wanted == "text" && value.is_string()) || (wanted == "integer" && value.is_number_integer()) ||
                       (wanted == "number" && value.is_number()) || (wanted == "boolean" && value.is_boolean()) ||
                       (wanted == "object" && value.is_object()) || (wanted == "array" && value.is_array());
  if (!matches)
    throw error(
        key, fmt::format("must be {} {}, is {}", wanted[0] == 'i' || wanted[0] == 'o' || wanted[0] == 'a' ? "an" : "a",
                         wanted, value.type_name()));
  return value;
}

std::string JsonReader::text(const std::string& key) {
  return required(key, "text").get<std::string>();
}

std::int64_t JsonReader::integer(const std::string& key, std::int64_t least, std::int64_t most) {
  const Json& value = required(key, "integer");
  const bool too_large =
      value.is_number_unsigned() &&
      value.get<std::uint64_t>() > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (too_large) throw error(key, "is too large");
  const auto integer = value.get<std::int64_t>();
  if (integer < least || integer > most)
    throw error(key, fmt::format("must lie in {} to {}, is {}", least, most, integer));
  return integer;
}

double JsonReader::number(const std::string& key, double least, double most) {
  const double value = required(key, "number").get<double>();
  if (!(value >= least && value <= most))
    throw error(key, fmt::format("must lie in {} to {}, is {}", shortest(least), shortest(most), shortest(value)));
  return value;
}

bool JsonReader::boolean(const std::string& key) {
  return required(key, "boolean").get<bool>();
}

JsonReader JsonReader::object(const std::string& key) {
  return {required(key, "object"), place(key)};
}

const Json& JsonReader::array(const std::string& key) {
  return required(key, "array");
}

std::vector<std::string> JsonReader::texts(const std::string& key) {
  std::vector<std::string> result;
  for (const Json& element : array(key)) {
    if (!element.is_string()) throw error(fmt::format("{}[{}]", key, result.size()), "must be a text");
    result.push_back(element.get<std::string>());
  }
  return result;
}

std::string JsonReader::word(const std::string& key, const std::vector<std::string>& allowed) {
  const std::string value = text(key);
  if (std::find(allowed.begin(), allowed.end(), value) == allowed.end())
    throw error(key, fmt::format("unknown value '{}'", value), name_hint(value, allowed));
  return value;
}

void JsonReader::refuse_unknown_keys() const {
  for (const auto& [key, value] : object_->items()) {
    if (std::find(known_.begin(), known_.end(), key) == known_.end())
      throw input_error(place(key), "unknown key", name_hint(key, known_));
  }
}

}  // namespace tare
