#include "forced/prompts.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/digest.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json_reader.h"
#include "base/text.h"

namespace tare::forced {
namespace {

Prompt parse_prompt(std::string_view line, const std::string& where) {
  const Json json = parse_json(line, where);
  JsonReader reader(json, where);
  Prompt prompt;
  const Json& id = reader.any("question_id");
  if (id.is_number_integer()) {
    prompt.id = std::to_string(id.get<std::int64_t>());
  } else if (id.is_string() && !id.get_ref<const std::string&>().empty()) {
    prompt.id = id.get<std::string>();
  } else {
    throw reader.error("question_id", "must be an integer or a text");
  }
  prompt.category = reader.text("category");
  if (reader.has("tokens")) {
    if (reader.has("turns")) throw reader.error("tokens", "stands beside turns; a prompt is text or ids");
    for (const Json& token : reader.array("tokens")) {
      if (!token.is_number_unsigned() || token.get<std::uint64_t>() > INT32_MAX)
        throw reader.error("tokens", "must hold token ids");
      prompt.tokens.push_back(token.get<std::int32_t>());
    }
    if (prompt.tokens.empty()) throw reader.error("tokens", "is empty");
    return prompt;
  }
  prompt.turns = reader.texts("turns");
  if (prompt.turns.empty()) throw reader.error("turns", "has no turn");
  for (const std::string& turn : prompt.turns)
    if (turn.empty()) throw reader.error("turns", "has an empty turn");
  return prompt;
}

bool contains(const std::vector<std::string>& list, const std::string& value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

void refuse_missing(const std::vector<std::string>& wanted, const std::vector<std::string>& there,
                    const std::string& key) {
  for (const std::string& name : wanted)
    if (!contains(there, name))
      throw input_error("prompts." + key, fmt::format("'{}' does not occur in the prompt file", name),
                        name_hint(name, there));
}

// The first `limit` prompts so that categories get equal shares (the first categories one more), file order kept.
std::vector<Prompt> take_evenly(std::vector<Prompt> prompts, std::size_t limit) {
  std::map<std::string, std::vector<std::size_t>> by_category;
  for (std::size_t i = 0; i < prompts.size(); ++i) by_category[prompts[i].category].push_back(i);
  std::vector<std::size_t> taken;
  for (std::size_t round = 0; taken.size() < limit; ++round) {
    bool any = false;
    for (const auto& [category, indices] : by_category) {
      if (round >= indices.size() || taken.size() >= limit) continue;
      taken.push_back(indices[round]);
      any = true;
    }
    if (!any) break;
  }
  std::sort(taken.begin(), taken.end());
  std::vector<Prompt> result;
  result.reserve(taken.size());
  for (const std::size_t index : taken) result.push_back(std::move(prompts[index]));
  return result;
}

}  // namespace

PromptFile read_prompts(const std::filesystem::path& path) {
  const std::string content = read_text_file(path);
  PromptFile file;
  file.digest = digest(content);
  std::set<std::string> ids;
  std::size_t begin = 0;
  for (std::size_t line = 1; begin < content.size(); ++line) {
    const std::size_t end = std::min(content.find('\n', begin), content.size());
    const std::string_view text(content.data() + begin, end - begin);
    begin = end + 1;
    if (text.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const std::string where = fmt::format("{} line {}", path.string(), line);
    Prompt prompt = parse_prompt(text, where);
    if (!ids.insert(prompt.id).second) throw input_error(where, fmt::format("question_id {} appears twice", prompt.id));
    file.prompts.push_back(std::move(prompt));
  }
  if (file.prompts.empty())
    throw input_error(path.string(), "holds no prompts",
                      "one JSON object a line: question_id, category, turns or tokens");
  return file;
}

std::vector<Prompt> select_prompts(const std::vector<Prompt>& prompts, const PromptSelection& selection) {
  std::vector<std::string> ids;
  ids.reserve(prompts.size());
  std::vector<std::string> categories;
  for (const Prompt& prompt : prompts) {
    ids.push_back(prompt.id);
    if (!contains(categories, prompt.category)) categories.push_back(prompt.category);
  }
  refuse_missing(selection.ids, ids, "ids");
  refuse_missing(selection.categories, categories, "categories");
  std::vector<Prompt> selected;
  for (const Prompt& prompt : prompts) {
    const bool id_matches = selection.ids.empty() || contains(selection.ids, prompt.id);
    const bool category_matches = selection.categories.empty() || contains(selection.categories, prompt.category);
    if (id_matches && category_matches) selected.push_back(prompt);
  }
  if (selection.limit > 0) selected = take_evenly(std::move(selected), static_cast<std::size_t>(selection.limit));
  if (selected.empty()) throw input_error("prompts", "no prompt is left after ids, categories and limit");
  return selected;
}

}  // namespace tare::forced
