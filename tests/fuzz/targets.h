// The parsers under fuzzing.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace tare::fuzz {

struct Target {
  std::string name;  // of its folder in cases/
  // Parses the bytes and uses what comes out. Throws nothing but tare::Error.
  std::function<void(std::string_view)> parse;
  std::vector<std::string> seeds;  // inputs it accepts
};

[[nodiscard]] std::vector<Target> engine_targets();
[[nodiscard]] std::vector<Target> harness_targets();

[[nodiscard]] std::vector<Target> all_targets();

// Runs a parser that wants a file: the bytes lie in one of the temporary folder while `parse` runs.
void with_file(std::string_view bytes, const std::string& name, const std::function<void(const std::string&)>& parse);

// What a target answers: an Error is an answer, anything else it throws goes on.
enum class Answer { kValue, kError };
Answer answer_of(const Target& target, std::string_view bytes);

}  // namespace tare::fuzz
