// How everything in tare fails: one exception type that carries what went wrong, where, and what to do.
//
// The command line prints `error: WHERE: WHAT` and, when there is one, `hint: WHAT TO DO`, and exits with
// exit_code(kind). The exit codes are those of docs/guide/exit-codes.md: 0 good, 1 a gate failed, 2 wrong usage or
// input, or invalid (nothing comparable), 3 inconclusive, 4 the environment lacks something, 5 an internal error.
#pragma once

#include <stdexcept>
#include <string>

namespace tare {

enum class ErrorKind {
  kInput,        // the user gave something wrong: a file, a key, a value, a shape            -> exit code 2
  kInvalid,      // what was measured cannot be compared: validation failed, nothing there   -> exit code 2
  kEnvironment,  // the machine lacks something: a program, a permission, memory, a GPU      -> exit code 4
  kInterrupted,  // the user stopped it (SIGINT); what was finished is kept                  -> exit code 130
  kInternal,     // a broken promise of our own code                                         -> exit code 5
};

struct ErrorParts {
  ErrorKind kind = ErrorKind::kInternal;
  std::string what;   // what went wrong, one sentence without a full stop
  std::string where;  // file, field, tensor, prompt, position; empty when there is no place
  std::string hint;   // what to do about it; empty when what says it all
};

class Error : public std::runtime_error {
 public:
  explicit Error(ErrorParts parts);
  Error(ErrorKind kind, std::string what, std::string where = {}, std::string hint = {});

  [[nodiscard]] ErrorKind kind() const { return parts_.kind; }
  [[nodiscard]] const ErrorParts& parts() const { return parts_; }
  // The same error with `outer` put before the place: Error at "layer 3" inside "model.safetensors".
  [[nodiscard]] Error within(const std::string& outer) const;

 private:
  ErrorParts parts_;
};

// Wrong input, the most frequent kind.
[[nodiscard]] Error input_error(std::string where, std::string what, std::string hint = {});

// A broken promise of our own code; use as `if (!ok) throw internal_error("...")`.
[[nodiscard]] Error internal_error(std::string what);

// Process exit code of a kind, as listed above.
[[nodiscard]] int exit_code(ErrorKind kind);

}  // namespace tare
