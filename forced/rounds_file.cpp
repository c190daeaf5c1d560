#include "forced/rounds_file.h"

#include <fmt/format.h>

#include <numeric>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/file.h"

namespace tare::forced {
namespace {

constexpr std::int64_t kVersion = 1;
constexpr std::int64_t kMostCandidates = std::int64_t{1} << 20;

Json to_json(const engine::RecordedDraft& draft) {
  return {{"round", draft.round},
          {"candidates", draft.candidates},
          {"tokens", draft.tokens},
          {"log_probabilities", draft.log_probabilities}};
}

Json to_json(const RecordedText& text) {
  Json drafts = Json::array();
  for (const engine::RecordedDraft& draft : text.drafts) drafts.push_back(to_json(draft));
  Json json = {{"prompt_id", text.prompt_id},
               {"category", text.category},
               {"prompt_tokens", text.prompt_tokens},
               {"tokens", text.tokens},
               {"rounds", forced::to_json(text.rounds)}};
  if (!text.drafts.empty()) json["drafts"] = std::move(drafts);
  return json;
}

// Integers from `least` to `most`.
std::vector<std::int32_t> integers(JsonReader& reader, const std::string& key, std::int64_t least, std::int64_t most) {
  std::vector<std::int32_t> values;
  for (const Json& element : reader.array(key)) {
    if (!element.is_number_integer() || element.get<std::int64_t>() < least || element.get<std::int64_t>() > most)
      throw reader.error(key,
                         fmt::format("must hold integers from {} to {}, has {}", least, most, brief_json(element)));
    values.push_back(element.get<std::int32_t>());
  }
  return values;
}

engine::RoundShape read_shape(const Json& json, const std::string& where) {
  JsonReader reader(json, where);
  engine::RoundShape shape;
  shape.parents = integers(reader, "parents", -1, INT32_MAX);
  shape.path = integers(reader, "path", 0, INT32_MAX);
  reader.refuse_unknown_keys();
  for (std::size_t node = 0; node < shape.parents.size(); ++node)
    if (shape.parents[node] >= static_cast<std::int32_t>(node) || (shape.parents[node] < 0) != (node == 0))
      throw reader.error("parents",
                         fmt::format("node {} has parent {}; only node 0 has none, and a parent comes before "
                                     "its node",
                                     node, shape.parents[node]));
  std::int32_t last = -1;
  for (const std::int32_t node : shape.path) {
    if (node >= static_cast<std::int32_t>(shape.parents.size()) ||
        shape.parents[static_cast<std::size_t>(node)] != last)
      throw reader.error("path", fmt::format("node {} does not continue node {}", node, last));
    last = node;
  }
  if (shape.path.empty()) throw reader.error("path", "is empty");
  return shape;
}

engine::RecordedDraft read_draft(const Json& json, const std::string& where, std::int64_t rounds, std::int64_t vocab) {
  JsonReader reader(json, where);
  engine::RecordedDraft draft;
  draft.round = reader.integer("round", 0, rounds - 1);
  draft.candidates = reader.integer("candidates", 1, kMostCandidates);
  draft.tokens = integers(reader, "tokens", 0, vocab - 1);
  for (const Json& element : reader.array("log_probabilities")) {
    if (!element.is_number()) throw reader.error("log_probabilities", "must hold numbers");
    draft.log_probabilities.push_back(element.get<float>());
  }
  reader.refuse_unknown_keys();
  draft.rows = static_cast<std::int64_t>(draft.tokens.size()) / draft.candidates;
  if (draft.rows == 0 || draft.tokens.size() != static_cast<std::size_t>(draft.rows * draft.candidates))
    throw reader.error("tokens",
                       fmt::format("has {} entries, not rows of {} candidates", draft.tokens.size(), draft.candidates));
  if (draft.log_probabilities.size() != draft.tokens.size())
    throw reader.error("log_probabilities", "has another size than tokens");
  return draft;
}

RecordedText read_text(const Json& json, const std::string& where, std::int64_t vocab) {
  JsonReader reader(json, where);
  RecordedText text;
  text.prompt_id = reader.text("prompt_id");
  text.category = reader.text("category");
  text.prompt_tokens = integers(reader, "prompt_tokens", 0, vocab - 1);
  text.tokens = integers(reader, "tokens", 0, vocab - 1);
  if (text.prompt_tokens.empty()) throw reader.error("prompt_tokens", "is empty");
  if (text.tokens.empty()) throw reader.error("tokens", "is empty");
  text.rounds = read_round_shapes(reader.array("rounds"), reader.place("rounds"), text.tokens.size() - 1);
  if (reader.has("drafts"))
    for (const Json& draft : reader.array("drafts"))
      text.drafts.push_back(read_draft(draft, fmt::format("{}.drafts[{}]", where, text.drafts.size()),
                                       static_cast<std::int64_t>(text.rounds.size()), vocab));
  reader.refuse_unknown_keys();
  return text;
}

}  // namespace

Json to_json(const std::vector<engine::RoundShape>& rounds) {
  Json json = Json::array();
  for (const engine::RoundShape& shape : rounds) json.push_back({{"parents", shape.parents}, {"path", shape.path}});
  return json;
}

std::vector<engine::RoundShape> read_round_shapes(const Json& rounds, const std::string& where, std::size_t tokens) {
  std::vector<engine::RoundShape> shapes;
  std::size_t committed = 0;
  for (const Json& shape : rounds) {
    shapes.push_back(read_shape(shape, fmt::format("{}[{}]", where, shapes.size())));
    committed += shapes.back().path.size();
  }
  if (committed != tokens)
    throw input_error(where, fmt::format("commit {} tokens, the text has {} after its first", committed, tokens));
  return shapes;
}

RecordedText recorded_text(const std::string& prompt_id, const std::string& category,
                           const std::vector<std::int32_t>& prompt_tokens, const engine::Generation& generation) {
  return {prompt_id, category, prompt_tokens, generation.tokens, generation.shapes, generation.drafts};
}

void write_rounds(const std::filesystem::path& path, const RoundsFile& file) {
  std::string content =
      Json{{"tare_rounds", kVersion}, {"model", file.model}, {"vocab_size", file.vocab_size}, {"options", file.options}}
          .dump() +
      "\n";
  for (const RecordedText& text : file.texts) content += to_json(text).dump() + "\n";
  write_file_atomically(path, content);
}

RoundsFile read_rounds(const std::filesystem::path& path) {
  const std::string content = read_text_file(path);
  RoundsFile file;
  std::set<std::string> ids;
  std::size_t line = 0;
  for (std::size_t begin = 0; begin < content.size();) {
    const std::size_t end = std::min(content.find('\n', begin), content.size());
    const std::string_view text(content.data() + begin, end - begin);
    begin = end + 1;
    ++line;
    const std::string where = fmt::format("{} line {}", path.string(), line);
    const Json json = parse_json(text, where);
    if (line > 1) {
      file.texts.push_back(read_text(json, where, file.vocab_size));
      if (!ids.insert(file.texts.back().prompt_id).second)
        throw input_error(where, fmt::format("prompt_id {} appears twice", file.texts.back().prompt_id));
      continue;
    }
    JsonReader header(json, where);
    if (!header.has("tare_rounds"))
      throw input_error(path.string(), "is not a file of recorded rounds", "tare rollouts writes one");
    const std::int64_t version = header.integer("tare_rounds");
    if (version != kVersion)
      throw header.error("tare_rounds", fmt::format("is version {}, this program reads {}", version, kVersion));
    file.model = header.text("model");
    file.vocab_size = header.integer("vocab_size", 1, INT32_MAX);
    file.options = header.any("options");
    header.refuse_unknown_keys();
  }
  if (file.texts.empty()) throw input_error(path.string(), "holds no recorded texts", "tare rollouts writes them");
  return file;
}

}  // namespace tare::forced
