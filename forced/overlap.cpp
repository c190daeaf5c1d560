#include "forced/overlap.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "base/digest.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json_reader.h"

namespace tare::forced {
namespace {

std::uint64_t hash_of(std::span<const std::int32_t> run) {
  return hash64({reinterpret_cast<const char*>(run.data()), run.size_bytes()});
}

void sort_once(std::vector<std::uint64_t>& hashes) {
  std::sort(hashes.begin(), hashes.end());
  hashes.erase(std::unique(hashes.begin(), hashes.end()), hashes.end());
}

void append_hashes(std::vector<std::uint64_t>& hashes, std::span<const std::int32_t> tokens) {
  for (std::size_t first = 0; first + kRunTokens <= tokens.size(); ++first)
    hashes.push_back(hash_of(tokens.subspan(first, kRunTokens)));
}

std::vector<std::int32_t> learned_tokens(std::string_view line, const std::string& where,
                                         const engine::Tokenizer* tokenizer) {
  const Json json = parse_json(line, where);
  JsonReader reader(json, where);
  if (reader.has("text")) {
    if (tokenizer == nullptr) throw reader.error("text", "cannot be read without a tokenizer");
    return tokenizer->encode(reader.text("text"));
  }
  std::vector<std::int32_t> tokens;
  for (const Json& token : reader.array("tokens")) {
    if (!token.is_number_unsigned() || token.get<std::uint64_t>() > INT32_MAX)
      throw reader.error("tokens", "must hold token ids");
    tokens.push_back(token.get<std::int32_t>());
  }
  return tokens;
}

}  // namespace

std::vector<std::uint64_t> run_hashes(std::span<const std::int32_t> tokens) {
  std::vector<std::uint64_t> hashes;
  append_hashes(hashes, tokens);
  sort_once(hashes);
  return hashes;
}

std::vector<std::uint64_t> run_hashes(const std::vector<std::vector<std::int32_t>>& texts) {
  std::vector<std::uint64_t> hashes;
  for (const std::vector<std::int32_t>& text : texts) append_hashes(hashes, text);
  sort_once(hashes);
  return hashes;
}

std::vector<std::vector<std::int32_t>> read_learned_texts(const std::filesystem::path& path,
                                                          const engine::Tokenizer* tokenizer) {
  const std::string content = read_text_file(path);
  std::vector<std::vector<std::int32_t>> texts;
  std::size_t begin = 0;
  for (int line = 1; begin < content.size(); ++line) {
    const std::size_t end = std::min(content.find('\n', begin), content.size());
    const std::string_view text(content.data() + begin, end - begin);
    begin = end + 1;
    if (text.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    texts.push_back(learned_tokens(text, fmt::format("{} line {}", path.string(), line), tokenizer));
  }
  if (texts.empty()) throw input_error(path.string(), "holds no texts");
  return texts;
}

std::vector<Overlap> find_overlaps(std::span<const TextWindow> windows, std::span<const std::uint64_t> seen) {
  std::vector<Overlap> overlaps;
  for (const TextWindow& window : windows) {
    const std::vector<std::uint64_t> own = run_hashes(window.tokens);
    const auto found = std::count_if(
        own.begin(), own.end(), [&](std::uint64_t hash) { return std::binary_search(seen.begin(), seen.end(), hash); });
    const double share = own.empty() ? 0 : static_cast<double>(found) / static_cast<double>(own.size());
    if (share > kMostSeenShare) overlaps.push_back({window.id, share});
  }
  std::stable_sort(overlaps.begin(), overlaps.end(),
                   [](const Overlap& a, const Overlap& b) { return a.seen_share > b.seen_share; });
  return overlaps;
}

void refuse_overlaps(std::span<const TextWindow> windows, std::span<const std::uint64_t> seen,
                     const std::string& where) {
  const std::vector<Overlap> overlaps = find_overlaps(windows, seen);
  if (overlaps.empty()) return;
  throw Error(
      ErrorKind::kInvalid,
      fmt::format("{} of {} windows were learned from: {:.0f} % of the runs of {} tokens of window {} are in it",
                  overlaps.size(), windows.size(), 100 * overlaps.front().seen_share, kRunTokens,
                  overlaps.front().window),
      where, "score other texts, or learn from others");
}

}  // namespace tare::forced
