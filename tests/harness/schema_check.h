// Checks JSON against a documented schema (docs/protocol/*.schema.json).
#pragma once

#include <filesystem>
#include <string>
#include <valijson/adapters/nlohmann_json_adapter.hpp>
#include <valijson/schema.hpp>
#include <valijson/schema_parser.hpp>
#include <valijson/validation_results.hpp>
#include <valijson/validator.hpp>

#include "base/file.h"
#include "base/json_reader.h"

namespace tare::harness {

class SchemaCheck {
 public:
  explicit SchemaCheck(const std::string& file)
      : json_(nlohmann::json::parse(read_text_file(std::filesystem::path(TARE_SOURCE_DIR) / "docs/protocol" / file))) {
    const valijson::adapters::NlohmannJsonAdapter adapter(json_);
    valijson::SchemaParser(valijson::SchemaParser::kDraft7).populateSchema(adapter, schema_);
  }

  // Empty when the value fits, else the first places at which it does not.
  [[nodiscard]] std::string faults(const Json& value) const {
    const nlohmann::json plain = nlohmann::json::parse(value.dump());
    const valijson::adapters::NlohmannJsonAdapter target(plain);
    valijson::ValidationResults results;
    valijson::Validator validator;
    if (validator.validate(schema_, target, &results)) return {};
    std::string text;
    valijson::ValidationResults::Error error;
    while (results.popError(error)) {
      for (const std::string& part : error.context) text += part;
      text += ": " + error.description + "\n";
    }
    return text;
  }

  [[nodiscard]] const nlohmann::json& json() const { return json_; }

 private:
  nlohmann::json json_;
  valijson::Schema schema_;
};

}  // namespace tare::harness
