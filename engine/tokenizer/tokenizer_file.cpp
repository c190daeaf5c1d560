#include "engine/tokenizer/tokenizer_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/json_reader.h"
#include "engine/tokenizer/split_pattern.h"
#include "engine/tokenizer/utf8.h"

namespace tare::engine {
namespace {

constexpr std::int64_t kMostTokens = 1 << 24;  // far above any vocabulary; keeps a hostile id from taking all memory

// The pattern that ByteLevel uses by itself (use_regex), as GPT-2 had it.
constexpr const char* kByteLevelPattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// Byte-level alphabet (GPT-2): each byte is written as one printable character; printable bytes stand for themselves,
// the others take the code points from U+0100 on, in order.
std::array<char32_t, 256> make_byte_alphabet() {
  std::array<char32_t, 256> alphabet{};
  char32_t next = 0x100;
  for (unsigned byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
    alphabet[byte] = printable ? static_cast<char32_t>(byte) : next++;
  }
  return alphabet;
}

class Parser {
 public:
  Parser(const SortedJson& file, std::string where) : file_(file), where_(std::move(where)) {
    const std::array<char32_t, 256> alphabet = make_byte_alphabet();
    for (unsigned byte = 0; byte < 256; ++byte) byte_of_.emplace(alphabet[byte], static_cast<char>(byte));
  }

  TokenizerFile parse() {
    if (!file_.is_object()) throw input_error(where_, "must be an object");
    for (const char* key : {"truncation", "padding"})
      if (present(file_, key)) refuse(key, "is not supported", "save the tokenizer without it");
    read_normalizer();
    read_pre_tokenizer();
    if (type_of(file_, "decoder", "decoder") != "ByteLevel") refuse("decoder.type", "must be ByteLevel");
    read_model();
    read_added_tokens();
    return std::move(result_);
  }

 private:
  const SortedJson& file_;
  std::string where_;
  std::unordered_map<char32_t, char> byte_of_;
  std::unordered_map<std::string, std::int32_t> ids_;  // of the tokens as the file writes them
  TokenizerFile result_;

  [[noreturn]] void refuse(const std::string& field, const std::string& what, const std::string& hint = {}) const {
    throw input_error(fmt::format("{}: {}", where_, field), what, hint);
  }

  static bool present(const SortedJson& object, const char* key) {
    return object.contains(key) && !object.at(key).is_null();
  }

  const SortedJson& object_of(const SortedJson& parent, const char* key, const std::string& field) const {
    if (!parent.is_object() || !parent.contains(key) || !parent.at(key).is_object()) refuse(field, "must be an object");
    return parent.at(key);
  }

  std::string text_of(const SortedJson& object, const char* key, const std::string& field) const {
    if (!object.is_object() || !object.contains(key) || !object.at(key).is_string()) refuse(field, "must be a text");
    return object.at(key).get<std::string>();
  }

  std::string type_of(const SortedJson& parent, const char* key, const std::string& field) const {
    return text_of(object_of(parent, key, field), "type", field + ".type");
  }

  bool flag(const SortedJson& object, const char* key, const std::string& field, bool absent) const {
    if (!present(object, key)) return absent;
    if (!object.at(key).is_boolean()) refuse(fmt::format("{}.{}", field, key), "must be true or false");
    return object.at(key).get<bool>();
  }

  void read_normalizer() {
    if (!present(file_, "normalizer")) return;
    const SortedJson& normalizer = object_of(file_, "normalizer", "normalizer");
    const std::string type = text_of(normalizer, "type", "normalizer.type");
    if (type == "NFC") {
      result_.nfc = true;
      return;
    }
    if (type != "Sequence") refuse("normalizer.type", fmt::format("'{}' is not supported, only NFC", type));
    if (!present(normalizer, "normalizers") || !normalizer.at("normalizers").is_array())
      refuse("normalizer.normalizers", "must be an array");
    for (const SortedJson& step : normalizer.at("normalizers")) {
      if (text_of(step, "type", "normalizer.normalizers") != "NFC")
        refuse("normalizer.normalizers", "only NFC is supported");
      result_.nfc = true;
    }
  }

