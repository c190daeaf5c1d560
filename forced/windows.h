// Texts that are scored: windows of exactly N tokens of prose or code, each seen by a model with nothing before it.
// A file holds one JSON object a line: {"id", "kind": "prose" | "code", "source", "text"}, or "tokens" in place of
// "text" for models without a tokenizer; "source" says where a text is from and is not read. prompts/windows.jsonl is
// ours.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "engine/tokenizer/tokenizer.h"

namespace tare::forced {

inline constexpr std::int64_t kWindowTokens = 2048;  // of a window unless said otherwise

struct TextWindow {
  std::string id;                    // unique in its file
  std::string kind;                  // "prose" or "code"
  std::vector<std::int32_t> tokens;  // the first N of the text; whatever comes after them is not read
};

struct WindowFile {
  std::vector<TextWindow> windows;
  std::string texts_digest;   // of the file's bytes
  std::string tokens_digest;  // of the ids that are scored, one window after the other (base/digest.h)
};

// The first `limit` windows of the file (0: all), each cut to `window_tokens` >= 1 tokens. `tokenizer` may be null when
// the file holds ids. Throws Error (input) naming file, line and window: no JSON, a missing or empty field, both text
// and tokens, an unknown kind, an id that appears twice, text without a tokenizer, a window with fewer tokens; and for
// a file with fewer than `limit` windows or none. That ids are within a vocabulary is the model's to check.
[[nodiscard]] WindowFile read_windows(const std::filesystem::path& path, const engine::Tokenizer* tokenizer,
                                      std::int64_t window_tokens, std::int64_t limit = 0);

}  // namespace tare::forced
