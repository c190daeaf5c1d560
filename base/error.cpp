#include "base/error.h"

#include <utility>

namespace tare {
namespace {

std::string message(const ErrorParts& parts) {
  return parts.where.empty() ? parts.what : parts.where + ": " + parts.what;
}

}  // namespace

Error::Error(ErrorParts parts) : std::runtime_error(message(parts)), parts_(std::move(parts)) {}

Error::Error(ErrorKind kind, std::string what, std::string where, std::string hint)
    : Error(ErrorParts{kind, std::move(what), std::move(where), std::move(hint)}) {}

Error Error::within(const std::string& outer) const {
  ErrorParts parts = parts_;
  parts.where = parts.where.empty() ? outer : outer + ": " + parts.where;
  return Error(std::move(parts));
}

Error input_error(std::string where, std::string what, std::string hint) {
  return Error(ErrorKind::kInput, std::move(what), std::move(where), std::move(hint));
}

Error internal_error(std::string what) {
  return Error(ErrorKind::kInternal, std::move(what), {}, "this is a fault of tare; please report it");
}

int exit_code(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kInput:
    case ErrorKind::kInvalid:
      return 2;
    case ErrorKind::kEnvironment:
      return 4;
    case ErrorKind::kInterrupted:
      return 130;
    case ErrorKind::kInternal:
      return 5;
  }
  return 5;
}

}  // namespace tare
