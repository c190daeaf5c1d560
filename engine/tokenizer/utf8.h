// UTF-8, as strict as Unicode's definition D92: no overlong forms, no surrogates, nothing above U+10FFFF.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tare::engine {

// Length in bytes of the valid sequence at `position`, 1 to 4; 0 when the bytes there are not valid.
[[nodiscard]] std::size_t utf8_sequence_length(std::string_view text, std::size_t position);

// The code point of a valid sequence of `length` bytes at `position`.
[[nodiscard]] char32_t utf8_code_point(std::string_view text, std::size_t position, std::size_t length);

void append_utf8(std::string& text, char32_t code_point);

// The longest valid prefix.
[[nodiscard]] std::size_t utf8_valid_prefix(std::string_view text);

}  // namespace tare::engine
