// Prompts in the Spec-Bench format: one JSON object a line with question_id, category and turns. A line may hold token
// ids instead of turns, for models without a tokenizer.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace tare::forced {

struct Prompt {
  std::string id;  // question_id as text
  std::string category;
  std::vector<std::string> turns;  // none empty; only the first is measured (see docs/method)
  // Given as ids: then there are no turns. Ids are within the vocabulary or the worker refuses them.
  std::vector<std::int32_t> tokens = {};
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

// Throws Error (input) naming file and line: no JSON, a missing or empty field, both turns and tokens, a duplicate
// question_id; and for a file without prompts. Other fields (reference, ...) are allowed and not read.
[[nodiscard]] PromptFile read_prompts(const std::filesystem::path& path);

// Throws Error (input) when nothing is left or when a named id or category does not occur.
[[nodiscard]] std::vector<Prompt> select_prompts(const std::vector<Prompt>& prompts, const PromptSelection& selection);

}  // namespace tare::forced
