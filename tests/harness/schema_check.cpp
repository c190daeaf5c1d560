#include "tests/harness/schema_check.h"

#include <filesystem>
#include <valijson/adapters/nlohmann_json_adapter.hpp>
#include <valijson/schema.hpp>
#include <valijson/schema_parser.hpp>
#include <valijson/validation_results.hpp>
#include <valijson/validator.hpp>

#include "base/file.h"

namespace tare::harness {

struct SchemaCheck::Schema {
  valijson::Schema parsed;
};

SchemaCheck::SchemaCheck(const std::string& file)
    : json_(nlohmann::json::parse(read_text_file(std::filesystem::path(TARE_SOURCE_DIR) / "docs/protocol" / file))),
      schema_(std::make_unique<Schema>()) {
  const valijson::adapters::NlohmannJsonAdapter adapter(json_);
  valijson::SchemaParser(valijson::SchemaParser::kDraft7).populateSchema(adapter, schema_->parsed);
}

SchemaCheck::~SchemaCheck() = default;

std::string SchemaCheck::faults(const Json& value) const {
  const nlohmann::json plain = nlohmann::json::parse(value.dump());
  const valijson::adapters::NlohmannJsonAdapter target(plain);
  valijson::ValidationResults results;
  valijson::Validator validator;
  if (validator.validate(schema_->parsed, target, &results)) return {};
  std::string text;
  valijson::ValidationResults::Error error;
  while (results.popError(error)) {
    for (const std::string& part : error.context) text += part;
    text += ": " + error.description + "\n";
  }
  return text;
}

}  // namespace tare::harness