  void read_byte_level(const SortedJson& step, const std::string& field) {
    if (flag(step, "add_prefix_space", field, true)) refuse(field + ".add_prefix_space", "must be false");
    if (flag(step, "use_regex", field, true)) result_.split_patterns.emplace_back(kByteLevelPattern);
  }

  void read_split(const SortedJson& step, const std::string& field) {
    const std::string behavior = text_of(step, "behavior", field + ".behavior");
    if (behavior != "Isolated")
      refuse(field + ".behavior", fmt::format("'{}' is not supported, only Isolated", behavior));
    if (flag(step, "invert", field, false)) refuse(field + ".invert", "must be false");
    const SortedJson& pattern = object_of(step, "pattern", field + ".pattern");
    if (pattern.contains("Regex"))
      result_.split_patterns.push_back(text_of(pattern, "Regex", field + ".pattern.Regex"));
    else
      result_.split_patterns.push_back(literal_pattern(text_of(pattern, "String", field + ".pattern.String")));
  }

  void read_pre_tokenizer() {
    const SortedJson& top = object_of(file_, "pre_tokenizer", "pre_tokenizer");
    const std::string type = text_of(top, "type", "pre_tokenizer.type");
    if (type == "ByteLevel") {
      read_byte_level(top, "pre_tokenizer");
      return;
    }
    if (type != "Sequence")
      refuse("pre_tokenizer.type", fmt::format("'{}' is not supported, only ByteLevel and Sequence", type));
    if (!present(top, "pretokenizers") || !top.at("pretokenizers").is_array() || top.at("pretokenizers").empty())
      refuse("pre_tokenizer.pretokenizers", "must be an array");
    const SortedJson& steps = top.at("pretokenizers");
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const std::string field = fmt::format("pre_tokenizer.pretokenizers[{}]", i);
      const std::string step = text_of(steps[i], "type", field + ".type");
      const bool last = i + 1 == steps.size();
      if (last && step != "ByteLevel") refuse(field + ".type", "the last step must be ByteLevel");
      if (!last && step != "Split") refuse(field + ".type", fmt::format("'{}' is not supported, only Split", step));
      if (last)
        read_byte_level(steps[i], field);
      else
        read_split(steps[i], field);
    }
  }

  // The bytes a vocabulary entry stands for; an entry outside the alphabet stands for its own text.
  std::string bytes_of(const std::string& written) const {
    std::string bytes;
    for (std::size_t i = 0; i < written.size();) {
      const std::size_t length = utf8_sequence_length(written, i);
      const auto found = byte_of_.find(utf8_code_point(written, i, length));
      if (found == byte_of_.end()) return written;
      bytes += found->second;
      i += length;
    }
    return bytes;
  }

  std::int32_t id_of(const SortedJson& value, const std::string& field) const {
    if (!value.is_number_unsigned() || value.get<std::uint64_t>() >= static_cast<std::uint64_t>(kMostTokens))
      refuse(field, fmt::format("must be an id from 0 to {}, is {}", kMostTokens - 1, brief_json(value)));
    return value.get<std::int32_t>();
  }

  // Gives an id its bytes; false when the id has a token already.
  bool place_token(std::int32_t id, std::string bytes) {
    const auto index = static_cast<std::size_t>(id);
    if (index >= result_.token_bytes.size()) result_.token_bytes.resize(index + 1);
    if (!result_.token_bytes[index].empty()) return false;
    result_.token_bytes[index] = std::move(bytes);
    return true;
  }

  void read_model() {
    const SortedJson& model = object_of(file_, "model", "model");
    // Old files leave the type out.
    if (present(model, "type") && text_of(model, "type", "model.type") != "BPE") refuse("model.type", "must be BPE");
    if (flag(model, "byte_fallback", "model", false)) refuse("model.byte_fallback", "must be false");
    if (present(model, "dropout") && model.at("dropout") != 0) refuse("model.dropout", "must be null");
    for (const char* affix : {"continuing_subword_prefix", "end_of_word_suffix"})
      if (present(model, affix) && model.at(affix) != "")
        refuse(fmt::format("model.{}", affix), "must be null or empty");
    read_vocabulary(object_of(model, "vocab", "model.vocab"));
    if (!present(model, "merges") || !model.at("merges").is_array()) refuse("model.merges", "must be an array");
    const SortedJson& merges = model.at("merges");
    for (std::size_t i = 0; i < merges.size(); ++i) read_merge(merges[i], i);
    if (flag(model, "ignore_merges", "model", false))
      for (const auto& [written, id] : ids_) result_.whole_pieces.emplace(bytes_of(written), id);
  }

