// Reading JSON that people wrote: every field has a type and a place, unknown keys are refused with the nearest known
// name. All files of ours (experiments, options, configs, protocol lines) are read through this.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/json.h"

namespace tare {

enum class JsonComments { kRefused, kAllowed };

// Parses text; throws Error (input) with `where` and line:column of the fault. Duplicate keys are refused.
[[nodiscard]] Json parse_json(std::string_view text, const std::string& where,
                              JsonComments comments = JsonComments::kRefused);
[[nodiscard]] SortedJson parse_sorted_json(std::string_view text, const std::string& where);
[[nodiscard]] Json read_json_file(const std::filesystem::path& path, JsonComments comments = JsonComments::kRefused);

// A value for an error message: a scalar as JSON (long texts cut), "an array" or "an object" for the others, which may
// be of any size and depth.
[[nodiscard]] std::string brief_json(const Json& value);
[[nodiscard]] std::string brief_json(const SortedJson& value);

// A view of one JSON object that hands out typed fields and remembers which keys were asked for.
// `where` names the object in errors: "experiment.json: arms[1].options".
class JsonReader {
 public:
  // Throws Error (input) when `object` is not an object. The object must outlive the reader.
  JsonReader(const Json& object, std::string where);

  [[nodiscard]] bool has(const std::string& key);  // present and not null; the key counts as known
  // Typed access; throws Error (input) when the key is absent or has another type.
  [[nodiscard]] std::string text(const std::string& key);
  [[nodiscard]] std::int64_t integer(const std::string& key,
                                     std::int64_t least = std::numeric_limits<std::int64_t>::min(),
                                     std::int64_t most = std::numeric_limits<std::int64_t>::max());
  [[nodiscard]] double number(const std::string& key, double least = -std::numeric_limits<double>::infinity(),
                              double most = std::numeric_limits<double>::infinity());
  [[nodiscard]] bool boolean(const std::string& key);
  [[nodiscard]] JsonReader object(const std::string& key);
  [[nodiscard]] const Json& array(const std::string& key);
  [[nodiscard]] const Json& any(const std::string& key);
  [[nodiscard]] std::vector<std::string> texts(const std::string& key);
  // One of the allowed words.
  [[nodiscard]] std::string word(const std::string& key, const std::vector<std::string>& allowed);
  // Marks a key as known without reading it.
  void ignore(const std::string& key);
  // Throws Error (input) naming the first key that nobody asked for, with the nearest known name.
  void refuse_unknown_keys() const;

  [[nodiscard]] const Json& json() const { return *object_; }
  [[nodiscard]] const std::string& where() const { return where_; }
  // "WHERE.key", for errors about a field.
  [[nodiscard]] std::string place(const std::string& key) const;
  [[nodiscard]] Error error(const std::string& key, const std::string& what, const std::string& hint = {}) const;

 private:
  const Json* object_;
  std::string where_;
  std::vector<std::string> known_;

  const Json& required(const std::string& key, const char* type);
};

}  // namespace tare
