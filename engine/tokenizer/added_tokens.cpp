#include "engine/tokenizer/added_tokens.h"

#include <algorithm>
#include <utility>

namespace tare::engine {

AddedTokenFinder::AddedTokenFinder(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  std::stable_sort(tokens_.begin(), tokens_.end(),
                   [](const AddedToken& a, const AddedToken& b) { return a.content.size() > b.content.size(); });
  for (std::uint32_t i = 0; i < tokens_.size(); ++i)
    by_first_byte_[static_cast<unsigned char>(tokens_[i].content.at(0))].push_back(i);
}

std::vector<TextPart> AddedTokenFinder::split(std::string_view text) const {
  std::vector<TextPart> parts;
  std::size_t taken = 0;
  std::size_t position = 0;
  while (position < text.size()) {
    const auto& candidates = by_first_byte_[static_cast<unsigned char>(text[position])];
    const auto found = std::find_if(candidates.begin(), candidates.end(), [&](std::uint32_t candidate) {
      return text.substr(position).starts_with(tokens_[candidate].content);
    });
    if (found == candidates.end()) {
      ++position;
      continue;
    }
    const AddedToken& token = tokens_[*found];
    if (taken < position) parts.push_back({text.substr(taken, position - taken)});
    parts.push_back({text.substr(position, token.content.size()), token.id});
    position += token.content.size();
    taken = position;
  }
  if (taken < text.size()) parts.push_back({text.substr(taken)});
  return parts;
}

}  // namespace tare::engine