  void read_vocabulary(const SortedJson& vocabulary) {
    for (const auto& [written, value] : vocabulary.items()) {
      const std::int32_t id = id_of(value, fmt::format("model.vocab['{}']", written));
      if (written.empty()) refuse("model.vocab", "has an empty token");
      ids_.emplace(written, id);
      if (!place_token(id, bytes_of(written)))
        refuse(fmt::format("model.vocab['{}']", written), fmt::format("shares id {} with another token", id));
    }
    for (const auto& [code_point, byte] : byte_of_) {
      std::string written;
      append_utf8(written, code_point);
      const auto found = ids_.find(written);
      if (found == ids_.end())
        refuse("model.vocab",
               fmt::format("has no token for byte 0x{:02X} ('{}')", static_cast<unsigned char>(byte), written),
               "a byte-level vocabulary has all 256 bytes; without one of them some texts cannot be written");
      result_.byte_ids[static_cast<unsigned char>(byte)] = found->second;
    }
  }

  void read_merge(const SortedJson& merge, std::size_t index) {
    const std::string field = fmt::format("model.merges[{}]", index);
    std::string left;
    std::string right;
    if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
      left = merge[0].get<std::string>();
      right = merge[1].get<std::string>();
    } else if (merge.is_string()) {
      const std::string text = merge.get<std::string>();
      const std::size_t space = text.find(' ');
      if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos)
        refuse(field, fmt::format("must be two tokens and a space between, is '{}'", text));
      left = text.substr(0, space);
      right = text.substr(space + 1);
    } else {
      refuse(field, "must be a text or two texts");
    }
    const auto token = [&](const std::string& written) {
      const auto found = ids_.find(written);
      if (found == ids_.end()) refuse(field, fmt::format("'{}' is not in model.vocab", written));
      return found->second;
    };
    const std::int32_t left_id = token(left);
    const std::int32_t right_id = token(right);
    result_.merges.push_back({left_id, right_id, token(left + right)});
  }

  void read_added_tokens() {
    if (!present(file_, "added_tokens")) return;
    if (!file_.at("added_tokens").is_array()) refuse("added_tokens", "must be an array");
    std::set<std::string> contents;
    for (const SortedJson& entry : file_.at("added_tokens")) {
      const std::string field = fmt::format("added_tokens[{}]", contents.size());
      AddedToken token;
      token.content = text_of(entry, "content", field + ".content");
      if (token.content.empty()) refuse(field + ".content", "is empty");
      if (!contents.insert(token.content).second) refuse(field, fmt::format("'{}' appears twice", token.content));
      if (!present(entry, "id")) refuse(field + ".id", "is missing");
      token.id = id_of(entry.at("id"), field + ".id");
      for (const char* option : {"single_word", "lstrip", "rstrip"})
        if (flag(entry, option, field, false)) refuse(fmt::format("{}.{}", field, option), "must be false");
      token.special = flag(entry, "special", field, false);
      token.normalized = flag(entry, "normalized", field, !token.special);
      const auto in_vocabulary = ids_.find(token.content);
      if (in_vocabulary != ids_.end() && in_vocabulary->second != token.id)
        refuse(field + ".id", fmt::format("is {}, but model.vocab gives '{}' the id {}", token.id, token.content,
                                          in_vocabulary->second));
      if (in_vocabulary != ids_.end())
        result_.token_bytes[static_cast<std::size_t>(token.id)] = token.content;
      else if (!place_token(token.id, token.content))
        refuse(field + ".id", fmt::format("{} is the id of another token", token.id));
      result_.added_tokens.push_back(std::move(token));
    }
  }
};

}  // namespace

TokenizerFile parse_tokenizer_file(std::string_view text, const std::string& where) {
  return Parser(parse_sorted_json(text, where), where).parse();
}

}  // namespace tare::engine
