#include "engine/tokenizer/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "base/digest.h"
#include "base/error.h"
#include "base/file.h"
#include "engine/tokenizer/added_tokens.h"
#include "engine/tokenizer/byte_pair_encoding.h"
#include "engine/tokenizer/nfc.h"
#include "engine/tokenizer/split_pattern.h"
#include "engine/tokenizer/tokenizer_file.h"
#include "engine/tokenizer/utf8.h"

namespace tare::engine {
namespace {

// Pieces longer than this are seldom seen twice.
constexpr std::size_t kLongestRemembered = 64;

AddedTokenFinder finder_of(const std::vector<AddedToken>& tokens, bool normalized, bool nfc) {
  std::vector<AddedToken> chosen;
  for (const AddedToken& token : tokens) {
    if (token.normalized != normalized) continue;
    chosen.push_back(token);
    if (normalized && nfc) chosen.back().content = normalize_nfc(token.content);
  }
  return AddedTokenFinder(std::move(chosen));
}

}  // namespace

struct Tokenizer::Model {
  std::string path;
  std::string digest;
  bool nfc;
  AddedTokenFinder raw_tokens;         // looked for in the text as it is
  AddedTokenFinder normalized_tokens;  // looked for after normalisation
  std::vector<SplitPattern> patterns;
  BytePairEncoding encoding;
  std::vector<std::string> token_bytes;
  std::unordered_map<std::string, std::int32_t> special_ids;

  // What one call of encode() works with.
  struct Work {
    SplitPattern::Workspace workspace;
    std::unordered_map<std::string, std::vector<std::int32_t>> remembered;  // ids of the pieces seen so far
    std::vector<std::int32_t> ids;
  };

  void encode_pieces(std::string_view valid, Work& work) const {
    std::vector<std::string_view> pieces = {valid};
    for (const SplitPattern& pattern : patterns) {
      std::vector<std::string_view> finer;
      for (const std::string_view piece : pieces) pattern.split(piece, work.workspace, finer);
      pieces = std::move(finer);
    }
    for (const std::string_view piece : pieces) {
      if (piece.size() > kLongestRemembered) {
        encoding.encode(piece, work.ids);
        continue;
      }
      const auto [found, added] = work.remembered.try_emplace(std::string(piece));
      if (added) encoding.encode(piece, found->second);
      work.ids.insert(work.ids.end(), found->second.begin(), found->second.end());
    }
  }

  // Plain text that is valid UTF-8: normalise, look for tokens again, split, encode.
  void encode_valid(std::string_view valid, Work& work) const {
    if (nfc)
      encode_parts(normalize_nfc(valid), work);
    else
      encode_parts(valid, work);
  }

  void encode_parts(std::string_view text, Work& work) const {
    for (const TextPart& part : normalized_tokens.split(text)) {
      if (part.id == TextPart::kPlainText)
        encode_pieces(part.text, work);
      else
        work.ids.push_back(part.id);
    }
  }

  // Plain text of any bytes: each byte that is not part of valid UTF-8 stands alone.
  void encode_plain(std::string_view text, Work& work) const {
    while (!text.empty()) {
      const std::size_t valid = utf8_valid_prefix(text);
      if (valid > 0) encode_valid(text.substr(0, valid), work);
      text.remove_prefix(valid);
      while (!text.empty() && utf8_sequence_length(text, 0) == 0) {
        encoding.encode(text.substr(0, 1), work.ids);
        text.remove_prefix(1);
      }
    }
  }
};

Tokenizer::Tokenizer(std::unique_ptr<Model> model) : model_(std::move(model)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Tokenizer Tokenizer::from_file(const std::filesystem::path& tokenizer_json) {
  const std::string text = read_text_file(tokenizer_json);
  TokenizerFile file = parse_tokenizer_file(text, tokenizer_json.string());
  std::vector<SplitPattern> patterns;
  for (const std::string& pattern : file.split_patterns)
    patterns.emplace_back(pattern, tokenizer_json.string() + ": pre_tokenizer pattern");
  std::unordered_map<std::string, std::int32_t> special_ids;
  for (const AddedToken& token : file.added_tokens) special_ids.emplace(token.content, token.id);
  return Tokenizer(std::make_unique<Model>(
      Model{tokenizer_json.string(), tare::digest(std::string_view(text)), file.nfc,
            finder_of(file.added_tokens, false, file.nfc), finder_of(file.added_tokens, true, file.nfc),
            std::move(patterns), BytePairEncoding(file.merges, file.byte_ids, std::move(file.whole_pieces)),
            std::move(file.token_bytes), std::move(special_ids)}));
}

std::vector<std::int32_t> Tokenizer::encode(std::string_view text) const {
  Model::Work work;
  for (const TextPart& part : model_->raw_tokens.split(text)) {
    if (part.id == TextPart::kPlainText)
      model_->encode_plain(part.text, work);
    else
      work.ids.push_back(part.id);
  }
  return std::move(work.ids);
}

std::string Tokenizer::decode(std::span<const std::int32_t> ids) const {
  std::string text;
  for (const std::int32_t id : ids) text += token_bytes(id);
  return text;
}

std::string_view Tokenizer::token_bytes(std::int32_t id) const {
  const bool inside = id >= 0 && id < vocab_size() && !model_->token_bytes[static_cast<std::size_t>(id)].empty();
  if (!inside)
    throw input_error(model_->path, fmt::format("has no token with id {} (ids 0 to {})", id, vocab_size() - 1));
  return model_->token_bytes[static_cast<std::size_t>(id)];
}

std::int32_t Tokenizer::vocab_size() const {
  return static_cast<std::int32_t>(model_->token_bytes.size());
}

std::optional<std::int32_t> Tokenizer::special_token(std::string_view text) const {
  const auto found = model_->special_ids.find(std::string(text));
  if (found == model_->special_ids.end()) return std::nullopt;
  return found->second;
}

const std::string& Tokenizer::digest() const {
  return model_->digest;
}

}  // namespace tare::engine
