#include "forced/windows.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "base/digest.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json_reader.h"

namespace tare::forced {
namespace {

TextWindow parse_window(std::string_view line, const std::string& where, const engine::Tokenizer* tokenizer,
                        std::int64_t window_tokens) {
  const Json json = parse_json(line, where);
  JsonReader reader(json, where);
  TextWindow window;
  window.id = reader.text("id");
  if (window.id.empty()) throw reader.error("id", "is empty");
  window.kind = reader.word("kind", {"prose", "code"});
  reader.ignore("source");
  if (reader.has("tokens")) {
    if (reader.has("text")) throw reader.error("tokens", "stands beside text; a window is text or ids");
    for (const Json& token : reader.array("tokens")) {
      if (!token.is_number_unsigned() || token.get<std::uint64_t>() > INT32_MAX)
        throw reader.error("tokens", "must hold token ids");
      window.tokens.push_back(token.get<std::int32_t>());
    }
  } else {
    const std::string text = reader.text("text");
    if (tokenizer == nullptr)
      throw reader.error("text", "cannot be read without a tokenizer", "give windows as token ids");
    window.tokens = tokenizer->encode(text);
  }
  reader.refuse_unknown_keys();
  if (static_cast<std::int64_t>(window.tokens.size()) < window_tokens)
    throw input_error(fmt::format("{}: window {}", where, window.id),
                      fmt::format("has {} tokens, {} are scored", window.tokens.size(), window_tokens),
                      "a longer text, or a smaller --window-tokens");
  window.tokens.resize(static_cast<std::size_t>(window_tokens));
  return window;
}

}  // namespace

WindowFile read_windows(const std::filesystem::path& path, const engine::Tokenizer* tokenizer,
                        std::int64_t window_tokens, std::int64_t limit) {
  if (window_tokens < 1) throw input_error("--window-tokens", "must be at least 1");
  if (limit < 0) throw input_error("--windows", "must be at least 0");
  const std::string content = read_text_file(path);
  WindowFile file;
  file.texts_digest = digest(content);
  std::set<std::string> ids;
  std::size_t begin = 0;
  const auto wanted = static_cast<std::size_t>(limit);
  for (std::size_t line = 1; begin < content.size() && (limit == 0 || file.windows.size() < wanted); ++line) {
    const std::size_t end = std::min(content.find('\n', begin), content.size());
    const std::string_view text(content.data() + begin, end - begin);
    begin = end + 1;
    if (text.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const std::string where = fmt::format("{} line {}", path.string(), line);
    TextWindow window = parse_window(text, where, tokenizer, window_tokens);
    if (!ids.insert(window.id).second) throw input_error(where, fmt::format("id {} appears twice", window.id));
    file.windows.push_back(std::move(window));
  }
  if (file.windows.empty())
    throw input_error(path.string(), "holds no windows", "one JSON object a line: id, kind, text or tokens");
  if (file.windows.size() < wanted)
    throw input_error(path.string(), fmt::format("holds {} windows, {} are wanted", file.windows.size(), limit));
  std::vector<std::int32_t> tokens;
  tokens.reserve(file.windows.size() * static_cast<std::size_t>(window_tokens));
  for (const TextWindow& window : file.windows) tokens.insert(tokens.end(), window.tokens.begin(), window.tokens.end());
  file.tokens_digest = digest_tokens(tokens);
  return file;
}

}  // namespace tare::forced
