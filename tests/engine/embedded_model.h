// The embedded model and the prompts of the suite, as token ids.
#pragma once

#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/json_reader.h"
#include "engine/tokenizer/tokenizer.h"
#include "tests/source_folder.h"

namespace tare::engine::test {

inline std::string embedded_model() {
  return (source_folder() / "models" / "embedded").string();
}

inline std::string embedded_drafter() {
  return embedded_model() + "/drafter";
}

// Every `stride`-th prompt of prompts/tare-64.jsonl.
inline std::vector<std::vector<std::int32_t>> suite_prompts(std::size_t stride) {
  const Tokenizer tokenizer = Tokenizer::from_file(std::filesystem::path(embedded_model()) / "tokenizer.json");
  std::vector<std::vector<std::int32_t>> result;
  std::istringstream lines(read_text_file(source_folder() / "prompts" / "tare-64.jsonl"));
  std::size_t number = 0;
  for (std::string line; std::getline(lines, line); ++number)
    if (number % stride == 0)
      result.push_back(tokenizer.encode(parse_json(line, "prompt")["turns"][0].get<std::string>()));
  return result;
}

}  // namespace tare::engine::test
