// Tokens that are recognised in the text itself before anything else looks at it: <|endoftext|> and the like.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tare::engine {

struct AddedToken {
  std::string content;
  std::int32_t id = 0;
  bool special = false;
  bool normalized = false;  // looked for in the normalised text
};

// A part of a text: an added token, or text between them (id is kPlainText).
struct TextPart {
  static constexpr std::int32_t kPlainText = -1;
  std::string_view text;
  std::int32_t id = kPlainText;
};

class AddedTokenFinder {
 public:
  explicit AddedTokenFinder(std::vector<AddedToken> tokens);

  // Leftmost match first; of those that begin at one place the longest. Empty parts are left out.
  [[nodiscard]] std::vector<TextPart> split(std::string_view text) const;

 private:
  std::vector<AddedToken> tokens_;                             // by falling length
  std::array<std::vector<std::uint32_t>, 256> by_first_byte_;  // indices into tokens_
};

}  // namespace tare::engine
