// Prompts in the Spec-Bench format: one JSON object a line with question_id, category and turns.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace tare::forced {

struct Prompt {
  std::string id;  // question_id as text
  std::string category;
  std::vector<std::string> turns;  // at least one, none empty; only the first is measured (see docs/method)
};

struct PromptFile {
  std::vector<Prompt> prompts;
  std::string digest;  // of the file's bytes
};

// Which prompts of a file an experiment uses, applied in this order. Empty lists and 0 mean "all".
struct PromptSelection {
  std::vector<std::string> ids;
  std::vector<std::string> categories;
  std::int64_t limit = 0;  // the first `limit` in file order after the other filters, taken evenly over categories
};

// Throws Error (input) naming file and line: no JSON, a missing or empty field, a duplicate question_id; and for a file
// without prompts. Fields other than the three (reference, ...) are allowed and not read.
[[nodiscard]] PromptFile read_prompts(const std::filesystem::path& path);

// Throws Error (input) when nothing is left or when a named id or category does not occur.
[[nodiscard]] std::vector<Prompt> select_prompts(const std::vector<Prompt>& prompts, const PromptSelection& selection);

}  // namespace tare::forced
