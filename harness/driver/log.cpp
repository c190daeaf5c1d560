#include "harness/driver/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

namespace tare::harness {

void log_to_standard_error() {
  spdlog::set_default_logger(spdlog::stderr_logger_st("tare"));
  spdlog::set_pattern("%l: %v");
}

void log_line(LogLevel level, const std::string& text) {
  spdlog::log(level == LogLevel::kInfo ? spdlog::level::info : spdlog::level::warn, "{}", text);
}

}  // namespace tare::harness
