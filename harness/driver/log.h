// What is said to the user beside results, on standard error, a line each: "warning: TEXT". Through spdlog, which is
// included in log.cpp alone, since it costs two seconds of compiling wherever it is.
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>

namespace tare::harness {

enum class LogLevel { kInfo, kWarning };

// Before the first line of the program.
void log_to_standard_error();

void log_line(LogLevel level, const std::string& text);

template <class... Values>
void log_info(fmt::format_string<Values...> format, Values&&... values) {
  log_line(LogLevel::kInfo, fmt::format(format, std::forward<Values>(values)...));
}
template <class... Values>
void log_warning(fmt::format_string<Values...> format, Values&&... values) {
  log_line(LogLevel::kWarning, fmt::format(format, std::forward<Values>(values)...));
}

}  // namespace tare::harness
