// Checks JSON against a documented schema (docs/protocol/*.schema.json).
#pragma once

#include <memory>
#include <string>

#include "base/json_reader.h"

namespace tare::harness {

class SchemaCheck {
 public:
  explicit SchemaCheck(const std::string& file);
  SchemaCheck(const SchemaCheck&) = delete;
  SchemaCheck& operator=(const SchemaCheck&) = delete;
  ~SchemaCheck();

  // Empty when the value fits, else the places at which it does not.
  [[nodiscard]] std::string faults(const Json& value) const;
  [[nodiscard]] const nlohmann::json& json() const { return json_; }

 private:
  struct Schema;  // valijson stays in the .cpp: its headers take long to compile
  nlohmann::json json_;
  std::unique_ptr<Schema> schema_;
};

}  // namespace tare::harness
