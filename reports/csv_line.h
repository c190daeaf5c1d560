// One line of a CSV file under construction (RFC 4180).
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <optional>
#include <string>
#include <string_view>

#include "base/text.h"
#include "reports/escape.h"

namespace tare::reports {

class CsvLine {
 public:
  CsvLine& text(std::string_view value) {
    if (!first_) line_ += ',';
    first_ = false;
    line_ += csv_field(value);
    return *this;
  }
  CsvLine& number(double value) { return text(std::isnan(value) ? std::string() : shortest(value)); }
  template <typename Integer>
  CsvLine& integer(Integer value) {
    return text(fmt::format("{}", value));
  }
  CsvLine& flag(bool value) { return text(value ? "true" : "false"); }
  CsvLine& flag(std::optional<bool> value) { return value ? flag(*value) : text(""); }
  [[nodiscard]] std::string done() const { return line_ + "\r\n"; }

 private:
  std::string line_;
  bool first_ = true;
};

}  // namespace tare::reports
